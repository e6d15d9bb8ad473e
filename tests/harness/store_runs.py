"""Runs with load hosts and a store, whatever the store is made of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runlog.files.store import open_store
from runlog.files.stored import kept_name, read_list
from runlog.streams.parquet import read_stream
from runlog.streams.schema import SEND
from tests.harness.load_workers import Workers, harness, said
from tests.harness.test_harness_gather import has_share, identities, killed_run, outcome_of, spooled
from tests.patience import wait_until
from tests.workloads.load_hosts import WAIT_S

SHORT = """
name: short
workload: {rate_per_s: 300, record_size_bytes: 100, producers: 2, consumers: 2, warmup_ms: 300, measure_ms: 3000,
  drain_ms: 20000}
topic: {partitions: 2, replication_factor: 1}
cluster: {brokers: 1}
sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [5]}, repetitions: 1, repeat_share: 0}
"""
outcome = outcome_of
SLOW = {"behind", "cut"}  # what a slow host makes of a share that was done: it says so, and that is right


def run(
    directory: Path, workers: Workers, url: str, more: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], Path]:
    (directory / "short.yaml").write_text(SHORT)
    run_dir = directory / "run"
    arguments = ["run", str(directory / "short.yaml"), "--no-certify", "--no-report", "--run-dir", str(run_dir)]
    return harness(directory, [*arguments, *workers.options, "--load-store", url], more), run_dir


def check_run(directory: Path, workers: Workers, url: str, more: Mapping[str, str] | None = None) -> Path:
    """All of it came by way of the store, nothing is left at the load hosts, and nothing is missing."""
    done, run_dir = run(directory, workers, url, more)
    assert done.returncode == 0, said(done)
    for host in outcome_of(run_dir)["load_hosts"]:
        assert host["state"] == "done" or (host["state"] in SLOW and host["reason"]), host
        assert host["is_gathered"]
        assert host["files"] == host["files_stored"] >= 3, host
        assert host["bytes"] > 0
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["store"] == url
    assert not list(workers.spool.glob("*/*/cells")), "load hosts have forgotten it"
    check_everything_is_accounted_for(run_dir)
    return run_dir


def check_everything_is_accounted_for(run_dir: Path) -> None:
    (cell,) = (path.name for path in (run_dir / "cells").iterdir())
    sent = read_stream(run_dir, SEND, cell)
    assert sent.num_rows == 990, "300 a second over 3.3 s"
    assert (sent["status"].to_numpy() == 0).all()
    for producer in (0, 1):
        seqs = np.sort(sent["seq"].to_numpy()[sent["producer"].to_numpy() == producer])
        assert (seqs == np.arange(len(seqs))).all()
    assert read_stream(run_dir, "recv", cell).num_rows == read_stream(run_dir, "log", cell).num_rows == 990


def check_kept(directory: Path, run_dir: Path, url: str, more: Mapping[str, str] | None = None) -> None:
    """The ended cell is in the store as a whole, without segments, and comes back from there, byte for byte."""
    with environment_of(more):
        store = open_store(url)
        (mark,) = store.places("")
        (cell,) = store.places(f"{mark}/cells")
        listed = read_list(store, kept_name(mark, cell))
        assert not [name for name in store.names(mark) if name.endswith((".seg", ".inflight"))]
    assert listed is not None
    assert set(listed.files) >= {f"cells/{cell}/cell.json", f"send/cell={cell}/part-000000.parquet"}
    lost = run_dir.with_name("lost")
    run_dir.rename(lost)
    found = harness(directory, ["gather", str(run_dir), "--load-store", url], more)
    assert found.returncode == 0, said(found)
    for name in listed.files:
        assert (run_dir / name).read_bytes() == (lost / name).read_bytes(), name
    manifest, before = (json.loads((path / "manifest.json").read_text()) for path in (run_dir, lost))
    assert {**before, "owner": None} == {**manifest, "owner": None}
    assert manifest["status"] == "finished"
    check_everything_is_accounted_for(run_dir)


def check_lost_directory(directory: Path, workers: Workers, url: str, more: Mapping[str, str] | None = None) -> None:
    """The harness's host is lost in the middle of a cell, with its disk. One load host is started anew."""
    run_dir = killed_run(directory, workers, ["--load-store", url], more)
    (cell,) = (path.name for path in (run_dir / "cells").iterdir())
    shutil.rmtree(run_dir)
    workers.kill("right")
    workers.start_again("right")
    found: list[subprocess.CompletedProcess[str]] = []

    def is_here() -> bool:
        found.append(harness(directory, ["gather", str(run_dir), "--load-store", url], more))
        assert found[-1].returncode in (0, 3), said(found[-1])
        return found[-1].returncode == 0

    at_hosts: dict[str, Any] = {}

    def are_in_store() -> bool:
        """Load hosts stop after a minute without their master; then the rest is put."""
        with environment_of(more):
            store = open_store(url)
            names = store.names("")
        return sum(name.endswith("/index.json") for name in names) == 2 and not _unended(directory)

    wait_until(are_in_store, "both load hosts have put their lists", WAIT_S)
    at_hosts.update(spooled(workers))
    wait_until(is_here, "everything is in the store", WAIT_S)
    assert "is not whole in the store" in found[0].stderr or len(found) == 1
    sent, received = (read_stream(run_dir, stream, cell) for stream in ("send", "recv"))
    has_outcome = sent["status"].to_numpy() != 2
    assert identities(sent, has_outcome) == {(int(row["producer"]), int(row["seq"])) for row in at_hosts["send"]}
    assert received.num_rows == len(at_hosts["recv"]) > 0
    assert all(host["is_gathered"] and host["files"] >= 3 for host in outcome_of(run_dir)["load_hosts"])
    wait_until(lambda: not list(workers.spool.glob("*/*/cells")), "load hosts forget what the store keeps", WAIT_S)
    nothing = harness(directory, ["gather", str(run_dir), "--load-store", url], more)
    assert nothing.returncode == 0
    assert "no load host has anything of this run" in nothing.stderr


def _unended(directory: Path) -> bool:
    return has_share(directory, "left") or has_share(directory, "right")


class environment_of:
    """Of this process for a moment, as the processes of the test have it."""

    def __init__(self, more: Mapping[str, str] | None) -> None:
        self._more = more or {}
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._more}
        os.environ.update(self._more)

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
