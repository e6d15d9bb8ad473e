"""Recorders copy what happened, once, with the run's time, and whatever a killed broker left torn is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.base import ClusterState, PartitionState
from harness.clusters.observer import merged
from harness.run.host_load import HostSampler, _descendants_ticks, host_ticks
from harness.run.recorders import JournalTail, LeaderProbe, process_sample
from harness.run.wire_log_tail import WireLogTail
from runlog.files.clock import RunClock
from runlog.records.lines import CLUSTER, RecordWriter
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
    sampler = HostSampler()
    assert sampler.sample() is None, "shares need two samples"
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def wait_for_own_work() -> None:
        before, deadline = sum(_descendants_ticks(os.getpid()).values()), time.monotonic() + 120
        while sum(_descendants_ticks(os.getpid()).values()) < before + 30:
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
