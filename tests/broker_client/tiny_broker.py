"""A one-broker server for tests: ApiVersions, Metadata, Produce, InitProducerId on a real socket, with faults on order.

It keeps the values it was sent, in order, so that "acknowledged" can be compared with "arrived".
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any

from broker.client.core.authentication import SASL_AUTHENTICATE, SASL_HANDSHAKE
from broker.wire.apis import ApiKey
from broker.wire.codec import RequestHeader, decode_request, decode_request_body, encode_response
from broker.wire.framing import FrameReader
from broker.wire.messages import build, response, response_type
from broker.wire.records import decode_records, iter_batches

# What to do with the n-th Produce request: None = accept, an int = refuse with it, "drop" = append, close, no answer,
# "hold" = append, no answer, connection stays, "late 6" = append, and answer with error 6.
Plan = Callable[[int], int | str | None]


def sasl_request(frame: memoryview) -> tuple[RequestHeader, Any]:
    """These two APIs may not be among those that our broker offers, so `decode_request` may refuse them."""
    key, version, correlation_id, id_size = struct.unpack_from(">hhih", frame)
    body = 10 + max(id_size, 0) + (1 if key == SASL_AUTHENTICATE and version >= 2 else 0)
    header = RequestHeader(key, version, correlation_id, None, body)
    return header, decode_request_body(header, frame)


def _end(opened: socket.socket) -> None:
    """Wakes the thread that waits at this socket."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(opened, socket.SHUT_RDWR)


class TinyBroker:
    """With `tls` it is an SSL listener. `passwords` (by name): it asks for SASL PLAIN, and ends sessions after
    `session_ms` (0: never)."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        plan: Plan = lambda number: None,
        knows_topics: bool = True,
        tls: ssl.SSLContext | None = None,
        passwords: dict[str, str] | None = None,
        session_ms: int = 0,
    ) -> None:
        self.tls, self.passwords, self.session_ms = tls, passwords, session_ms
        self.authentications = 0
        self.may_read = threading.Event()  # cleared: it takes nothing from its sockets
        self.may_read.set()
        self.asked_unauthenticated: list[int] = []  # API keys
        self.partitions = partitions
        self.plan = plan
        self.knows_topics = knows_topics
        self.logs: list[list[bytes | None]] = [[] for _ in range(partitions)]
        self.acks_seen: set[int] = set()
        self.client_ids: set[str | None] = set()
        self.produce_total = 0
        self._lock = threading.Lock()
        self._believed: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._is_closing = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def receive_buffer(self, size_bytes: int) -> None:
        """Of the connections that come from now on."""
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size_bytes)

    def values(self) -> list[bytes | None]:
        with self._lock:
            return [value for log in self.logs for value in log]

    def close(self) -> None:
        """Every thread ends before its descriptor is closed. OpenSSL would go on with the number of a closed one, which
        is another file's by then, and write an alert into that file."""
        self._is_closing = True
        self.may_read.set()
        _end(self._listener)
        for number, thread in enumerate(self._threads):  # the first one accepts, and adds others until it ends
            for each in self._open if number else ():
                _end(each)
            thread.join(10)
            assert not thread.is_alive()
        for each in (self._listener, *self._open):
            each.close()

    def __enter__(self) -> TinyBroker:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._is_closing:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self.tls is not None:
                connection.settimeout(30)
                try:
                    connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                except OSError:
                    continue  # the client has gone; `wrap_socket` has closed the descriptor
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        with connection, contextlib.suppress(OSError):
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            while self.may_read.wait(60) and (data := connection.recv(65536)):
                reader.receive_bytes(data)
                while (frame := reader.next_frame()) is not None:
                    if not self._answer(connection, frame):
                        return

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        key = int.from_bytes(frame[:2], "big")
        if key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            return self._answer_sasl(connection, frame)
        if self.passwords is not None and connection not in self._believed and key != ApiKey.API_VERSIONS:
            self.asked_unauthenticated.append(key)
            return False
        header, message = decode_request(frame)
        self.client_ids.add(header.client_id)
        fields: dict[str, Any] | None
        if header.api_key == ApiKey.PRODUCE:
            with self._lock:
                outcome, fields = self._produce(message)
            if outcome == "drop":
                return False
            if outcome == "hold" or message.acks == 0:
                return True
        else:
            fields = self._describe(header.api_key, message)
        body = response(header.api_key, header.api_version, **fields)
        connection.sendall(b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, body)))
        return True

    def _answer_sasl(self, connection: socket.socket, frame: memoryview) -> bool:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        header, message = sasl_request(frame)
        fields: dict[str, Any] = {}
        if key == SASL_HANDSHAKE:
            self._believed.discard(connection)  # also to authenticate anew: nothing else may come in between
            fields = {"error_code": 0 if message.mechanism == "PLAIN" else 33, "mechanisms": ["PLAIN"]}
        else:
            _, name, password = bytes(message.auth_bytes).decode().split("\0")
            is_right = (self.passwords or {}).get(name) == password
            self.authentications += is_right
            if is_right:
                self._believed.add(connection)
            fields = {
                "error_code": 0 if is_right else 58, "error_message": None if is_right else "Invalid credentials",
                "auth_bytes": b"", "session_lifetime": self.session_ms,
            }  # fmt: skip
        body = build(response_type(key, version), fields)
        connection.sendall(b"".join(encode_response(key, version, header.correlation_id, body)))
        return True

    def _describe(self, api_key: int, message: Any) -> dict[str, Any]:
        host, port = self._listener.getsockname()[:2]
        if api_key == ApiKey.API_VERSIONS:
            # librdkafka writes record batches only for brokers that have Fetch version 4 as well.
            offered = (
                (ApiKey.PRODUCE, 3, 9), (ApiKey.FETCH, 4, 4), (ApiKey.METADATA, 1, 9), (18, 0, 3),
                (ApiKey.INIT_PRODUCER_ID, 0, 4), (SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 2),
            )  # fmt: skip
            return {
                "api_keys": [{"api_key": int(k), "min_version": low, "max_version": high} for k, low, high in offered]
            }
        if api_key == ApiKey.INIT_PRODUCER_ID:
            return {"producer_id": 77, "producer_epoch": 0}
        states = [
            {"partition_index": index, "leader_id": 1, "leader_epoch": 0, "replica_nodes": (1,), "isr_nodes": (1,)}
            for index in range(self.partitions)
        ]
        names = [each.name for each in message.topics or ()]
        known = [{"name": name, "partitions": states} for name in names]
        unknown = [{"name": name, "error_code": 3, "partitions": ()} for name in names]
        return {
            "brokers": [{"node_id": 1, "host": host, "port": port}],
            "controller_id": 1,
            "topics": known if self.knows_topics else unknown,
        }

    def _produce(self, message: Any) -> tuple[int | str | None, dict[str, Any]]:
        outcome = self.plan(self.produce_total)
        self.produce_total += 1
        self.acks_seen.add(message.acks)
        answers = []
        for topic in message.topic_data:
            entries = []
            for each in topic.partition_data:
                log = self.logs[each.index]
                is_late = isinstance(outcome, str) and outcome.startswith("late ")
                late = int(str(outcome).removeprefix("late ")) if is_late else 0
                offset, code = len(log), outcome if isinstance(outcome, int) else late
                if is_late or not code:
                    for batch in iter_batches(each.records):
                        assert batch.is_crc_valid()
                        log.extend(record[3] for record in decode_records(batch))
                entries.append({"index": each.index, "error_code": code, "base_offset": -1 if code else offset})
            answers.append({"name": topic.name, "partition_responses": entries})
        return outcome, {"responses": answers}
