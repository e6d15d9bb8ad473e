"""What lies between TLS and a connection: nothing is lost or reordered, and what the peer does not read is counted."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from broker.node.net.tls_stream import HIGH_BYTES, PIECE_BYTES, TURN_PIECES, TlsStream


class Below(asyncio.Transport):
    """TLS: takes what it is given, and says so when it is too much for it."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = bytearray()
        self.room_bytes = 1 << 40
        self.is_closed = self.is_aborted = False
        self.stream: TlsStream | None = None

    def write(self, data: Any) -> None:
        self.taken += data
        self.room_bytes -= len(data)
        if self.room_bytes <= 0:
            assert self.stream is not None
            self.stream.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_write_buffer_size(self) -> int:
        return max(0, -self.room_bytes)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Connection:
    def __init__(self) -> None:
        self.transport: Any = None
        self.blocked: list[bool] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(10))

    def buffer_updated(self, nbytes: int) -> None:
        return

    def pause_writing(self) -> None:
        self.blocked.append(True)

    def resume_writing(self) -> None:
        self.blocked.append(False)


def opened() -> tuple[TlsStream, Below, Connection]:
    below, connection = Below(), Connection()
    stream = TlsStream(lambda _: connection)
    below.stream = stream
    stream.connection_made(below)
    assert connection.transport is stream
    return stream, below, connection


def test_everything_arrives_in_order_whatever_the_other_side_takes() -> None:
    async def run(seed: int) -> None:
        rng = random.Random(seed)
        stream, below, _ = opened()
        sent = bytearray()
        for _ in range(30):
            below.room_bytes = rng.choice((1, 1000, 10 * PIECE_BYTES))
            data = rng.randbytes(rng.choice((0, 1, 100, PIECE_BYTES, 5 * PIECE_BYTES + 1)))
            sent += data
            stream.write(data)
            if rng.random() < 0.5:
                stream.resume_writing()
            assert sent[: len(below.taken)] == below.taken
        below.room_bytes = 1 << 40
        stream.resume_writing()
        for _ in range(10):
            await asyncio.sleep(0)
        assert below.taken == sent
        assert stream.get_write_buffer_size() == 0

    for seed in range(20):
        asyncio.run(run(seed))


def test_what_waits_is_counted_and_the_connection_hears_of_it_once() -> None:
    stream, below, connection = opened()
    below.room_bytes = PIECE_BYTES
    stream.write(bytes(HIGH_BYTES + 2 * PIECE_BYTES))
    stream.write(b"x")
    assert connection.blocked == [True]
    assert stream.get_write_buffer_size() == HIGH_BYTES + PIECE_BYTES + 1
    below.room_bytes = 1 << 40
    stream.resume_writing()
    assert connection.blocked == [True, False]
    assert stream.get_write_buffer_size() == 0


def test_a_large_answer_lets_others_have_their_turn() -> None:
    async def run() -> None:
        stream, below, _ = opened()
        stream.write(bytes(3 * TURN_PIECES * PIECE_BYTES))
        assert len(below.taken) == TURN_PIECES * PIECE_BYTES
        for _ in range(4):
            await asyncio.sleep(0)
        assert len(below.taken) == 3 * TURN_PIECES * PIECE_BYTES

    asyncio.run(run())


def test_a_close_waits_for_what_was_written_and_an_abort_does_not() -> None:
    for ends, closed, aborted in (("close", True, False), ("abort", False, True)):
        stream, below, _ = opened()
        below.room_bytes = 1
        stream.write(bytes(3 * PIECE_BYTES))
        getattr(stream, ends)()
        assert (stream.is_closing(), below.is_closed, below.is_aborted) == (True, False, aborted)
        below.room_bytes = 1 << 40
        stream.resume_writing()
        assert below.is_closed is closed
        assert len(below.taken) == (3 if closed else 1) * PIECE_BYTES
        stream.write(b"too late")
        assert len(below.taken) == (3 if closed else 1) * PIECE_BYTES


def test_nobody_to_get_the_bytes_ends_the_connection() -> None:
    below = Below()
    stream = TlsStream(lambda _: None)
    stream.connection_made(below)
    assert below.is_aborted
    stream.buffer_updated(0)
    stream.connection_lost(None)


@pytest.mark.parametrize("size_bytes", [0, 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_lines_are_written_one_after_the_other(size_bytes: int) -> None:
    stream, below, _ = opened()
    stream.writelines([b"a", bytearray(size_bytes), memoryview(b"z")])
    assert below.taken == b"a" + bytes(size_bytes) + b"z"
