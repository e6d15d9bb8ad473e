"""The pytest plugin as a user has it: the examples of docs/guide/testing-your-client.md are taken from the page and
run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.clusters.kafka.jars import ensure_jars
from tests.chaos.test_chaos_toxiproxy_hostile import ANSWERS, listening
from tests.harness.harness_process import REPOSITORY, family, leases
from tests.patience import run_command

pytestmark = pytest.mark.slow
PAGE = REPOSITORY / "docs" / "guide" / "testing-your-client.md"


def examples() -> dict[str, str]:
    return dict(re.findall(r'```python title="([^"]+)"\n(.*?)```', PAGE.read_text(), re.DOTALL))


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(directory / "state"),
        "PYTHONPATH": str(REPOSITORY),
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # as it is here, with nothing that this machine happens to have
    }
    command = [sys.executable, "-m", "pytest", "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    return run_command([*command, "--kafka-toxiproxy", "embedded", *arguments], cwd=directory, env=environment)


HOLLOW = """
import pytest

@pytest.mark.chaos("leader-loss")
def test_too_few_items(kafka_cluster, chaos):
    for _ in chaos.during([1, 2]):
        pass

def test_nothing_is_ever_sent(kafka_cluster, chaos):
    with chaos.inject("kafka_drop_response", "client->all"):
        pass

def test_no_such_fault(kafka_cluster, chaos):
    with chaos.inject("kil", "leader"):
        pass

def test_no_scenario(kafka_cluster, chaos):
    chaos.begin()
"""


@pytest.mark.long
def test_the_examples_of_the_page_pass_and_hollow_tests_do_not(tmp_path: Path) -> None:
    for name, text in {**examples(), "test_hollow.py": HOLLOW}.items():
        (tmp_path / name).write_text(text)
    example = (tmp_path / "test_orders.py").read_text()
    assert len(example.partition("def test_")[2].splitlines()) <= 12, "the page promises ten lines"
    assert '"acks": "all"' in example
    unsafe = example.replace('"acks": "all"', '"acks": "1"').replace("no_acknowledged", "with_acks_1_no")
    (tmp_path / "test_unsafe.py").write_text(unsafe)

    done = run_pytest(tmp_path, "-rA")
    words = [line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    assert {line[1]: line[0] for line in words} == {
        "test_consumer.py::test_consumer_survives_a_frozen_leader": "PASSED",
        "test_orders.py::test_no_acknowledged_order_is_lost": "PASSED",
        "test_unsafe.py::test_with_acks_1_no_order_is_lost": "FAILED",
        "test_hollow.py::test_too_few_items": "FAILED",
        "test_hollow.py::test_nothing_is_ever_sent": "FAILED",
        "test_hollow.py::test_no_such_fault": "FAILED",
        "test_hollow.py::test_no_scenario": "FAILED",
    }, done.stdout + done.stderr
    for reason in (
        " acknowledged records lost: leader ",  # orders are gone; the harness itself did not fail
        " killed (SIGKILL) at ",
        " truncated",
        "all of them with pytest -vv: b'",
        "the items ran out before the scenario had ended",
        "without effect: fault",
        "unknown fault 'kil'",
        "no scenario: mark the test",
    ):
        assert reason in done.stdout, reason
    assert family(tmp_path / "state") == {}
    assert leases(tmp_path / "state") == []


@pytest.mark.long
@pytest.mark.parametrize("name", ["test_asyncio.py", "test_consumer_group.py", "test_consumer_crash.py"])
def test_a_worked_example_passes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text((REPOSITORY / "examples" / "pytest" / name).read_text())
    done = run_pytest(tmp_path)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert name in PAGE.read_text(), "the page links to it"


@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "tool"),
    [
        ("go", "go"),
        pytest.param("java", "java", marks=pytest.mark.kafka),
        ("javascript", "npm"),
        pytest.param("spring", "mvn", marks=pytest.mark.kafka),
    ],
)
def test_a_worked_example_in_another_language_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, tool: str
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not here")
    directory = tmp_path / language
    shutil.copytree(REPOSITORY / "examples" / "pytest" / language, directory)
    if language == "java":
        monkeypatch.setenv("KAFKA_JARS", str(ensure_jars()))
    if language == "javascript":
        run_command(["npm", "ci", "--silent"], cwd=directory, env=dict(os.environ))
    if language == "spring":
        run_command(["mvn", "-q", "-B", "package"], cwd=directory, env=dict(os.environ))
    done = run_pytest(directory)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert f"examples/pytest/{language}/" in PAGE.read_text(), "the page links to it"


def test_a_server_that_is_no_toxiproxy_ends_the_fixture_in_time(tmp_path: Path) -> None:
    """With its reason, and neither a process nor a lease is left."""
    (tmp_path / "test_it.py").write_text("def test_it(kafka_cluster): pass\n")
    with listening(ANSWERS["hangs up"]) as url:
        done = run_pytest(tmp_path, "--kafka-toxiproxy", url)
        assert done.returncode == pytest.ExitCode.TESTS_FAILED
        reason = "EnvironmentFault: the proxies of the links could not be set up: no Toxiproxy server at"
        assert f"{reason} {url}" in done.stdout, done.stdout + done.stderr
        assert "def " not in done.stdout, "the plugin's own source would hide the reason"
    assert family(tmp_path / "state") == {}
    assert leases(tmp_path / "state") == []


def test_wrong_markers_are_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "test_typo.py").write_text(
        "import pytest\n@pytest.mark.chaos('leader-los')\ndef test_it(kafka_cluster): pass\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_typo.py::test_it: no scenario 'leader-los'; did you mean 'leader-loss'?" in done.stderr


@pytest.mark.parametrize("given", ["kafak", pytest.param("kafka==nine", marks=pytest.mark.long)])
def test_a_cluster_that_there_is_not_is_told_once_before_any_test(given: str, tmp_path: Path) -> None:
    """Each test was an error of its own, with the plugin's source around one sentence."""
    (tmp_path / "test_it.py").write_text("def test_it(kafka_cluster): pass\ndef test_that(kafka_cluster): pass\n")
    done = run_pytest(tmp_path, "--kafka-cluster", given)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert (done.stdout + done.stderr).count("--kafka-cluster") == 1
    assert "def _cluster" not in done.stdout + done.stderr
