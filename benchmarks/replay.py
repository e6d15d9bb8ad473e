"""Produce and consume loads that cost their own process almost no CPU, so that the broker is what is measured.

Usage: python -m benchmarks.replay prime|produce|consume BOOTSTRAP TOPIC [--bytes N] [--acks 1|all] ...

A batch is made once and sent many times over a few connections. Each connection has a window of requests in flight,
like a client that has records waiting. Fetched data is counted by its batch headers and dropped. Answers are checked:
an error code, or an offset that does not follow, ends the load. Prints the same JSON line as load.py, which measures
what a real client adds.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.compression import codec_by_name
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import BATCH_OVERHEAD_BYTES, LENGTH_OVERHEAD_BYTES, encode_batch, parse_batch_header

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import FetchPartitionFields
    from broker.wire.shapes.produce import PartitionProduceDataFields, TopicProduceDataFields

WINDOW: Final = 5  # requests in flight a connection: what an idempotent client may have
FETCH_BYTES: Final = 1_048_576
PRODUCE_VERSION: Final = 10  # what librdkafka 2.16 negotiates with both engines
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 9
DEADLINE_S: Final = 120.0
RECEIVE_BYTES: Final = 64 * 1024
# A new partition whose leader does not know of it yet, or whose followers do not: sent again, as clients do.
NOT_YET: Final = frozenset({3, 5, 6, 19, 20})
RETRIES_MAX: Final = 5_000
RETRY_PAUSE_S: Final = 0.005
SEND_BUFFERS_MAX: Final = 64  # a call; far below the kernel's 1024


class Link:
    """One connection: whole frames in, buffers out as far as the kernel takes them."""

    def __init__(self, address: tuple[str, int], *, is_blocking: bool, timeout_s: float = DEADLINE_S) -> None:
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not is_blocking:
            self._socket.setblocking(False)
        self._buffer = bytearray(RECEIVE_BYTES)
        self._start = self._end = 0
        self._unsent: list[memoryview] = []

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, buffers: Sequence[bytes]) -> None:
        self._unsent += map(memoryview, buffers)
        self.send_rest()

    def send_rest(self) -> bool:
        """True when nothing is left to be sent."""
        unsent = self._unsent
        while unsent:
            try:
                sent = self._socket.sendmsg(unsent[:SEND_BUFFERS_MAX])
            except BlockingIOError:
                return False
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.pop(0))
            if sent:
                unsent[0] = unsent[0][sent:]
        return True

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> None:
        """Take what is there; blocks for the first byte on a blocking connection."""
        if self._end == len(self._buffer):
            held = bytes(memoryview(self._buffer)[self._start :])
            if self._start == 0:
                self._buffer = bytearray(2 * len(self._buffer))
            self._buffer[: len(held)] = held
            self._start, self._end = 0, len(held)
        count = self._socket.recv_into(memoryview(self._buffer)[self._end :])
        if not count:
            raise RuntimeError("the broker closed the connection")
        self._end += count

    def next_frame(self) -> memoryview | None:
        """A whole answer without its length, valid until the next `receive`; None if none has come yet."""
        held = self._end - self._start
        size = int.from_bytes(self._buffer[self._start : self._start + 4], "big") if held >= 4 else 0
        if held < 4 or held - 4 < size:
            return None
        begin = self._start + 4
        self._start = begin + size
        frame = memoryview(self._buffer)[begin : self._start]
        if self._start == self._end:
            self._start = self._end = 0
        return frame

    def wait_frame(self) -> memoryview:
        while (frame := self.next_frame()) is None:
            self.receive()
        return frame

    def call(self, api_key: ApiKey, version: int, message: Any) -> Any:
        """On a blocking connection."""
        self.send([b"".join(encode_request(api_key, version, 1, "replay", message))])
        return decode_response(api_key, version, bytes(self.wait_frame()))[1]

    def close(self) -> None:
        self._socket.close()


def leaders(bootstrap: str, topic: str, *, timeout_s: float = DEADLINE_S) -> dict[int, tuple[str, int]]:
    """The address of each partition's leader; KeyError while there is none."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    message = request(ApiKey.METADATA, METADATA_VERSION, topics=[{"name": topic}], allow_auto_topic_creation=False)
    link = Link((host, int(port)), is_blocking=True, timeout_s=timeout_s)
    try:
        answer = link.call(ApiKey.METADATA, METADATA_VERSION, message)
    finally:
        link.close()
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    return {each.partition_index: brokers[each.leader_id] for each in answer.topics[0].partitions}


