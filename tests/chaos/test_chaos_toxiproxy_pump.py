"""One turn of the pump: what it moves, what it gives back, and that no byte gets into another's socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from chaos.toxiproxy.kafka.frames import FrameSplitter
from chaos.toxiproxy.metrics import Traffic
from chaos.toxiproxy.pump import CHUNK_BYTES_MAX, SOCKETS_MAX, Passage, Pump, Why

WAIT_MS = 30_000


class Link:
    """One direction: what its sender sends comes into `source`, and what goes out of `destination` its receiver gets.
    It takes a direction that is given back out of the pump, as a real link does."""

    def __init__(self, pump: Pump) -> None:
        self.sender, self.source = tcp_pair()
        self.destination, self.receiver = tcp_pair()
        self.given_back: list[tuple[Why, bytes]] = []
        self.traffic, self.frames = Traffic(), FrameSplitter()
        self.pump = pump
        self.passage = Passage(
            source=self.source.fileno(),
            destination=self.destination.fileno(),
            traffic=self.traffic,
            frames=self.frames,
            give_back=self.take_back,
        )
        pump.add(self.passage)

    def take_back(self, why: Why, left: bytes) -> None:
        self.given_back.append((why, left))
        self.pump.remove(self.passage)

    def send(self, data: bytes) -> None:
        self.sender.sendall(data)
        wait_for(self.source, select.POLLIN)

    def receive(self) -> bytes:
        """Everything that has arrived. A send over loopback is received when it returns."""
        received = b""
        with contextlib.suppress(BlockingIOError):
            while data := self.receiver.recv(1 << 20, socket.MSG_DONTWAIT):
                received += data
        return received

    def close(self) -> None:
        for each in (self.sender, self.source, self.destination, self.receiver):
            each.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection. They do not block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    for each in (one, other):
        each.setblocking(False)
    return one, other


def wait_for(found: socket.socket, events: int) -> None:
    poll = select.poll()
    poll.register(found, events)
    assert poll.poll(WAIT_MS), "nothing came"


def reset(found: socket.socket) -> None:
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    found.close()


class EventsOf:
    """An epoll that tells of these events, whatever the sockets say: they changed after the real one had looked."""

    def __init__(self, *events: tuple[int, int]) -> None:
        self.events = list(events)

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        return self.events

    def unregister(self, descriptor: int) -> None:
        pass


@pytest.fixture
def pump() -> Iterator[Pump]:
    """In a loop that does not run, so only the test makes turns."""
    with contextlib.closing(asyncio.new_event_loop()) as loop, contextlib.closing(Pump()) as made:
        made._loop = loop
        yield made


@pytest.fixture
def link(pump: Pump) -> Iterator[Link]:
    with contextlib.closing(Link(pump)) as made:
        yield made


def fill(link: Link) -> int:
    """Fill the way to the receiver, so that nothing more can be sent. Returns the number of bytes."""
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += link.destination.send(b"f" * 65536)
    return filled


def test_a_whole_chunk_is_sent_and_counted(pump: Pump, link: Link) -> None:
    link.send(b"hello")
    pump.turn()
    assert link.receive() == b"hello"
    assert (link.traffic.received_bytes, link.traffic.sent_bytes) == (5, 5)
    assert link.given_back == []


def test_frame_boundaries_are_followed_across_chunks(pump: Pump, link: Link) -> None:
    frame = struct.pack(">i", 10) + b"0123456789"
    for part in (frame + frame[:2], frame[2:7], frame[7:] + frame[:6]):
        link.send(part)
        pump.turn()
    link.frames.start_reading()
    assert link.frames.feed(frame[6:] + frame) == (frame[6:], [frame])


def test_bytes_that_are_no_frames_pass_too(pump: Pump, link: Link) -> None:
    for _ in range(2):
        link.send(b"\xff" * 100)
        pump.turn()
    assert link.frames.is_opaque
    assert link.receive() == b"\xff" * 200


def test_what_a_slow_receiver_did_not_take_is_given_back_and_not_counted_as_sent(pump: Pump, link: Link) -> None:
    link.destination.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    link.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
    data, put, arrived = os.urandom(4 << 20), 0, b""
    while not link.given_back:
        put += link.sender.send(data[put : put + CHUNK_BYTES_MAX])
        wait_for(link.source, select.POLLIN)
        pump.turn()
    ((why, left),) = link.given_back
    assert why is Why.FULL
    assert link.traffic.received_bytes - link.traffic.sent_bytes == len(left) > 0
    while len(arrived) < link.traffic.sent_bytes:
        wait_for(link.receiver, select.POLLIN)
        arrived += link.receiver.recv(1 << 20)
    assert arrived + left == data[: link.traffic.received_bytes]


def test_if_nothing_fits_the_whole_chunk_is_given_back(pump: Pump, link: Link) -> None:
    fill(link)
    link.send(b"x" * 1000)
    pump.turn()
    assert link.given_back == [(Why.FULL, b"x" * 1000)]
    assert (link.traffic.received_bytes, link.traffic.sent_bytes) == (1000, 0)


def test_a_receiver_that_reset_gets_nothing_and_the_chunk_is_given_back(pump: Pump, link: Link) -> None:
    reset(link.receiver)
    wait_for(link.destination, select.POLLIN)
    link.send(b"late")
    pump.turn()
    assert link.given_back == [(Why.FULL, b"late")]
    assert link.traffic.sent_bytes == 0


def test_an_end_is_given_back_with_the_bytes_before_it_unread(pump: Pump, link: Link) -> None:
    link.send(b"last")
    link.sender.shutdown(socket.SHUT_WR)
    wait_for(link.source, select.POLLRDHUP)
    pump.turn()
    assert link.given_back == [(Why.ENDING, b"")]
    assert link.source.recv(100) == b"last"


def test_a_reset_is_given_back_with_the_error_unread(pump: Pump, link: Link) -> None:
    reset(link.sender)
    wait_for(link.source, select.POLLRDHUP)
    pump.turn()
    assert link.given_back == [(Why.ENDING, b"")]
    with pytest.raises(ConnectionResetError):
        link.source.recv(100)


@pytest.mark.parametrize(
    ("end", "why"), [(lambda sender: sender.shutdown(socket.SHUT_WR), Why.ENDING), (reset, Why.BROKEN)]
)
def test_an_end_or_a_reset_after_the_look_is_given_back_too(
    pump: Pump, link: Link, end: Callable[[socket.socket], None], why: Why, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(link.sender)
    wait_for(link.source, select.POLLRDHUP)
    with monkeypatch.context() as patched:
        patched.setattr(pump, "_epoll", EventsOf((link.source.fileno(), select.EPOLLIN)))
        pump.turn()
    assert link.given_back == [(why, b"")]


def test_a_source_that_has_nothing_after_all_stays(pump: Pump, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(pump, "_epoll", EventsOf((link.source.fileno(), select.EPOLLIN)))
        pump.turn()
    assert link.given_back == []
    assert pump.passage_count == 1


def test_all_of_many_ready_sockets_have_their_turn(pump: Pump) -> None:
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(contextlib.closing(Link(pump))) for _ in range(2 * SOCKETS_MAX)]
        for link in links:
            link.send(b"x" * (2 * CHUNK_BYTES_MAX if link is links[0] else 10))
        for _ in range(3):
            links[0].sender.send(b"x" * CHUNK_BYTES_MAX)  # it always has more
            pump.turn()
        assert [link.receive() for link in links[1:]] == [b"x" * 10] * (len(links) - 1)


def test_a_removed_direction_is_not_read_and_another_may_take_its_number(pump: Pump, link: Link) -> None:
    pump.remove(link.passage)
    link.send(b"for the transport")
    pump.turn()
    assert link.source.recv(100) == b"for the transport"
    number = link.source.fileno()
    with contextlib.closing(Link(pump)) as other:
        link.close()
        os.dup2(other.source.fileno(), number)  # what a new connection does that gets the lowest free number
        try:
            pump.remove(other.passage)
            again = Passage(
                source=number, destination=other.destination.fileno(), traffic=Traffic(), frames=FrameSplitter(),
                give_back=other.take_back,
            )  # fmt: skip
            pump.add(again)
            pump.remove(link.passage)  # a second time, after the number went to another
            other.send(b"new")
            pump.turn()
            assert other.receive() == b"new"
            pump.remove(again)
        finally:
            os.close(number)


@pytest.mark.parametrize("why", [Why.ENDING, Why.FULL])
def test_sockets_that_close_within_a_turn_leave_nothing_to_those_that_take_their_numbers(pump: Pump, why: Why) -> None:
    """Two links are ready in one turn. What comes of the first closes the second link, and new connections get its
    numbers. What was meant for the second link must not get there, and nothing of the new ones may be read."""
    first, second = Link(pump), Link(pump)
    newcomers: list[socket.socket] = []

    def close_second(why: Why, left: bytes) -> None:
        pump.remove(first.passage)
        pump.remove(second.passage)
        numbers = {second.source.fileno(), second.destination.fileno()}
        second.source.close()
        second.destination.close()
        while not numbers <= {each.fileno() for each in newcomers}:
            newcomers.extend(socket.socketpair())
        for each in newcomers:
            each.setblocking(False)

    first.passage.give_back = close_second
    if why is Why.ENDING:
        first.sender.shutdown(socket.SHUT_WR)
        wait_for(first.source, select.POLLRDHUP)
    else:
        fill(first)
        first.send(b"first")
    second.send(b"second")
    pump.turn()
    assert second.receive() == b"second", "it was sent before the second link was closed"
    for each in newcomers:
        with pytest.raises(BlockingIOError):
            each.recv(100)
    newcomers[0].send(b"stays")
    pump.turn()
    assert newcomers[1].recv(100) == b"stays"
    assert pump.passage_count == 0
    for each in newcomers:
        each.close()
    first.close()
    second.close()
