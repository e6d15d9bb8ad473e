"""A listener that speaks Kafka as badly as it likes: for tests of whoever connects to it.

Each manner is a small function: it gets the request's header and decides what bytes go back. Whoever it talks to
must end within its own bounds, with a clear error, and take little memory for it.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from broker.wire.apis import APIS, ApiKey
from broker.wire.codec import RequestHeader, decode_request, encode_response
from broker.wire.errors import ProtocolError
from broker.wire.framing import FrameReader
from broker.wire.messages import response, response_type
from tests.harness.nonsense import ASSIGNMENT, nonsense

CHUNK_S: Final = 0.02
Answer = Iterator[bytes]  # what is written, piece by piece, CHUNK_S apart; its end closes the connection
Manner = Callable[["HostileBroker", RequestHeader, Any], Answer]


def frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


class HostileBroker:
    """One manner for all requests; `polite` ones (by API key) are answered properly first."""

    def __init__(self, manner: Manner, *, polite: frozenset[int] = frozenset(), topics: int = 1) -> None:
        self.manner, self.polite, self.topics = manner, polite, topics
        self.requests = 0
        self.told: list[tuple[int, Any]] = []  # nonsense, for a failed test to show
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._is_closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> HostileBroker:
        return self

    def __exit__(self, *details: object) -> None:
        self._is_closing.set()
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._is_closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        with contextlib.suppress(OSError, ProtocolError, ValueError), connection:
            while data := connection.recv(65536):
                reader.receive_bytes(data)
                while (request := reader.next_frame()) is not None:
                    self.requests += 1
                    header, message = decode_request(bytes(request))
                    if header.api_key in self.polite:
                        connection.sendall(self.proper(header, message))
                        continue
                    for piece in self.manner(self, header, message):
                        connection.sendall(piece)
                        if self._is_closing.wait(CHUNK_S):
                            return
        self._open.discard(connection)

    # -- what a good broker would say, as far as the tests need it -----------------------------------------------------

    def proper(self, header: RequestHeader, message: Any, **changed: object) -> bytes:
        values = {**self.fields(header.api_key, message), **changed}
        built = response(header.api_key, header.api_version, **values)
        return b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, built))

    def fields(self, api_key: int, message: Any) -> dict[str, Any]:
        if api_key == ApiKey.API_VERSIONS:
            keys = [{"api_key": int(api.key), "min_version": api.min_version, "max_version": api.max_version}
                    for api in APIS.values()]  # fmt: skip
            return {"api_keys": keys}
        if api_key == ApiKey.METADATA:
            names = [each.name for each in message.topics or ()] or [f"t{index}" for index in range(self.topics)]
            partition: dict[str, Any] = {"partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": (1,)}
            partition["isr_nodes"] = (1,)
            return {
                "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}],
                "controller_id": 1,
                "topics": [{"name": name, "partitions": [partition]} for name in names],
            }
        if api_key == ApiKey.FIND_COORDINATOR:
            here = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
            several = [{"key": key, **here} for key in getattr(message, "coordinator_keys", ())]
            return {"coordinators": several} if several else here
        return self._group_fields(api_key, message)

    def _group_fields(self, api_key: int, message: Any) -> dict[str, Any]:
        member = {"member_id": "member-1"}
        if api_key == ApiKey.JOIN_GROUP:
            first = message.protocols[0]
            named = {"protocol_type": "consumer", "protocol_name": first.name, "generation_id": 1, "leader": "member-1"}
            return {**named, **member, "members": [{**member, "metadata": bytes(first.metadata)}]}
        if api_key == ApiKey.SYNC_GROUP:
            return {"protocol_type": "consumer", "assignment": ASSIGNMENT}
        if api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            return {**member, "member_epoch": 1, "heartbeat_interval": 50}
        if api_key == ApiKey.INIT_PRODUCER_ID:
            return {"producer_id": 1, "producer_epoch": 0}
        return {}


# --- manners ----------------------------------------------------------------------------------------------------------


def silent(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    while True:
        yield b""


def drips(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """A proper answer's length, and then a byte now and then."""
    yield struct.pack(">ii", 1_000_000, header.correlation_id)
    while True:
        yield b"\x00"


