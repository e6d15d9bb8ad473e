"""The pytest plugin takes the test's own client from another environment, and nothing else from there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.pytest_plugin import pytest_load_initial_conftests
from tests.harness.harness_process import REPOSITORY
from tests.patience import run_command

pytestmark = pytest.mark.slow
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
TESTS = """
import subprocess
import sys
import kafka
import kafka.inner
import jinja2
import only_there

def test_versions(kafka_client_python):
    assert kafka.__version__ == kafka.inner.VERSION == "0.9.9"
    assert jinja2.__version__ != "of the environment"
    assert only_there.HERE
    assert kafka_client_python.endswith("/bin/python")
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """What a virtual environment has of a client, of a package that the tests have too, and of one that they lack."""
    directory = tmp_path / "own" / "lib" / PYTHON / "site-packages"
    for name, text in {
        "kafka/__init__.py": "__version__ = '0.9.9'\n",
        "kafka/inner.py": "VERSION = '0.9.9'\n",
        "jinja2/__init__.py": "__version__ = 'of the environment'\n",
        "only_there.py": "HERE = True\n",
        "kafka_python-0.9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: kafka-python\nVersion: 0.9.9\n",
    }.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return tmp_path / "own"


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "harness.pytest_plugin", "-p", "no:cacheprovider"]
    return run_command([*command, *arguments], cwd=directory, env=environment)


def test_only_the_client_comes_from_the_environment_and_before_the_first_conftest(
    environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text("import kafka\nassert kafka.__version__ == '0.9.9'\n")
    (tmp_path / "test_mine.py").write_text(TESTS)
    done = run_pytest(tmp_path, "--kafka-python-env", str(environment))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"kafka client: kafka-python 0.9.9 from {environment}" in done.stdout


def test_without_the_option_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import sys\ndef test_mine(kafka_client_python):\n    assert kafka_client_python == sys.executable\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kafka client:" not in done.stdout


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ((None, "nowhere"), "no virtual environment that can be used here: expected one of venv"),
        ((None, "older"), f"it is one of python3.1, and the tests run with {PYTHON}"),
        ((None, "hollow"), "no client library in"),
        (("confluent", None), "expected a client in Python with its version: confluent==2.4.0"),
        (("reference==1", None), "versions of reference cannot be chosen"),
        (("confluent==2.4.0", "x"), "expected one of them"),
    ],
)
def test_what_cannot_be_used_is_told(
    chosen: tuple[str | None, str | None], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "older" / "lib" / "python3.1").mkdir(parents=True)
    (tmp_path / "hollow" / "lib" / PYTHON / "site-packages").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    client, environment = chosen
    known = SimpleNamespace(kafka_client=client, kafka_python_env=environment and Path(environment))
    config: Any = SimpleNamespace(known_args_namespace=known, stash={})
    with pytest.raises(pytest.UsageError, match=re.escape(told)):
        pytest_load_initial_conftests(config)


def test_what_cannot_be_used_ends_pytest_before_any_test(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(): pass\n")
    done = run_pytest(tmp_path, "--kafka-python-env", "nowhere")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert "no virtual environment that can be used here" in done.stderr


@pytest.mark.long
def test_a_version_of_a_client_is_installed_and_imported_by_the_tests(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import kafka\n"
        "def test_mine(kafka_cluster):\n"
        "    assert kafka.__version__ == '2.2.8'\n"
        "    producer = kafka.KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)\n"
        "    assert producer.send(kafka_cluster.topic, b'hello').get(30).offset == 0\n"
        "    producer.close()\n"
    )
    done = run_pytest(tmp_path, "--kafka-client", "kafka_python==2.2.8", "--kafka-toxiproxy", "embedded")
    assert done.returncode == 0, done.stdout + done.stderr
