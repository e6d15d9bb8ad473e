"""Frames out of arbitrary pieces of a byte stream."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.errors import RemoteProtocolError
from broker.wire.framing import INITIAL_BUFFER_BYTES, FrameReader


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_frames_do_not_depend_on_how_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(framed(body) for body in bodies)
    for in_place in (False, True):
        reader, found, position, turn = FrameReader(), [], 0, 0
        while position < len(stream):
            piece = stream[position : position + cuts[turn % len(cuts)]]
            turn += 1
            if in_place:
                view = reader.writable()
                piece = piece[: len(view)]
                view[: len(piece)] = piece
                reader.written(len(piece))
            else:
                reader.receive_bytes(piece)
            position += len(piece)
            while (frame := reader.next_frame()) is not None:
                found.append(bytes(frame))
        assert found == bodies
        assert reader.buffered_bytes == 0


def test_frame_larger_than_the_buffer() -> None:
    body = bytes(range(256)) * 2000
    reader = FrameReader()
    stream = framed(b"first") + framed(body) + framed(b"last")
    found: list[bytes] = []
    for start in range(0, len(stream), 70_001):
        reader.receive_bytes(stream[start : start + 70_001])
        while (frame := reader.next_frame()) is not None:
            found.append(bytes(frame))
    assert found == [b"first", body, b"last"]


def test_room_for_a_claimed_frame_is_made_as_its_bytes_come() -> None:
    """A length is only a claim: a hundred connections that claim 100 MiB each must not take the memory for it."""
    reader = FrameReader()
    claimed = 64 * INITIAL_BUFFER_BYTES
    reader.receive_bytes(struct.pack(">i", claimed))
    assert len(reader.writable()) <= 4 * INITIAL_BUFFER_BYTES
    fills = 0
    while reader.next_frame() is None:
        view = reader.writable()
        reader.written(min(len(view), claimed + 4 - reader.buffered_bytes))
        fills += 1
    assert fills <= 12, "room grows with what has come, so that a large frame needs few reads"


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1, -(2**31)])
def test_absurd_length_is_a_remote_protocol_error(size: int) -> None:
    reader = FrameReader(frame_bytes_max=1000)
    reader.receive_bytes(struct.pack(">i", size))
    with pytest.raises(RemoteProtocolError, match="claims"):
        reader.next_frame()
    assert len(reader.writable()) < 10 * INITIAL_BUFFER_BYTES


def test_http_is_not_kafka() -> None:
    reader = FrameReader()
    reader.receive_bytes(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(RemoteProtocolError):
        reader.next_frame()
