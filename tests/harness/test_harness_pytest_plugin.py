"""The pytest plugin as a user has it: the examples of docs/testing-your-client.md are taken from the page and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.harness_process import REPOSITORY, family, leases

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PAGE = REPOSITORY / "docs" / "testing-your-client.md"


def examples() -> dict[str, str]:
    return dict(re.findall(r"```python title=(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(directory / "state"),
        "PYTHONPATH": str(REPOSITORY),
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # as it is here, with nothing that this machine happens to have
    }
    command = [sys.executable, "-m", "pytest", "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    return subprocess.run(
        [*command, "--kafka-toxiproxy", "embedded", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_the_examples_of_the_page_pass_and_leave_nothing(tmp_path: Path) -> None:
    for name, text in examples().items():
        (tmp_path / name).write_text(text)
    example = (tmp_path / "test_orders.py").read_text()
    body = example.partition("def test_")[2].splitlines()
    assert len(body) <= 12, "the page promises ten lines"
    assert '"acks": "all"' in example
    unsafe = example.replace('"acks": "all"', '"acks": "1"').replace("no_acknowledged", "with_acks_1_no_acknowledged")
    (tmp_path / "test_unsafe.py").write_text(unsafe)

    done = run_pytest(tmp_path, "-rA")
    outcomes = dict(
        reversed(line.split()[:2]) for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))
    )
    assert outcomes == {
        "test_consumer.py::test_consumer_survives_a_frozen_leader": "PASSED",
        "test_orders.py::test_no_acknowledged_order_is_lost": "PASSED",
        "test_unsafe.py::test_with_acks_1_no_acknowledged_order_is_lost": "FAILED",
    }, done.stdout + done.stderr
    assert "AssertionError" in done.stdout, "the orders are gone; the harness itself did not fail"
    assert family(tmp_path / "state") == {}
    assert leases(tmp_path / "state") == []


def test_wrong_markers_are_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "test_typo.py").write_text(
        "import pytest\n@pytest.mark.chaos('leader-los')\ndef test_it(kafka_cluster): pass\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_typo.py::test_it: no scenario 'leader-los'; did you mean 'leader-loss'?" in done.stderr


def test_faults_without_effect_and_items_that_run_out_are_no_pass(tmp_path: Path) -> None:
    (tmp_path / "test_hollow.py").write_text(
        """
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
    )
    done = run_pytest(tmp_path)
    assert "4 failed" in done.stdout, done.stdout
    for words in ("the items ran out before the scenario had ended", "without effect: fault", "unknown fault 'kil'",
                  "no scenario: mark the test"):  # fmt: skip
        assert words in done.stdout
