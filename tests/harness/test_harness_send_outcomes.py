"""A cell of which nothing came says so: in its status, its reason and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.run.cells.send_outcomes import nothing_came_of
from runlog.records.load import Progress
from tests.patience import run_command
from workloads.clients import BUILTIN, ClientSetup, check_properties, make_producer
from workloads.clients.protocol import PropertyError

NONE = "none of the 9 sends was acknowledged"


@pytest.mark.parametrize(
    ("progress", "acks", "problem"),
    [
        (Progress(sent=100, acked=1, failed=99), "all", ""),
        (Progress(sent=100, failed=100), "1", "each of the 100 sends failed"),
        (Progress(), "all", "the load sent no record at all"),
        (Progress(sent=9), "all", f"{NONE}: what became of them is unknown"),
        (Progress(sent=9, failed=4), "all", f"{NONE}: 4 failed, 5 are unknown"),
        (Progress(sent=9, unknown=9), "0", ""),
        (Progress(sent=9, failed=9), "0", "each of the 9 sends failed"),
        (None, "all", ""),
    ],
)
def test_what_became_of_the_sends(progress: Progress | None, acks: str, problem: str) -> None:
    assert nothing_came_of(progress, acks=acks) == problem


def test_the_most_frequent_errors_are_named() -> None:
    progress = Progress(sent=9, failed=9, refusals={"48": 7, "-1": 2, "9999": 1})
    assert nothing_came_of(progress, acks="all") == (
        "each of the 9 sends failed (7 by INVALID_TXN_STATE: the partition's place in the transaction is checked "
        "before the append, 2 by an error of the client itself, 1 by ERROR_9999)"
    )


@pytest.mark.parametrize("client", BUILTIN)
def test_a_transactional_id_of_ones_own_is_refused_for_every_client_before_anything_starts(client: str) -> None:
    """With `reference` it passed the dry run, and every record failed in a cell that was "done"."""
    properties = {"transactional.id": "t", "acks": "all"}
    refused = (
        rf"client {client} cannot set transactional.id: the harness names it; `commit_interval_ms` of the workload"
    )
    with pytest.raises(PropertyError, match=refused):
        check_properties(client, properties)
    setup = ClientSetup(bootstrap_servers="127.0.0.1:1", topics=("t",), properties=properties)
    sink: Any = None  # refused before anything is sent
    with pytest.raises(PropertyError, match=refused):
        make_producer(client, setup, sink)


def _run(directory: Path, suite: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = directory / "suite.yaml"
    path.write_text(suite)
    return run_command(
        [sys.executable, "-m", "harness", "run", str(path), *arguments, "--run-dir", str(directory / "run")],
    )  # fmt: skip


SUITE = """
name: refused
cluster: {brokers: 1}
topic: {replication_factor: 1, partitions: 1, config: {min.insync.replicas: 1, max.message.bytes: 150}}
workload: {rate_per_s: 200, record_size_bytes: 300, consumers: 0, warmup_ms: 200, measure_ms: 800, drain_ms: 60000}
sweep: {baseline: {acks: all}, vary: {linger.ms: [5]}, repetitions: 1}
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_the_dry_run_refuses_a_sweep_of_transactional_ids(tmp_path: Path) -> None:
    suite = SUITE.replace("linger.ms: [5]", "transactional.id: [a]")
    done = _run(tmp_path, suite, "--dry-run")
    assert (done.returncode, "cannot set transactional.id: the harness names it" in done.stderr) == (2, True), (
        done.stderr
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_cell_in_which_every_send_failed_is_no_pass(tmp_path: Path) -> None:
    done = _run(tmp_path, SUITE, "--no-report", "--no-certify", "--client", "reference")
    assert done.returncode == 4, done.stderr[-2000:]
    cells = list((tmp_path / "run").glob("cells/*/cell.json"))
    outcome = json.loads(cells[0].read_text())["outcome"]
    assert outcome["status"] == "failed"
    assert "each of the" in outcome["reason"]
    assert "MESSAGE_TOO_LARGE" in outcome["reason"]