def hangs_up(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    yield b"\x00\x00"


def negative_length(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    yield struct.pack(">i", -5) + bytes(64)


def giant_frame(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    yield struct.pack(">ii", 2**31 - 1, header.correlation_id)
    while True:
        yield bytes(1 << 20)


def large_frame(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """As long as may be, and all of it comes."""
    yield struct.pack(">ii", 60 << 20, header.correlation_id)
    for _ in range(60):
        yield bytes(1 << 20)


def endless(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    while True:
        yield frame(header.correlation_id, bytes(1 << 16))


def wrong_correlation_id(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    yield frame(header.correlation_id ^ 0x5555, bytes(40))


def claims_billions(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """11 bytes as the answer to ApiVersions, and the like for all others."""
    yield frame(header.correlation_id, b"\x00\x00" + b"\xff\xff\xff\xff\x0f" * 3)


def empty_answer(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    yield frame(header.correlation_id, b"")


def random_bytes(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    rng = random.Random(header.correlation_id * 31 + header.api_key)
    yield frame(header.correlation_id, rng.randbytes(rng.randrange(1, 400)))


def damaged(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """A proper answer with some bytes of it changed."""
    rng = random.Random(broker.requests)
    whole = bytearray(broker.proper(header, message))
    for _ in range(rng.randrange(1, 5)):
        whole[rng.randrange(8, len(whole))] = rng.choice((0, 1, 127, 128, 255))
    yield bytes(whole)


def ports_out_of_range(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    if header.api_key != ApiKey.METADATA:
        yield broker.proper(header, message)
        return
    hosts = ("127.0.0.1", "", "\x00", "x" * 300, "..", "127.0.0.1", "[::1", "127.0.0.1")
    ports = (70_000, 9092, 9092, 9092, 9092, -1, 9092, 2**31 - 1)
    places = zip(hosts, ports, strict=True)
    brokers = [{"node_id": number, "host": host, "port": port} for number, (host, port) in enumerate(places)]
    yield broker.proper(header, message, brokers=brokers)


def strange_metadata(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """Well-formed, and nonsense: ids and indexes below zero, doubles, a leader that is no broker."""
    if header.api_key != ApiKey.METADATA:
        yield broker.proper(header, message)
        return
    partitions = [
        {"partition_index": index, "leader_id": leader, "leader_epoch": -7, "replica_nodes": (-1,), "isr_nodes": (9,)}
        for index, leader in ((-1, 1), (0, 77), (0, 1), (2**31 - 1, 1))
    ]
    names = [each.name for each in message.topics or ()] or ["t0"]
    topics = [{"name": name, "partitions": partitions} for name in (*names, *names, "other", "")]
    broker_line = {"node_id": 1, "host": "127.0.0.1", "port": broker.port}
    yield broker.proper(header, message, brokers=[broker_line, broker_line], controller_id=-5, topics=topics)


def no_topics(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """Lists that the caller takes to have an entry are empty."""
    yield broker.proper(header, message, **({"topics": ()} if header.api_key == ApiKey.METADATA else {}))


def no_coordinator(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    yield broker.proper(header, message, **({"coordinators": ()} if header.api_key == ApiKey.FIND_COORDINATOR else {}))


def speaks_nonsense(seed: int) -> Manner:
    """Whole answers of the right type, with values that mean nothing. Where a proper answer leads on to other
    requests, half of the answers are proper. A seed says the same to the n-th request of an API."""
    counts: Counter[int] = Counter()

    def manner(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        key, version = header.api_key, header.api_version
        counts[key] += 1
        rng = random.Random(f"{seed} {key} {counts[key]}")
        if broker.fields(key, message) and rng.random() < 0.5:
            yield broker.proper(header, message)
            return
        told = nonsense(response_type(key, version), rng)
        broker.told.append((key, told))
        yield b"".join(encode_response(key, version, header.correlation_id, told))

    return manner


MANNERS: Final[tuple[Manner, ...]] = (
    silent, drips, hangs_up, negative_length, giant_frame, large_frame, endless, wrong_correlation_id, claims_billions,
    empty_answer, random_bytes, damaged, ports_out_of_range, strange_metadata, no_topics,
    no_coordinator,
)  # fmt: skip


def deadline(seconds: float) -> Callable[[], bool]:
    end_s = time.monotonic() + seconds
    return lambda: time.monotonic() > end_s
