"""Whole batches behind a damaged one are found wherever they begin, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log import damage
from broker.log.damage import next_whole_batch
from broker.log.filesystem import LocalFile
from broker.wire.records import encode_batch
from tests.amount import examples


class Bytes(LocalFile):
    """A file in memory, read as one."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def size_bytes(self) -> int:
        return len(self._content)

    def read_at(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]


def batch(offset: int, size: int = 40) -> bytes:
    return encode_batch([b"\x02" * size], timestamps_ms=1, base_offset=offset)


@settings(max_examples=examples(200), deadline=None)
@given(junk=st.binary(max_size=300), more=st.binary(max_size=100), chunk=st.integers(70, 400), size=st.integers(0, 300))
def test_a_whole_batch_is_found_behind_any_junk(junk: bytes, more: bytes, chunk: int, size: int) -> None:
    content = Bytes(junk + batch(7, size) + more)
    original, damage.CHUNK_BYTES = damage.CHUNK_BYTES, chunk
    try:
        found = next_whole_batch(content, 0, min_offset=3)
    finally:
        damage.CHUNK_BYTES = original
    assert found is not None
    assert (found[0], found[1].base_offset) == (len(junk), 7)


@pytest.mark.parametrize("content", [b"", batch(2), batch(7)[:-1], bytes(3000), b"\x02" * 3000])
def test_nothing_is_found_in_zeros_in_torn_batches_and_in_those_of_earlier_offsets(content: bytes) -> None:
    assert next_whole_batch(Bytes(content), 0, min_offset=3) is None


def test_a_damaged_batch_is_none(tmp_path: Path) -> None:
    content = bytearray(batch(7))
    content[-1] ^= 1
    path = tmp_path / "log"
    path.write_bytes(bytes(content) + batch(8))
    found = next_whole_batch(LocalFile(str(path)), 0, min_offset=3)
    assert found is not None
    assert found[1].base_offset == 8
