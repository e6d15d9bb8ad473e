"""Which run directory may be made whole: not one whose harness goes on, here or where it cannot be seen."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from chaos.lease import read_identity
from harness.errors import UsageError
from harness.run.recover import QUIET_S, recover_run
from harness.run.rundir import own_identity
from runlog.files.place import here
from runlog.records.codec import to_json

GONE = {"pid": 4_000_000, "start_ticks": 5}
ELSEWHERE = here().as_json() | {"pid_namespace": "pid:[1]"}
RESTARTED = here().as_json() | {"boot_id": "before", "machine": "m"}


def run_of(directory: Path, owner: object) -> Path:
    manifest = {"status": "running", "owner": owner, "t0_monotonic_ns": 1}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def status_of(directory: Path) -> str:
    return str(json.loads((directory / "manifest.json").read_text())["status"])


@pytest.mark.parametrize(
    "owner",
    [GONE, GONE | {"place": here().as_json()}, None, [], {"pid": "x"}, {"pid": 5, "start_ticks": 5, "place": 7}],
)
def test_a_run_whose_harness_is_gone_is_made_whole(tmp_path: Path, owner: object) -> None:
    recover_run(run_of(tmp_path, owner))
    assert status_of(tmp_path) == "killed"


def test_a_run_whose_harness_lives_is_left_alone(tmp_path: Path) -> None:
    identity = read_identity(os.getpid())
    assert identity is not None
    for owner in (to_json(own_identity()), {"pid": identity.pid, "start_ticks": identity.start_ticks}):
        with pytest.raises(UsageError, match=f"still being written by process {os.getpid()}"):
            recover_run(run_of(tmp_path, owner))
    assert status_of(tmp_path) == "running"


def test_a_run_of_another_namespace_is_left_alone_while_something_is_written(tmp_path: Path) -> None:
    run_of(tmp_path, GONE | {"place": ELSEWHERE})
    (tmp_path / "cells").mkdir()
    with pytest.raises(UsageError, match="which cannot be seen from here"):
        recover_run(tmp_path)
    assert status_of(tmp_path) == "running"
    long_ago_s = time.time() - QUIET_S - 1
    for path in tmp_path.rglob("*"):
        os.utime(path, (long_ago_s, long_ago_s))
    recover_run(tmp_path)
    assert status_of(tmp_path) == "killed"


def test_a_run_from_before_a_restart_is_made_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = here()
    machine = type(now)(host=now.host, machine="m", boot_id=now.boot_id, pid_namespace=now.pid_namespace)
    monkeypatch.setattr("harness.run.recover.here", lambda: machine)
    recover_run(run_of(tmp_path, to_json(own_identity()) | {"place": RESTARTED}))
    assert status_of(tmp_path) == "killed"