def can_write(bootstrap: str, topic: str) -> bool:
    """One record to partition 0, acks=all, each step within a second: whether it was acknowledged."""
    batch = encode_batch([b"fail-over"], timestamps_ms=time.time_ns() // 10**6)
    topics: list[TopicProduceDataFields] = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    message = request(ApiKey.PRODUCE, PRODUCE_VERSION, acks=-1, timeout=1000, topic_data=topics)
    try:
        address = leaders(bootstrap, topic, timeout_s=1.0)[0]
        link = Link(address, is_blocking=True, timeout_s=1.0)
    except (OSError, RuntimeError, KeyError, IndexError):
        return False  # nobody there, or no leader known yet
    try:
        answer = link.call(ApiKey.PRODUCE, PRODUCE_VERSION, message)
    except (OSError, RuntimeError):
        return False
    finally:
        link.close()
    return bool(answer.responses[0].partition_responses[0].error_code == ErrorCode.none)


def make_value(size_bytes: int, codec: str) -> bytes:
    """Random bytes; where a codec is to have work, text of a small alphabet, which compresses to about a third."""
    if codec == "none":
        return os.urandom(size_bytes)
    words = [b"%08x" % (index * 2654435761 % 2**32) for index in range(37)]
    noise = os.urandom(size_bytes)
    return b" ".join(words[each % 37] for each in noise)[:size_bytes]


class Produce:
    """The load of one run; see the options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        count = max(1, options.batch_bytes // options.record_bytes)
        values = [make_value(options.record_bytes, options.codec) for _ in range(min(count, 64))]
        codec = codec_by_name(options.codec)
        batch = encode_batch(
            [values[index % len(values)] for index in range(count)], timestamps_ms=time.time_ns() // 10**6, codec=codec
        )
        self.records_a_request = count
        self.requests = -(-options.bytes // (count * options.record_bytes))
        by_leader: dict[tuple[str, int], list[list[bytes]]] = {}
        for partition, address in sorted(leaders(options.bootstrap, options.topic).items()):
            by_leader.setdefault(address, []).append(self._frame(partition, batch))
        each = max(1, options.connections // len(by_leader))
        self.links: list[tuple[Link, list[list[bytes]]]] = [
            (Link(address, is_blocking=False), frames) for address, frames in by_leader.items() for _ in range(each)
        ]
        # correlation id, tags, two array lengths around the topic's name, partition index; then the error code
        self.error_position = 4 + 1 + 1 + 1 + len(options.topic.encode()) + 1 + 4
        self._left: list[list[int]] = []  # requests to be sent by each link: one number for all, or one of its own
        self.waited_for = 0
        self.retries_left = RETRIES_MAX
        self._turns = [0] * len(self.links)
        # The frames that are in flight, in the order of their answers.
        self._in_flight: list[deque[int]] = [deque() for _ in self.links]
        self._refused: list[deque[int]] = [deque() for _ in self.links]

    def _frame(self, partition: int, batch: bytes) -> list[bytes]:
        """Around the one batch, which all frames share."""
        data: PartitionProduceDataFields = {"index": partition, "records": batch}
        topics: list[TopicProduceDataFields] = [{"name": self.options.topic, "partition_data": [data]}]
        acks = -1 if self.options.acks == "all" else 1
        message = request(ApiKey.PRODUCE, PRODUCE_VERSION, acks=acks, timeout=30_000, topic_data=topics)
        whole = b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "replay", message))
        begin = whole.index(batch)
        return [whole[:begin], batch, whole[begin + len(batch) :]]

    def _send(self, number: int, count: int) -> None:
        link, frames = self.links[number]
        count = min(count, self._left[number][0])
        buffers: list[bytes] = []
        for _ in range(count):
            if self._refused[number]:
                turn = self._refused[number].popleft()
            else:
                turn = self._turns[number] % len(frames)
                self._turns[number] += 1
            buffers += frames[turn]
            self._in_flight[number].append(turn)
        self._left[number][0] -= count
        self.waited_for += count
        if buffers:
            link.send(buffers)

    def run(self) -> tuple[int, float]:
        """(records acknowledged, seconds). Raises at the first error code that is not of a new partition.

        `prime` sends a batch to each partition over each connection: a broker answers for a topic of many partitions
        before it has made all of their files.
        """
        if self.options.operation == "prime":
            left = [[len(frames)] for _, frames in self.links]
            return sum(each for (each,) in left) * self.records_a_request, self._send_all(left)
        return self.requests * self.records_a_request, self._send_all([[self.requests]] * len(self.links))

    def _send_all(self, left: list[list[int]]) -> float:
        """Seconds from the first request to the last answer."""
        self._left, self.retries_left = left, RETRIES_MAX
        poll = select.epoll()
        by_descriptor = {link.fileno(): number for number, (link, _) in enumerate(self.links)}
        is_writing: set[int] = set()
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        began_s = time.monotonic()
        for number in range(len(self.links)):
            self._send(number, self.options.window)
        while self.waited_for:
            for link, _ in self.links:
                if link.has_unsent and link.fileno() not in is_writing:
                    is_writing.add(link.fileno())
                    poll.modify(link.fileno(), select.EPOLLIN | select.EPOLLOUT)
            for descriptor, events in poll.poll(DEADLINE_S) or self._give_up():
                number = by_descriptor[descriptor]
                if events & select.EPOLLOUT and self.links[number][0].send_rest():
                    is_writing.discard(descriptor)
                    poll.modify(descriptor, select.EPOLLIN)
                if events & ~select.EPOLLOUT:
                    self._receive(number)
            if time.monotonic() - began_s > DEADLINE_S:
                self._give_up()
        return time.monotonic() - began_s

    def _give_up(self) -> list[tuple[int, int]]:
        raise RuntimeError(
            f"produce to {self.options.topic}: {self.waited_for} answers are missing after {DEADLINE_S} s"
        )

    def _receive(self, number: int) -> None:
        link = self.links[number][0]
        link.receive()
        answers = 0
        while (frame := link.next_frame()) is not None:
            (error,) = struct.unpack_from(">h", frame, self.error_position)
            answers += 1
            turn = self._in_flight[number].popleft()
            if error in NOT_YET and self.retries_left:
                self.retries_left -= 1
                self._left[number][0] += 1
                self._refused[number].append(turn)
                time.sleep(RETRY_PAUSE_S)
            elif error:
                raise RuntimeError(f"produce to {self.options.topic}: error code {error}")
        self.waited_for -= answers
        self._send(number, answers)


def consume(options: argparse.Namespace) -> tuple[int, float]:
    """(records counted, seconds) of reading partition 0 from its start, one fetch at a time."""
    link = Link(leaders(options.bootstrap, options.topic)[0], is_blocking=True)
    offset, expected = 0, options.bytes // options.record_bytes
    began_s = time.monotonic()
    while offset < expected:
        partition: FetchPartitionFields = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": FETCH_BYTES,
        }
        message = request(ApiKey.FETCH, FETCH_VERSION, max_wait=500, min_bytes=1, max_bytes=50 * FETCH_BYTES,
                          topics=[{"topic": options.topic, "partitions": [partition]}])  # fmt: skip
        link.send([b"".join(encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "replay", message))])
        answer = decode_response(ApiKey.FETCH, FETCH_VERSION, link.wait_frame())[1].responses[0].partitions[0]
        reached = next_offset(answer.records or b"", offset)
        if answer.error_code or reached <= offset:
            raise RuntimeError(f"consume from {options.topic}: {answer.error_code!r}, nothing whole at offset {offset}")
        offset = reached
        if time.monotonic() - began_s > DEADLINE_S:
            raise RuntimeError(f"consume from {options.topic}: at {offset} of {expected} after {DEADLINE_S} s")
    return offset, time.monotonic() - began_s


def next_offset(records: memoryview | bytes, begin: int) -> int:
    """The offset after the last whole batch: Apache Kafka may cut the last one off. Each must follow the one before."""
    position, end, found = 0, len(records), begin
    while end - position >= BATCH_OVERHEAD_BYTES:
        header = parse_batch_header(records, position)
        position += LENGTH_OVERHEAD_BYTES + header.batch_length
        if position > end:
            break
        if not header.base_offset <= found < header.next_offset:
            raise RuntimeError(f"expected a batch that holds offset {found}, got {header.base_offset}")
        found = header.next_offset
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("operation", choices=("prime", "produce", "consume"))
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--bytes", type=int, default=256_000_000, help="of record values")
    parser.add_argument("--batch-bytes", type=int, default=131_072)
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--acks", choices=("1", "all"), default="1")
    parser.add_argument("--codec", default="none")
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--window", type=int, default=WINDOW, help="requests in flight a connection")
    options = parser.parse_args()
    if options.operation in ("prime", "produce"):
        load = Produce(options)
        before_s = sum(os.times()[:2])
        records, seconds = load.run()
    else:
        before_s = sum(os.times()[:2])
        records, seconds = consume(options)
    print(
        json.dumps(
            {
                "mb_per_s": round(records * options.record_bytes / 1e6 / seconds, 1),
                "seconds": round(seconds, 3),
                "records": records,
                "cpu_s": round(sum(os.times()[:2]) - before_s, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
