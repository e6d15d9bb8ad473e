"""A load host lists less than it had: its run log is missing then, and nothing that is here is thrown away for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.cli.results.gather import gather_run
from harness.errors import EnvironmentFault
from harness.run.directory.recover import recover_run
from harness.run.hosts.gather_late import cells_to_gather, gather_late
from harness.run.hosts.load_hosts import HubLoad
from runlog.files.paths import cell_directory, events_path, live_directory
from runlog.records.documents import read_cell
from runlog.records.hosts import HostState, LoadHostRecord
from runlog.records.lines import STATS, RecordWriter
from runlog.records.load import HostsTold, LoadEnded, LoadPhase
from runlog.records.run import RunStatus
from runlog.records.stats import PhaseSample, ShareSample
from runlog.streams.inflight import InflightRing
from runlog.streams.parquet import read_stream
from runlog.streams.schema import RECV, SEND, SendStatus
from runlog.streams.segment import SegmentWriter

CELL = "c1"
SENT = 40
HOSTS = {"left": 0, "right": 1}  # each with the producer and the reader of its number


def write_share(run_dir: Path, name: str, rows: int = SENT) -> None:
    """What a load host has in its spool, or what has come of it."""
    number, live = HOSTS[name], live_directory(run_dir, CELL)
    ring = InflightRing(live, producer=number, incarnation=0, slots=64)
    sends = SegmentWriter(live, SEND, f"p{number}i0", rows_per_segment=16)
    receives = SegmentWriter(live, RECV, f"c{number}")
    for seq in range(rows):
        ring.record(seq, seq * 100, seq * 100 + 7, 256)
        sends.append(number, 0, seq, 0, SendStatus.ACKED, 0, 256, seq * 100, seq * 100, seq * 100 + 50, seq, -1)
        receives.append(number, -1, 0, seq, number, 0, seq, seq * 100, seq * 100 + 90, 1, -1, number)
    for writer in (ring, sends, receives):
        writer.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Killed while its only cell was measured. Both hosts had told what they had written."""
    found = tmp_path / "run"
    cell_directory(found, CELL).mkdir(parents=True)
    write_manifest(found, RunStatus.KILLED)
    shares = [
        {"name": name, "state": "failed", "producers": [number], "consumers": [number]}
        for name, number in HOSTS.items()
    ]
    cell = {"cell_id": CELL, "outcome": {"status": "interrupted", "load_hosts": shares}}
    (cell_directory(found, CELL) / "cell.json").write_text(json.dumps(cell))
    with RecordWriter(events_path(found, CELL, "stats"), STATS) as stats:
        stats.append(PhaseSample(t_us=1, value=LoadPhase.MEASURE))
        for name in HOSTS:
            for rows in (SENT // 2, SENT):
                stats.append(ShareSample(t_us=2, source=name, sends=rows, receives=rows))
    return found


def write_manifest(run_dir: Path, status: RunStatus) -> None:
    manifest = {"status": status, "cells": [CELL], "t0_monotonic_ns": 1, "mark": "harness-0123456789"}
    (run_dir / "manifest.json").write_text(json.dumps(manifest))


class Spools:
    """The load hosts as the hub sees them: all that they list arrives, whole."""

    def __init__(self, **has: int) -> None:
        self.has = has
        self.has_forgotten = False

    def gather(
        self, run_dir: Path, cell_id: str, names: Sequence[str], should_stop: Callable[[], bool]
    ) -> tuple[LoadHostRecord, ...]:
        for name in names:
            if self.has[name]:
                write_share(run_dir, name, self.has[name])
        return tuple(
            LoadHostRecord(name=name, state=HostState.FAILED, files=0, bytes=0, is_gathered=True) for name in names
        )

    def forget(self) -> None:
        self.has_forgotten = True


def gather(run_dir: Path, hosts: Spools) -> list[str]:
    said: list[str] = []
    gather_late(run_dir, cells_to_gather(run_dir), hosts, said.append, lambda: False)
    return said


def rows_of(run_dir: Path) -> tuple[int, int]:
    sent = read_stream(run_dir, SEND, CELL)
    return int((sent["status"].to_numpy() == SendStatus.ACKED).sum()), read_stream(run_dir, RECV, CELL).num_rows


@pytest.mark.parametrize("has", [0, 1, SENT - 1])
def test_a_host_that_lists_less_than_it_had_is_missing_and_what_was_recovered_stays(run_dir: Path, has: int) -> None:
    write_share(run_dir, "left")
    write_share(run_dir, "right")
    recovered_early(run_dir)
    hosts = Spools(left=SENT, right=has)
    with pytest.raises(EnvironmentFault, match="right: its run log is not whole") as caught:
        gather(run_dir, hosts)
    assert "left" not in str(caught.value)
    assert not hosts.has_forgotten
    assert rows_of(run_dir) == (2 * SENT, 2 * SENT), "from the report that came first"
    assert [cell.cell_id for cell in cells_to_gather(run_dir)] == [CELL], "it is asked again"
    (line,) = (line for line in gather_again(run_dir) if "recovered" in line)
    assert f"{2 * SENT} rows of send" in line
    assert cells_to_gather(run_dir) == []
    assert rows_of(run_dir) == (2 * SENT, 2 * SENT)


def recovered_early(run_dir: Path) -> None:
    """`harness report` was said before `harness gather`."""
    write_manifest(run_dir, RunStatus.RUNNING)
    assert recover_run(run_dir)
    assert rows_of(run_dir) == (2 * SENT, 2 * SENT)


def gather_again(run_dir: Path) -> list[str]:
    """From the right spools."""
    for path in live_directory(run_dir, CELL).glob("*.*"):
        path.unlink()
    hosts = Spools(left=SENT, right=SENT)
    said = gather(run_dir, hosts)
    assert hosts.has_forgotten
    return said


def test_a_host_whose_words_were_lost_must_still_have_the_files_of_its_producers(run_dir: Path) -> None:
    events_path(run_dir, CELL, "stats").unlink()
    with RecordWriter(events_path(run_dir, CELL, "stats"), STATS) as stats:
        stats.append(PhaseSample(t_us=1, value=LoadPhase.WARMUP))
    with pytest.raises(EnvironmentFault, match="right: its run log is not whole: it has no file of producer 1"):
        gather(run_dir, Spools(left=SENT, right=0))


def test_of_a_load_that_had_not_begun_nothing_is_expected(run_dir: Path) -> None:
    events_path(run_dir, CELL, "stats").unlink()
    gather(run_dir, Spools(left=0, right=0))
    assert cells_to_gather(run_dir) == []


def test_more_than_a_host_had_told_is_taken(run_dir: Path) -> None:
    gather(run_dir, Spools(left=SENT + 5, right=SENT))
    assert rows_of(run_dir) == (2 * SENT + 5, 2 * SENT + 5)
    assert all(host.is_gathered for host in read_cell(run_dir, CELL).outcome.load_hosts)


class Hub:
    """All that both hosts list has come. What `right` lists is less than it had."""

    def __init__(self) -> None:
        self.said: list[dict[str, object]] = []

    def say(self, document: dict[str, object]) -> None:
        self.said.append(document)

    def next_event(self, _timeout_s: float) -> HostsTold:
        states = {"left": HostState.DONE, "right": HostState.DEAD}
        return HostsTold(
            hosts=tuple(
                LoadHostRecord(
                    name=name, state=states[name], reason="its worker was started anew" if number else "",
                    producers=(number,), consumers=(number,), is_gathered=True,
                )
                for name, number in HOSTS.items()
            )
        )  # fmt: skip

    def is_running(self) -> bool:
        return True


def test_if_the_hub_dies_it_stays_known_who_has_run_logs(run_dir: Path) -> None:
    hub = Hub()
    events = [HostsTold(hosts=hub.next_event(0.0).hosts[:1], is_beginning=True), LoadEnded(), LoadEnded()]
    hub.next_event = lambda _timeout_s: events.pop(0)  # type: ignore[assignment, method-assign, return-value]
    load = HubLoad(hub)  # type: ignore[arg-type]
    load.begin({"run_dir": run_dir, "cell_id": CELL})
    load.next_event(0.0)
    load.stop(0.0)
    assert [(host.name, host.is_gathered) for host in load.hosts] == [("left", False)]


def test_a_host_that_was_not_gathered_when_its_cell_ended_is_told_and_is_no_success(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cell_directory(run_dir, CELL) / "cell.json"
    document = json.loads(path.read_text())
    document["outcome"]["ended_us"] = 5
    document["outcome"]["load_hosts"][0]["is_gathered"] = True
    document["outcome"]["load_hosts"][1]["reason"] = "was not heard of for 45 s"
    path.write_text(json.dumps(document))
    with pytest.raises(EnvironmentFault, match="cannot be added to a cell that has ended"):
        gather_run(run_dir, "127.0.0.1:1", None)
    said = " ".join(capsys.readouterr().err.split())
    assert "c1: load host right: was not heard of for 45 s; its cell has ended without it" in said
    assert "left" not in said


@pytest.mark.parametrize("has", [0, SENT - 1])
def test_a_worker_that_was_started_anew_with_another_spool_was_not_gathered(run_dir: Path, has: int) -> None:
    write_share(run_dir, "left")
    if has:
        write_share(run_dir, "right", has)
    hub = Hub()
    load = HubLoad(hub)  # type: ignore[arg-type]
    load.begin({"run_dir": run_dir, "cell_id": CELL})
    load.stop(0.0)
    assert [(host.name, host.state, host.is_gathered) for host in load.hosts] == [
        ("left", HostState.DONE, True), ("right", HostState.DEAD, False),
    ]  # fmt: skip
    assert "started anew; its run log is not whole: it has" in load.hosts[1].reason
    load.forget()
    assert hub.said[-1] == {"do": "forget", "but": ["right"]}
