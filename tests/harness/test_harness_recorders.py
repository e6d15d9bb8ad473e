"""Recorders copy what happened, once, with the run's time, and whatever a killed broker left torn is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.clusters.base import ClusterState, PartitionState
from harness.clusters.requests.observer import merged
from harness.run.directory.outcome import Outcome
from harness.run.recording import cell_recording, recorders
from harness.run.recording.cell_recording import CellRecording
from harness.run.recording.host_load import HostSampler, _Processes, host_ticks
from harness.run.recording.recorders import JournalTail, LeaderProbe, Periodic, process_sample
from harness.run.recording.truncation import DeadLogs
from harness.run.recording.wire_log_tail import WireLogTail
from runlog.files.clock import RunClock
from runlog.records.holes import HoleKind
from runlog.records.lines import CLUSTER, STATS, RecordWriter
from tests.json_lines import read_jsonl

CLOCK = RunClock(t0_monotonic_ns=1_000_000)


def line(**fields: object) -> str:
    return json.dumps(fields) + "\n"


def state(leader: int, epoch: int, *isr: int) -> ClusterState:
    partition = PartitionState(partition=0, leader=leader, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3))
    return ClusterState(brokers=(1, 2, 3), controller=1, partitions={0: partition})


def test_a_journal_is_copied_from_where_the_cell_began_with_the_runs_time(tmp_path: Path) -> None:
    journal, out = tmp_path / "journal.jsonl", tmp_path / "cluster.jsonl"
    journal.write_text(line(mono_ns=1, kind="started"))
    tail = JournalTail({3: journal}, CLOCK, RecordWriter(out, CLUSTER))
    with journal.open("a") as file:
        file.write(line(mono_ns=3_000_000, kind="became_leader", leader_epoch=4) + '{"mono_ns": 5, "ki')
    tail.step()
    tail.step()
    assert list(read_jsonl(out)) == [
        {"t_us": 2_000, "broker": 3, "kind": "became_leader", "leader_epoch": 4, "source": "journal"}
    ]
    with journal.open("a") as file:  # the killed broker's torn line stays torn; its successor begins a new one
        file.write("\n" + line(mono_ns=4_000_000, kind="started"))
    tail.step()
    assert [event["kind"] for event in read_jsonl(out)] == ["became_leader", "started"]


def test_a_journal_that_is_shorter_than_what_was_read_or_gone_is_no_journal_any_more(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(line(mono_ns=1, kind="started") * 2)
    tail = JournalTail({3: journal, 4: tmp_path / "not-started-yet"}, CLOCK, RecordWriter(tmp_path / "out", CLUSTER))
    tail.step()
    journal.write_text(line(mono_ns=1, kind="started"))
    with pytest.raises(OSError, match=r"journal.jsonl of broker 3 has \d+ bytes, and \d+ were read before"):
        tail.step()
    journal.unlink()
    with pytest.raises(FileNotFoundError):
        tail.step()


class Watched:
    """A cluster of ours, of which one thing cannot be read. `broken`: the method that raises."""

    def __init__(self, tmp_path: Path, broken: str) -> None:
        self.directory, self.broken = tmp_path, broken

    def _of(self, method: str, value: Any) -> Any:
        if method == self.broken:
            raise OSError(f"{method} is broken")
        return value

    def observer(self, topic: str) -> Any:
        return SimpleNamespace(state=lambda: self._of("state", None), close=lambda: None)

    def wire_log_path(self) -> Path:
        return self.directory if self.broken == "wire_log" else self.directory / "no-wire-log"

    def journal_paths(self) -> dict[int, Path]:
        return {1: self.directory} if self.broken == "journal" else {}

    def wire_log_problem(self) -> str:
        return ""

    engine = "reference"

    def pids(self) -> dict[int, int]:
        return self._of("pids", {})

    def direct_addresses(self) -> list[Any]:
        return []

    def end_offset(self, topic: str, partition: int) -> Any:
        return self._of("end_offset", None)

    def exits(self) -> dict[int, Any]:
        return self._of("exits", {})


@pytest.mark.slow  # threads of recorders, no process
@pytest.mark.parametrize(
    ("broken", "kinds"),
    [
        ("", []),
        ("journal", [HoleKind.JOURNALS]),
        ("state", [HoleKind.LEADERS]),
        ("pids", [HoleKind.SAMPLES]),
        ("wire_log", [HoleKind.REQUESTS]),
        ("end_offset", [HoleKind.HIGH_WATERMARKS]),
        ("exits", [HoleKind.PROCESS_ENDS]),
    ],
)
def test_a_recorder_that_stopped_is_a_hole_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, kinds: list[HoleKind]
) -> None:
    monkeypatch.setattr(cell_recording, "Processes", Watched)
    outcome, cluster = Outcome(started_us=0), Watched(tmp_path, broken)
    recording = CellRecording(
        cast(Any, SimpleNamespace(topic_name="t", partitions=1, kind="chaos")),
        cast(Any, cluster),
        CLOCK,
        cluster_events=RecordWriter(tmp_path / "cluster.jsonl", CLUSTER),
        stats=RecordWriter(tmp_path / "stats.jsonl", STATS),
        wire_path=tmp_path / "wire.jsonl",
        load_pid=lambda: None,
        dead_logs=DeadLogs("t", 1),
    )
    with recording.running(outcome):
        pass
    assert [hole.kind for hole in outcome.record.holes or ()] == kinds
    assert outcome.record.notes == ()


def test_a_recorder_whose_last_look_does_not_end_is_a_hole_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorders, "_JOIN_TIMEOUT_S", 0.01)
    released = threading.Event()
    recorder = Periodic("journals", 0.0, released.wait, hole=HoleKind.JOURNALS)
    recorder.start()
    try:
        recorder.stop()
        assert "its last look did not end" in recorder.problem
    finally:
        released.set()


def test_a_line_written_in_two_parts_is_copied_once(tmp_path: Path) -> None:
    journal, out = tmp_path / "journal.jsonl", tmp_path / "cluster.jsonl"
    tail = JournalTail({1: journal}, CLOCK, RecordWriter(out, CLUSTER))
    text = line(mono_ns=2_000_000, kind="started")
    journal.write_text(text[:9])
    tail.step()
    journal.write_text(text)
    tail.step()
    assert [event["kind"] for event in read_jsonl(out)] == ["started"]


def test_leaders_are_written_on_change_and_an_older_epoch_is_no_news(tmp_path: Path) -> None:
    out = tmp_path / "cluster.jsonl"
    answers: Iterator[ClusterState | None] = iter(
        [
            state(1, 0, 1, 2, 3),
            state(1, 0, 1, 2, 3),
            None,
            state(2, 1, 2, 3),
            state(1, 0, 1, 2, 3),
            state(2, 1, 1, 2, 3),
        ]
    )
    probe = LeaderProbe("t", lambda: next(answers), CLOCK, RecordWriter(out, CLUSTER))
    for _ in range(6):
        probe.step()
    seen = [(event["leader"], event["leader_epoch"], event["isr"]) for event in read_jsonl(out)]
    assert seen == [(1, 0, [1, 2, 3]), (2, 1, [2, 3]), (2, 1, [1, 2, 3])]


def test_of_two_views_the_newer_epoch_wins_partition_by_partition() -> None:
    assert merged(state(1, 0, 1), state(2, 1, 2)).partitions[0].leader == 2
    assert merged(state(2, 1, 2), state(1, 0, 1)).partitions[0].leader == 2


def test_a_cell_gets_the_wire_lines_written_while_it_runs(tmp_path: Path) -> None:
    source, target = tmp_path / "all.jsonl", tmp_path / "wire.jsonl"
    source.write_text(line(mono_ns=1_000_000, crc=1))
    tail = WireLogTail(source, target, CLOCK)
    with source.open("a") as file:
        file.write(line(mono_ns=2_000_000, crc=2))
    tail.step()
    tail.close()
    assert list(read_jsonl(target)) == [{"mono_ns": 2_000_000, "crc": 2, "t_us": 1_000}]


def test_samples_of_this_process_and_host_are_plausible() -> None:
    sample = process_sample(os.getpid())
    assert sample is not None
    assert sample[0] > 0
    assert sample[1] > 1_000_000
    assert process_sample(2**22 + 1) is None
    ticks = host_ticks()
    assert 0 <= ticks.stolen <= ticks.busy <= ticks.total


@pytest.mark.slow
def test_work_of_a_child_is_ours_and_not_foreign() -> None:
    load: list[int] = []
    sampler = HostSampler(load=lambda: load)
    assert sampler.sample() is None, "shares need two samples"
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    load.append(child.pid)

    def own_ticks() -> int:
        processes = _Processes()
        return sum(processes.ticks[pid] for pid in processes.families([os.getpid()]))

    def wait_for_own_work() -> None:
        before, deadline = own_ticks(), time.monotonic() + 120
        while own_ticks() < before + 30:
            assert time.monotonic() < deadline, "the child gets no processor"
            time.sleep(0.01)

    try:
        wait_for_own_work()
        sampler.sample()  # now the child is known
        wait_for_own_work()
        values = sampler.sample()
    finally:
        child.kill()
        child.wait(timeout=60)
    assert values is not None
    busy, foreign, stolen = values["cpu_share"], values["foreign_share"], values["steal_share"]
    assert busy is not None
    assert foreign is not None
    assert stolen is not None
    assert 0 <= foreign < busy
    assert 0 <= stolen <= busy
    assert values["brokers_share"] == 0
    assert (values["load_share"] or 0) > 0
