"""`harness clean` says by its exit code whether something of a crashed run stays on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.lease import default_root
from harness.cli.main import execute
from harness.errors import ExitCode
from tests.chaos.test_chaos_lease import plant


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = default_root({"XDG_STATE_HOME": str(tmp_path)})
    found.parent.mkdir(mode=0o700, exist_ok=True)
    return found


def test_what_stays_is_told_with_its_reason_and_fails_the_command(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(root, {"kind": "topic", "bootstrap_servers": "b:1", "topic": "orders", "topic_id": "i"})
    assert execute(["clean"]) == ExitCode.ENVIRONMENT
    told = capsys.readouterr()
    assert "topic orders at b:1 stays: its name is not one that a run makes" in told.out
    assert "1 of the topics and groups that crashed runs left stay" in " ".join(told.err.split())
    assert list(root.glob("*.json")), "it is looked at again by the next one"


def test_nothing_to_do_is_no_failure(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["clean"]) == ExitCode.PASS
    assert capsys.readouterr().out == "nothing was left behind\n"
