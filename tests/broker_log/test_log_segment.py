"""The sparse index: Kafka's file format, and that no look-up starts too late."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.filesystem import LOCAL
from broker.log.index import OffsetIndex
from broker.log.segment import Segment
from broker.wire.records import encode_batch, validate_batches


def append(segment: Segment, base_offset: int, count: int, size_bytes: int) -> None:
    data = encode_batch([bytes(size_bytes)] * count, timestamps_ms=1, base_offset=base_offset)
    segment.append(data, validate_batches(data))


def test_index_file_is_kafkas(tmp_path: Path) -> None:
    segment = Segment(LOCAL, str(tmp_path), 1000, index_interval_bytes=100)
    positions = []
    for number in range(6):
        positions.append(segment.size_bytes)
        append(segment, 1000 + 3 * number, 3, 10)
    segment.save_index()
    entries = list(struct.iter_unpack(">ii", (tmp_path / "00000000000000001000.index").read_bytes()))
    # One entry for each batch that begins more than 100 bytes after the last: its last offset, relative, and where.
    assert entries == [(5, positions[1]), (8, positions[2]), (11, positions[3]), (14, positions[4]), (17, positions[5])]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 400)), max_size=60), st.integers(0, 2000))
def test_look_up_never_starts_after_the_batch(batches: list[tuple[int, int]], interval: int) -> None:
    index, offset, position, truth = OffsetIndex(interval), 0, 0, []
    for count, size in batches:
        index.batch_appended(offset + count - 1, position, size)
        truth += [(each, position) for each in range(offset, offset + count)]
        offset, position = offset + count, position + size
    starts = {start for _, start in truth} | {0}
    for each, start in truth:
        found = index.position_before(each)
        assert found <= start
        assert found in starts
        assert index.position_at_or_before(start) <= start
    for cut in sorted(starts):
        index.truncate_to(cut) if cut == max(starts) else None
    assert all(index.position_before(each) <= start for each, start in truth)


@pytest.mark.parametrize("interval", [50, 100_000])
def test_position_of_every_offset(tmp_path: Path, interval: int) -> None:
    segment = Segment(LOCAL, str(tmp_path), 0, index_interval_bytes=interval)
    truth = {}
    for number in range(30):
        truth.update(dict.fromkeys(range(2 * number, 2 * number + 2), segment.size_bytes))
        append(segment, 2 * number, 2, 40)
    assert {offset: segment.position_of(offset) for offset in truth} == truth
    assert segment.position_of(60) == segment.size_bytes
    assert segment.position_of(10**9) == segment.size_bytes


def test_offset_gaps_are_stepped_over(tmp_path: Path) -> None:
    segment = Segment(LOCAL, str(tmp_path), 0, index_interval_bytes=50)
    append(segment, 0, 2, 10)
    second = segment.size_bytes
    append(segment, 10, 2, 10)
    assert [segment.position_of(offset) for offset in (1, 2, 9, 10, 11)] == [0, second, second, second, second]
    assert segment.read(5, 1, 100, True)[:8] == (10).to_bytes(8, "big")
