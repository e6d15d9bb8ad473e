"""Rounds of a sweep on clusters of their own: the plan distributes them, the run announces them, each starts anew, and
none is left behind when the run is stopped between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.plan import build_plan
from harness.run.time_left import TimeLeft, key_of
from harness.scenarios import cases_of
from harness.suite import load_suite
from runlog.records.cell import CellStatus
from runlog.records.documents import read_cell, read_run_record
from runlog.records.run import RunStatus
from tests.harness.harness_process import HarnessProcess, leases, listening_sockets, still_listening
from tests.harness.test_harness_lint import SOUND, recorded

SUITE = """\
name: tiny
cluster: {brokers: 1}
topic: {partitions: 1, replication_factor: 1, config: {min.insync.replicas: 1}}
workload: {rate_per_s: 500, record_size_bytes: 100, consumers: 1, warmup_ms: 100, measure_ms: 500, drain_ms: 3000}
sweep: {repetitions: 2, forks: 2, baseline: {acks: all, linger.ms: 5}, vary: {}}
"""


@pytest.fixture
def suite_path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE)
    return path


@pytest.mark.parametrize(
    ("repetitions", "forks", "expected"),
    [(4, 1, [1, 1, 1, 1]), (4, 4, [1, 2, 3, 4]), (4, 2, [1, 1, 2, 2]), (5, 2, [1, 1, 1, 2, 2]), (3, 2, [1, 1, 2])],
)
def test_rounds_are_dealt_in_turn_and_evenly(
    suite_path: Path, repetitions: int, forks: int, expected: list[int]
) -> None:
    suite = load_suite(str(suite_path), [f"sweep.repetitions={repetitions}", f"sweep.forks={forks}"])
    cells = build_plan(suite, cases_of, seed=1, client="reference")
    assert [cell.fork for cell in cells] == expected


def test_more_clusters_than_rounds_are_refused(suite_path: Path) -> None:
    with pytest.raises(UsageError, match="forks is 3, expected at most repetitions, which is 2"):
        load_suite(str(suite_path), ["sweep.forks=3"])


def test_each_fork_is_a_cluster_of_its_own() -> None:
    keys = [key_of(recorded(SOUND, fork=fork), engine="reference", brokers=3) for fork in (1, 1, 2)]
    assert keys[0] == keys[1]
    assert keys[1] != keys[2]


def test_the_time_left_counts_clusters_that_are_still_to_come_and_learns_what_they_take() -> None:
    cells = [recorded(SOUND, fork=fork) for fork in (1, 1, 2, 3)]
    time_left = TimeLeft(engine="kafka", brokers=3)
    cells_s = 4 * (SOUND.duration_ms + 2_500) / 1000
    number, guessed_s = time_left.of_clusters(cells)
    assert number == 3
    assert time_left.seconds(cells) == pytest.approx(cells_s + guessed_s)
    time_left.took(SOUND, start_s=8.0, warm_up_s=100.0)
    up = key_of(cells[0], engine="kafka", brokers=3)
    assert time_left.of_clusters(cells, up) == (2, 2 * 108.0)
    assert time_left.of_clusters(cells[:2], up) == (0, 0.0)
    assert TimeLeft(engine="reference", brokers=3).of_clusters(cells)[1] < 10, "nothing to warm up"


def test_the_plan_shows_clusters_and_what_they_cost(suite_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", str(suite_path), "--dry-run"]) == ExitCode.PASS
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.startswith("     fork")] == [
        "fork 1: a cluster of its own, started anew",
        "fork 2: a cluster of its own, started anew",
    ]
    assert lines[-2].endswith("for clusters that are started: 2")
    assert lines[-1].startswith("cells that a busy host spoils are run again for at most ")
    assert execute(["run", str(suite_path), "--dry-run", "--cluster", "kafka"]) == ExitCode.PASS
    assert "started and warmed up anew" in capsys.readouterr().out


def test_somebody_elses_cluster_is_not_started_anew_and_that_is_said(
    suite_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", str(suite_path), "--dry-run", "--cluster", "external", "--bootstrap-server", "127.0.0.1:1"]
    assert execute(command) == ExitCode.ENVIRONMENT, "nobody answers there"
    shown = capsys.readouterr()
    assert "without effect on an external cluster: sweep.forks (2)" in shown.err
    assert "fork" not in shown.out


@pytest.fixture
def run(suite_path: Path, tmp_path: Path) -> Iterator[HarnessProcess]:
    process = HarnessProcess(
        tmp_path, "run", str(suite_path), "--set", "sweep.repetitions=3", "--set", "sweep.forks=3",
        "--set", "workload.measure_ms=4000", "--run-dir", "run", "--no-certify", "--no-report",
    )  # fmt: skip
    yield process
    process.close()


def brokers(process: HarnessProcess) -> set[int]:
    return {pid for pid, command in process.family().items() if "broker.node" in command}


@pytest.mark.long
@pytest.mark.slow
def test_every_fork_has_brokers_of_its_own_and_a_stop_between_two_leaves_none(
    run: HarnessProcess, tmp_path: Path
) -> None:
    seen: list[set[int]] = []
    for number in (1, 2):
        run.await_text(f"[{number}/3] sweep-baseline-r{number} · connect")
        seen.append(brokers(run))
    assert all(len(own) == 1 for own in seen)
    assert seen[0].isdisjoint(seen[1]), "the first cluster has gone, and the second is another"
    run.await_text("· cluster (fork 3 of 3)")
    listeners = listening_sockets(run.family())
    run.press_ctrl_c()
    assert run.wait() == ExitCode.INTERRUPTED, run.screen
    assert "Traceback" not in run.screen
    assert run.family() == {}
    assert still_listening(listeners) == set()
    assert leases(run.state_home) == []
    manifest = read_run_record(tmp_path / "run")
    assert manifest.status is RunStatus.INTERRUPTED
    done = [cell for cell in manifest.cells or () if (tmp_path / "run" / "cells" / cell / "cell.json").exists()]
    documents = [read_cell(tmp_path / "run", cell) for cell in done]
    told = [(one.fork, one.outcome.status) for one in documents]
    assert told[:2] == [(1, CellStatus.DONE), (2, CellStatus.DONE)]
    assert told[2:] in ([], [(3, CellStatus.INTERRUPTED)]), "a busy host may have begun it before the key came"
    assert list((tmp_path / "run" / "clusters").rglob("*0.log")) == [], "segments of brokers that are gone"
