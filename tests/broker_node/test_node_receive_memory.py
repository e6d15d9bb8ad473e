"""No memory beyond the budget: whatever connections send, their buffers are counted before they grow."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.node.net.connection import Connection
from broker.node.net.memory import RequestMemory
from broker.node.net.requests import Request
from broker.node.net.unread_answers import UnreadAnswers
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import encode_request
from broker.wire.framing import INITIAL_BUFFER_BYTES, KEPT_BUFFER_BYTES
from broker.wire.messages import request, response

MIB = 1 << 20


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_paused = self.is_ended = False

    def write(self, data: Any) -> None:
        return

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        self.is_ended = True

    def abort(self) -> None:
        self.is_ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Peer:
    """A client and the connection that the broker has for it."""

    def __init__(self, memory: RequestMemory, *, request_bytes_max: int = 100 * MIB, answers: bool = True) -> None:
        self.transport, self.taken, self.answers = Transport(), list[Request[Any]](), answers
        self.connection = Connection(
            listener=Listener.CLIENT,
            listener_name="EXTERNAL",
            dispatch=self.dispatch,
            logger=Logger(0),
            request_bytes_max=request_bytes_max,
            on_open=lambda _: True,
            on_close=lambda _: None,
            memory=memory,
            unread=UnreadAnswers(limit_bytes=1 << 30, on_end=lambda *_: None),
        )
        self.connection.connection_made(self.transport)
        self.unsent = b""

    def dispatch(self, request: Request[Any]) -> None:
        self.taken.append(request)
        if self.answers:
            request.respond(response(ApiKey.METADATA, 9, brokers=[], topics=[]))

    def send(self, data: bytes) -> None:
        self.unsent += data
        self.go_on()

    def go_on(self, turns: int = 1 << 30) -> None:
        """The broker reads until it pauses, or has everything."""
        view = memoryview(self.unsent)
        position = 0
        while position < len(view) and turns and not (self.transport.is_paused or self.transport.is_ended):
            room = self.connection.get_buffer(-1)
            piece = view[position : position + len(room)]
            room[: len(piece)] = piece
            position, turns = position + len(piece), turns - 1
            self.connection.buffer_updated(len(piece))
        self.unsent = self.unsent[position:]

    @property
    def buffer_bytes(self) -> int:
        return self.connection._reader.buffer_bytes

    def leave(self) -> None:
        self.transport.is_ended = True
        self.connection.connection_lost(None)


def frame(size: int) -> bytes:
    """A request of about this size."""
    message = request(ApiKey.METADATA, 9, topics=None)
    head = b"".join(encode_request(ApiKey.METADATA, 9, 1, "c", message))[4:-1]
    fill = size - len(head) - 8
    if fill <= 0:
        return struct.pack(">i", len(head) + 1) + head + b"\0"
    size_tag = bytes([*(0x80 | (fill >> shift) & 0x7F for shift in (0, 7, 14, 21)), fill >> 28])
    body = head + b"\x01\x63" + size_tag + bytes(fill)  # one unknown tagged field
    return struct.pack(">i", len(body)) + body


def half(size: int, sent: int) -> bytes:
    return struct.pack(">i", size) + bytes(sent)


def beyond_first(peers: list[Peer]) -> int:
    return sum(each.buffer_bytes - INITIAL_BUFFER_BYTES for each in peers)


def run(work: Any) -> None:
    async def main() -> None:
        work()
        await asyncio.sleep(0)

    asyncio.run(main())


@pytest.mark.parametrize("behind", [0, 70_000], ids=["whole", "half-behind"])
def test_idle_connections_whose_requests_were_large_hold_no_memory_beyond_the_budget(behind: int) -> None:
    """As in a review: 30 connections, each idle after a request of 69 MiB, held 2 GiB beside a budget of 64 MiB."""

    def work() -> None:
        memory = RequestMemory(limit_bytes=16 * MIB)
        peers = [Peer(memory) for _ in range(8)]
        large = frame(9 * MIB) + (half(100_000, behind) if behind else b"")
        for each in peers:
            each.send(large)
        assert [len(each.taken) for each in peers] == [1] * 8
        assert beyond_first(peers) <= memory.used_bytes <= 16 * MIB
        for each in peers:
            each.leave()
        assert (memory.used_bytes, memory.waiting) == (0, 0)

    run(work)


def test_a_large_request_behind_a_small_one_is_counted_like_any_other() -> None:
    """The bytes of the small one were taken, and counted for the large one too."""

    def work() -> None:
        memory = RequestMemory(limit_bytes=8 * MIB)
        peers = [Peer(memory) for _ in range(20)]
        for each in peers:
            each.send(frame(100_000) + half(4 * MIB, 3 * MIB))
        assert beyond_first(peers) <= memory.used_bytes <= 8 * MIB + 4 * MIB + 4
        assert memory.waiting
        for each in peers:
            each.leave()
        assert (memory.used_bytes, memory.waiting) == (0, 0)

    run(work)


def test_a_buffer_that_is_kept_is_given_back_when_others_need_the_memory() -> None:
    def work() -> None:
        memory = RequestMemory(limit_bytes=4 * MIB)
        rested = [Peer(memory) for _ in range(5)]
        for each in rested:
            each.send(frame(MIB))
        assert beyond_first(rested) > 3 * MIB, "they are kept while nobody needs them"
        active = Peer(memory)
        active.send(half(MIB, 10) + bytes(MIB - 20))
        assert not active.transport.is_paused
        assert rested[0].buffer_bytes == INITIAL_BUFFER_BYTES
        assert rested[4].buffer_bytes > INITIAL_BUFFER_BYTES
        assert beyond_first([*rested, active]) <= memory.used_bytes <= 5 * MIB
        for each in rested:
            each.send(frame(MIB))  # each gets a buffer again
        assert [len(each.taken) for each in rested] == [2] * 5

    run(work)


def test_requests_that_wait_for_more_do_not_wait_for_one_another() -> None:
    """All memory is held by connections with a kept buffer, and each begins a request that needs more."""

    def work() -> None:
        memory = RequestMemory(limit_bytes=4 * MIB)
        peers = [Peer(memory) for _ in range(8)]
        for each in peers:
            each.send(frame(700_000))
        for each in peers:
            each.send(frame(1_500_000)[:600_000])
        for each in peers:
            each.send(frame(1_500_000)[600_000:])
        for _ in range(len(peers)):
            for each in peers:
                each.go_on()
        assert [len(each.taken) for each in peers] == [2] * 8

    run(work)


def test_a_frame_beyond_the_limit_ends_the_connection_at_its_length() -> None:
    def work() -> None:
        memory = RequestMemory(limit_bytes=4 * MIB)
        peer = Peer(memory, request_bytes_max=MIB)
        peer.send(struct.pack(">i", MIB + 1))
        assert peer.transport.is_ended
        assert (memory.used_bytes, peer.buffer_bytes) == (0, INITIAL_BUFFER_BYTES)

    run(work)


def test_a_buffer_grows_by_what_arrives_and_not_beyond_its_frame() -> None:
    def work() -> None:
        memory = RequestMemory(limit_bytes=-1)
        peer = Peer(memory)
        peer.send(half(50 * MIB, 10))
        assert peer.buffer_bytes == INITIAL_BUFFER_BYTES
        peer.send(bytes(5 * MIB))
        assert peer.buffer_bytes <= 25 * MIB + INITIAL_BUFFER_BYTES
        peer.send(bytes(44 * MIB))
        assert peer.buffer_bytes <= 50 * MIB + 4

    run(work)


pieces = st.lists(
    st.tuples(
        st.integers(0, 5),  # who
        st.sampled_from([30, 60_000, 70_000, 300_000, MIB, 3 * MIB, KEPT_BUFFER_BYTES + 5]),
        st.sampled_from([1.0, 1.0, 0.6, 0.01]),  # how much of it is sent
        st.sampled_from(["send", "send", "leave", "rest"]),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(pieces)
def test_whatever_connections_send_their_buffers_are_within_what_is_counted(sent: list[Any]) -> None:
    def work() -> None:
        limit = 4 * MIB
        memory = RequestMemory(limit_bytes=limit)
        peers = [Peer(memory) for _ in range(6)]
        late = [b""] * 6
        for who, size, share, what in sent:
            peer = peers[who]
            if what == "leave":
                peer.leave()
                peers[who], late[who] = Peer(memory), b""
            elif what == "send":
                whole = late[who] + frame(size)
                cut = round(len(whole) * share)
                peer.send(whole[:cut])
                late[who] = whole[cut:]
            else:
                for each in peers:
                    each.go_on(3)
            assert beyond_first(peers) <= memory.used_bytes
            assert memory.used_bytes <= limit + 2 * (KEPT_BUFFER_BYTES + 100)
        for who, peer in enumerate(peers):
            peer.send(late[who])
        for _ in range(len(peers)):
            for each in peers:
                each.go_on()
        assert not any(each.unsent for each in peers), "everybody's requests come in"
        for each in peers:
            each.leave()
        assert (memory.used_bytes, memory.waiting) == (0, 0)

    run(work)
