"""Evidence that the harness gathers beside journals: exits of brokers, end offsets, replicas compared, power lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.directory import LogDirectory
from broker.wire.records import encode_batch, set_base_offset_and_epoch
from harness.run.cells.power_loss import drop_unsynced
from harness.run.evidence import replica_check
from harness.run.evidence.replica_check import (
    CompactedLog,
    divergence_events,
    first_compacted_differences,
    first_differences,
)
from harness.run.recording.recorders import ExitWatch, HighWatermarkProbe
from runlog.files.clock import RunClock
from runlog.records.lines import CLUSTER, RecordWriter
from runlog.records.partition import ReplicaDivergence
from tests.json_lines import parse_line


def batch(base_offset: int, epoch: int, text: bytes = b"x") -> bytes:
    data = bytearray(encode_batch([text] * 3, timestamps_ms=1))
    set_base_offset_and_epoch(memoryview(data), base_offset, epoch, 0)
    return bytes(data)


def segment(directory: Path, *batches: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    return path


class Cluster:
    broker_ids = (1, 2, 3)

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ended: dict[int, tuple[int, int]] = {}

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        path = self.root / f"broker-{broker_id}" / f"{topic}-{partition}"
        return path if path.is_dir() else None

    def exits(self) -> dict[int, tuple[int, int]]:
        return self.ended


@pytest.fixture
def lines(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    writer = RecordWriter(path, CLUSTER)

    def read() -> list[dict[str, object]]:
        return [event for raw in path.read_bytes().splitlines(keepends=True) if (event := parse_line(raw))]

    yield writer, read
    writer.close()


def test_replicas_that_part_are_told_with_the_offset(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    segment(tmp_path / "broker-1" / "t-0", batch(0, 1), batch(3, 1), batch(6, 2))
    segment(tmp_path / "broker-2" / "t-0", batch(0, 1), batch(3, 1))  # shorter is no difference
    segment(tmp_path / "broker-3" / "t-0", batch(0, 1), batch(3, 1, b"y"), batch(6, 2))
    [event] = divergence_events(cluster, "t", range(2), 77)
    assert event == ReplicaDivergence(t_us=77, broker=3, topic="t", partition=0, brokers=(1, 3), offset=3)


@pytest.mark.parametrize(
    ("other", "expected"),
    [([(0, 1, 7), (3, 1, 8)], {}), ([(0, 1, 7), (3, 2, 8)], {2: 3}), ([(0, 1, 7), (5, 1, 8)], {2: 3}), ([], {})],
)
def test_first_differences(other: list[tuple[int, int, int]], expected: dict[int, int]) -> None:
    assert first_differences({1: [(0, 1, 7), (3, 1, 8), (6, 1, 9)], 2: other}) == expected


@pytest.mark.parametrize(
    ("mine", "its", "expected"),
    [
        ([3, 6, 9], [0, 3, 6], {}),
        ([0, 3, 6], [6, 9], {}),
        ([0, 3], [6, 9], {}),  # nothing in common
        ([3, 6, 9], [0, 3, 9], {2: 6}),  # a gap is none of retention's
    ],
)
def test_a_replica_may_begin_later_only_where_records_may_be_removed(
    mine: list[int], its: list[int], expected: dict[int, int]
) -> None:
    logs = {1: [(offset, 1, offset) for offset in mine], 2: [(offset, 1, offset) for offset in its]}
    assert first_differences(logs, is_shortened=True) == expected
    assert first_differences(logs) == {2: 0}


def test_a_log_that_is_shortened_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of its three files go away between the listing and the opening."""
    for broker in (1, 2):
        for offset in (0, 3, 6):
            segment(tmp_path / f"broker-{broker}" / "t-0", batch(offset, 1)).rename(
                tmp_path / f"broker-{broker}" / "t-0" / f"{offset:020}.log"
            )
    gone = tmp_path / "broker-2" / "t-0" / f"{3:020}.log"
    listed = Path.glob

    def glob(path: Path, pattern: str) -> list[Path]:
        found = list(listed(path, pattern))
        if path == gone.parent:
            gone.unlink(missing_ok=True)
            gone.with_name(f"{0:020}.log").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "glob", glob)
    assert divergence_events(Cluster(tmp_path), "t", [0], 77, is_shortened=True) == []
    assert not gone.exists()


def keyed(base_offset: int, *records: tuple[bytes, bytes]) -> bytes:
    data = bytearray(encode_batch([value for _, value in records], keys=[key for key, _ in records], timestamps_ms=1))
    set_base_offset_and_epoch(memoryview(data), base_offset, 0, 0)
    return bytes(data)


