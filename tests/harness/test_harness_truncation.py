"""From a dead leader's segment files and the answers of its successor follow exactly the offsets that are gone."""

from __future__ import annotations

from pathlib import Path

from broker.wire.records import encode_batch
from harness.run.recording.truncation import (
    DumpedLog,
    EpochRange,
    dump_epochs,
    read_partition_headers,
    truncated_events,
    truncated_ranges,
)
from runlog.records.codec import to_json


def batch(base_offset: int, records: int, leader_epoch: int) -> bytes:
    values = [b"value"] * records
    return bytes(encode_batch(values, timestamps_ms=0, base_offset=base_offset, partition_leader_epoch=leader_epoch))


def epoch(number: int, start: int, end: int) -> EpochRange:
    return EpochRange(leader_epoch=number, start_offset=start, end_offset=end)


def dumped(*epochs: EpochRange) -> DumpedLog:
    return DumpedLog(broker=1, topic="t", partition=0, epochs=epochs)


def test_segments_are_read_in_order_of_their_base_offsets(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000005.log").write_bytes(batch(5, 2, 1))
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, 3, 0) + batch(3, 2, 0))
    assert dump_epochs(read_partition_headers(tmp_path)) == (epoch(0, 0, 5), epoch(1, 5, 7))


def test_a_torn_batch_and_preallocated_zeros_end_a_log(tmp_path: Path) -> None:
    whole = batch(0, 3, 0)
    path = tmp_path / "00000000000000000000.log"
    for tail in (batch(3, 2, 0)[:-1], batch(3, 2, 0)[:20], b"\0" * 4096):
        path.write_bytes(whole + tail)
        assert dump_epochs(read_partition_headers(tmp_path)) == (epoch(0, 0, 3),)


def test_an_empty_log_has_no_epochs(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(b"")
    assert dump_epochs(read_partition_headers(tmp_path)) == ()


def test_what_lies_beyond_the_successors_end_of_that_epoch_is_gone() -> None:
    gone = truncated_ranges(dumped(epoch(0, 0, 100)), lambda asked: (0, 60))
    assert gone == [(60, epoch(0, 0, 100))]


def test_nothing_is_gone_when_the_successor_has_it_all() -> None:
    assert truncated_ranges(dumped(epoch(0, 0, 100)), lambda asked: (0, 100)) == []
    assert truncated_ranges(dumped(epoch(0, 0, 100)), lambda asked: (0, 130)) == []


def test_an_epoch_that_the_successor_never_had_is_gone_whole() -> None:
    # Asked for epoch 1, it answers with the end of epoch 0, the largest one it has below.
    gone = truncated_ranges(dumped(epoch(0, 0, 50), epoch(1, 50, 80)), lambda asked: (0, 40))
    assert gone == [(40, epoch(0, 0, 50)), (50, epoch(1, 50, 80))]


def test_an_epoch_is_gone_whole_also_where_an_older_one_went_on_at_its_offsets() -> None:
    """The leader of epoch 0 did not hear that it was replaced, appended up to 120, and leads again. The leader of epoch
    1 began at 100 and died. All that it wrote is gone, although the log of today ends epoch 0 beyond it."""
    gone = truncated_ranges(dumped(epoch(0, 0, 100), epoch(1, 100, 115)), lambda asked: (0, 120))
    assert gone == [(100, epoch(1, 100, 115))]


def test_no_answer_is_no_statement() -> None:
    assert truncated_ranges(dumped(epoch(0, 0, 10)), lambda asked: None) is None


def test_events_are_as_the_contract_has_them() -> None:
    (event,) = truncated_events(dumped(epoch(3, 0, 100)), [(60, epoch(3, 0, 100))], t_us=7)
    assert to_json(event) == {
        "t_us": 7, "broker": 1, "kind": "truncated", "source": "log_dump", "topic": "t", "partition": 0,
        "leader_epoch": 3, "from_offset": 100, "to_offset": 60,
    }  # fmt: skip
