"""`harness cluster up|status|down` with real brokers: addresses alone on stdout, settings in effect, nothing left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from harness.errors import ExitCode
from tests.harness.harness_process import REPOSITORY, HarnessProcess, family
from tests.patience import run_command

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    yield
    if (tmp_path / "state" / "kafka-harness" / "clusters" / "default.json").exists():
        harness("cluster", "down")
    assert family(tmp_path / "state") == {}


def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, "-m", "harness", *arguments])


def test_up_prints_the_addresses_alone_and_stays_up_until_down(tmp_path: Path) -> None:
    up = harness("cluster", "up", "--brokers", "1", "--set", "num.partitions=4")
    assert up.returncode == ExitCode.PASS, up.stderr
    (bootstrap,) = up.stdout.splitlines()

    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    described = client.describe_configs([ConfigResource("broker", "1")])
    (settings,) = [future.result(120) for future in described.values()]
    assert settings["num.partitions"].value == "4"
    del client

    status = harness("cluster", "status")
    assert (status.returncode, status.stdout.strip()) == (ExitCode.PASS, bootstrap), status.stderr
    assert "broker 1: running" in status.stderr
    again = harness("cluster", "up")
    assert again.returncode == ExitCode.USAGE
    assert f"is up already at {bootstrap}" in again.stderr
    assert harness("clean").stdout == "nothing was left behind\n", "a cluster that is up is nobody's wreck"
    assert len(family(tmp_path / "state")) == 1

    assert harness("cluster", "down").returncode == ExitCode.PASS
    assert family(tmp_path / "state") == {}
    assert list((tmp_path / "cache" / "clusters").iterdir()) == []
    assert harness("cluster", "status").returncode == ExitCode.ENVIRONMENT


def test_a_wrong_setting_is_named_and_nothing_stays(tmp_path: Path) -> None:
    up = harness("cluster", "up", "--brokers", "1", "--set", "harness.journal.append=true")
    assert (up.returncode, up.stdout) == (ExitCode.USAGE, "")
    assert "the brokers use no such setting; did you mean 'harness.journal.appends'?" in up.stderr
    assert family(tmp_path / "state") == {}
    clusters = tmp_path / "cache" / "clusters"
    assert not clusters.exists() or list(clusters.iterdir()) == []


@pytest.mark.long
def test_ctrl_c_and_sigkill_while_it_starts_leave_no_broker(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        process = HarnessProcess(tmp_path, "cluster", "up")
        try:
            process.await_that(lambda p=process: any("broker.node" in c for c in p.family().values()), "a broker")
            process.send(number)
            assert process.wait() == (ExitCode.INTERRUPTED if number == signal.SIGINT else -signal.SIGKILL)
            assert process.stdout == ""
            if number == signal.SIGKILL:
                assert "ended reference broker" in harness("clean").stdout
                assert list((tmp_path / "cache" / "clusters").iterdir()) == []
            assert process.family() == {}
        finally:
            process.close()