@pytest.mark.parametrize(
    ("other", "offsets"),
    [
        ([keyed(2, (b"a", b"3")), keyed(3, (b"b", b"4"), (b"c", b"5"))], []),  # it has removed two older records
        ([keyed(2, (b"a", b"3")), keyed(3, (b"b", b"X"), (b"c", b"5"))], [3]),  # another value
        ([keyed(2, (b"c", b"3")), keyed(3, (b"b", b"4"), (b"c", b"5"))], [0]),  # another key: `a` is gone
        ([keyed(3, (b"b", b"4"), (b"c", b"5"))], [0]),  # the last record of `a` is gone
        ([keyed(2, (b"a", b"3")), keyed(3, (b"b", b"4"))], []),  # it has not got the last one yet
        ([keyed(0, (b"d", b"0"), (b"a", b"2")), keyed(2, (b"a", b"3"))], [0]),  # only it has that one, the last of `d`
    ],
)
def test_compacted_replicas_may_lack_only_what_has_a_newer_record(
    tmp_path: Path, other: list[bytes], offsets: list[int]
) -> None:
    cluster = Cluster(tmp_path)
    whole = [keyed(0, (b"a", b"1"), (b"b", b"2")), keyed(2, (b"a", b"3")), keyed(3, (b"b", b"4"), (b"c", b"5"))]
    segment(tmp_path / "broker-1" / "t-0", *whole)
    segment(tmp_path / "broker-2" / "t-0", *other)
    found = divergence_events(cluster, "t", [0], 77, is_compacted=True)
    assert [event.offset for event in found] == offsets
    assert {event.brokers for event in found} <= {(1, 2)}


def test_a_compacted_log_that_is_too_long_to_compare_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it would seem to lack what a record in the other half has superseded."""
    monkeypatch.setattr(replica_check, "RECORDS_MAX", 3)
    whole = [keyed(0, (b"a", b"1"), (b"b", b"2")), keyed(2, (b"c", b"3")), keyed(3, (b"a", b"4"))]
    segment(tmp_path / "broker-1" / "t-0", *whole)
    segment(tmp_path / "broker-2" / "t-0", *whole[1:])
    with pytest.raises(OSError, match="more than 3 records"):
        divergence_events(Cluster(tmp_path), "t", [0], 77, is_compacted=True)


def test_no_replica_differs_from_none() -> None:
    assert first_compacted_differences({}) == {}
    assert first_compacted_differences({1: CompactedLog()}) == {}


def test_an_exit_is_told_once_for_each_process(tmp_path: Path, lines) -> None:
    writer, read = lines
    cluster = Cluster(tmp_path)
    watch = ExitWatch(cluster, RunClock.starting_now(), writer)
    watch.step()
    cluster.ended = {2: (4711, -6)}
    watch.step()
    watch.step()
    cluster.ended = {2: (4712, 3)}
    watch.step()
    assert [(event["broker"], event["code"]) for event in read()] == [(2, -6), (2, 3)]


def test_end_offsets_are_told_when_they_change(lines) -> None:
    writer, read = lines
    answers = iter([(1, 5), (1, 5), None, (2, 4)])
    probe = HighWatermarkProbe("t", 1, lambda partition: next(answers), RunClock.starting_now(), writer)
    for _ in range(4):
        probe.step()
    assert [(event["broker"], event["offset"]) for event in read()] == [(1, 5), (2, 4)]


def test_a_loss_of_power_cuts_to_what_was_durable_and_tells_the_offsets(tmp_path: Path) -> None:
    first, second, third = batch(0, 1), batch(3, 1), batch(6, 2)
    path = segment(tmp_path / "t-0", first, second, third)
    account = tmp_path / "account"
    account.write_text(f"w 1 {len(first)} {path}\ns 2 {len(first)} {path}\nw 3 {path.stat().st_size} {path}\n")
    dropped = drop_unsynced(
        account, broker=2, topic="t", directories={0: path.parent}, writeback_ms=10**12, torn_bytes=10, t_us=5
    )
    assert path.stat().st_size == len(first) + 10
    assert dropped.bytes_by_file == {"t-0/00000000000000000000.log": len(second) + len(third) - 10}
    assert [(each.leader_epoch, each.to_offset, each.from_offset, each.source) for each in dropped.events] == [
        (1, 3, 6, "disk"),
        (2, 6, 9, "disk"),
    ]


def test_after_a_loss_of_power_the_broker_knows_that_its_machine_was_started_anew(tmp_path: Path) -> None:
    path = segment(tmp_path / "t-0", batch(0, 1))
    LogDirectory(str(tmp_path)).open_log("t", 0)
    assert not LogDirectory(str(tmp_path)).was_machine_restarted
    account = tmp_path / "account"
    account.write_text(f"w 1 {path.stat().st_size} {path}\n")
    drop_unsynced(account, broker=2, topic="t", directories={0: path.parent}, writeback_ms=10**12, torn_bytes=0, t_us=5)
    assert LogDirectory(str(tmp_path)).was_machine_restarted
