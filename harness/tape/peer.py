"""The scripted peer: a listener on loopback for each broker of the tape, which answers as the tape says. A thread for
each connection.

A request that cannot be read, or that the tape has no answer to, ends its connection, and is counted as missing. The
script is asked under one lock. Shown by tests/harness/test_harness_tape_play.py.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from broker.door.messages import request_type, response_type
from broker.door.protocol import ErrorCode, ProtocolError
from chaos.toxiproxy.kafka.apis import API_KEYS, API_NAMES
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import decode_request, encode_response
from harness.tape.fields import Plain, from_plain
from harness.tape.model import Do, Frame, Tape
from harness.tape.script import Answer, Script, nodes_of
from harness.tape.state import Address

HOST: Final = "127.0.0.1"
FRAME_BYTES_MAX: Final = 16 << 20
CONNECTIONS_MAX: Final = 1_000
NODES_MAX: Final = 9  # of a cluster that was recorded; a search has three
REQUESTS_MAX: Final = 100_000  # a client that asks without end and without a pause
_API_VERSIONS: Final = API_KEYS["ApiVersions"]
_FETCH_WAIT_MS_MAX: Final = 1_000
_LOOK_S: Final = 0.1  # A member may be late without anything that happens.
_UNREADABLE: Final = (MalformedFrame, ProtocolError, AttributeError, KeyError, TypeError, ValueError, IndexError)


class _Ended(Exception):
    """This connection is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    api_key: int
    version: int
    correlation_id: int

    @property
    def api(self) -> str:
        return API_NAMES.get(self.api_key, f"ApiKey {self.api_key}")


class TapePeer:
    """`first_met_us` and `spent_us`: when the first and the last frame was sent that is meant for a certain request."""

    def __init__(self, tape: Tape) -> None:
        self._listeners = {node: socket.create_server((HOST, 0)) for node in nodes_of(tape)[:NODES_MAX]}
        addresses = {node: Address(host=HOST, port=one.getsockname()[1]) for node, one in self._listeners.items()}
        self.bootstrap_servers = ",".join(f"{HOST}:{each.port}" for each in addresses.values())
        self.script = Script(tape, addresses)
        self.first_met_us: int | None = None
        self.spent_us: int | None = None
        self._changed = threading.Condition()
        self._is_closing = False
        self._open: set[socket.socket] = set()
        self._requests = 0
        self._warm_up(tape)

    def __enter__(self) -> TapePeer:
        for listener in self._listeners.values():
            threading.Thread(target=self._accept, args=(listener,), name="tape-peer", daemon=True).start()
        return self

    def __exit__(self, *details: object) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            there = [*self._listeners.values(), *self._open]
        for each in there:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _warm_up(self, tape: Tape) -> None:
        """The schema of an API is imported when it is first needed. On a busy host that takes seconds, and the client
        would wait for them: so it happens before the client is there."""
        for frame in tape.frames:
            key = API_KEYS[frame.api]
            with contextlib.suppress(*_UNREADABLE):  # what cannot be written is told when it is asked for
                request_type(key, frame.version)
                kind = response_type(key, frame.version)
                encode_response(key, frame.version, 0, from_plain(kind, dict(frame.message)))

    # --- for who plays the tape ---------------------------------------------------------------------------------------

    def write_others(self, count: int, size_bytes: int) -> None:
        with self._changed:
            self.script.state.partitions.write_others(count, size_bytes)
            self._changed.notify_all()

    def write_others_in_transaction(self, count: int, size_bytes: int, is_committed: bool) -> None:
        with self._changed:
            self.script.state.partitions.write_others_in_transaction(count, size_bytes, is_committed=is_committed)
            self._changed.notify_all()

    def ends(self) -> Mapping[int, int]:
        """Behind the last record that a reader is given."""
        with self._changed:
            return self.script.state.partitions.visible_ends

    def is_disturbing(self) -> bool:
        with self._changed:
            return self.script.is_disturbing(_now_ms())

    # --- connections --------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                is_refused = self._is_closing or len(self._open) >= CONNECTIONS_MAX
                if not is_refused:
                    self._open.add(connection)
            if is_refused:
                connection.close()
            else:
                threading.Thread(target=self._serve, args=(connection,), name="tape-connection", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, _Ended):
            while (frame := _read_frame(connection)) is not None:
                self._handle(connection, frame)
        with self._changed:
            self._open.discard(connection)
        connection.close()

    def _handle(self, connection: socket.socket, frame: bytes) -> None:
        if len(frame) < 14:
            raise _Ended
        header = _Header(
            api_key=int.from_bytes(frame[4:6], "big"),
            version=int.from_bytes(frame[6:8], "big"),
            correlation_id=int.from_bytes(frame[8:12], "big", signed=True),
        )
        script_frame, request, answer = self._answer(header, frame)
        match answer.do:
            case Do.CLOSE:
                raise _Ended
            case Do.SILENCE if not answer.late_ms:
                while connection.recv(65_536):  # until the client gives it up
                    pass
                raise _Ended
            case Do.SILENCE:
                self._wait(answer.late_ms)
                if _is_given_up(connection):
                    raise _Ended
                if answer.message is None and script_frame is not None:
                    answer = self._healed(header, script_frame, request)
            case Do.LATE:
                self._wait(answer.late_ms)
            case Do.ANSWER | Do.ERROR:
                pass
        if answer.message is not None:
            connection.sendall(self._encoded(header, answer.message))

    def _wait(self, late_ms: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, late_ms / 1_000)

    def _healed(self, header: _Header, frame: Frame, request: Any) -> Answer:
        """The work of a request that was kept, when it is no longer kept."""
        with self._changed:
            try:
                return self._awaited(self.script.healthy(frame), request)
            except _UNREADABLE as error:
                self.script.missing[f"{header.api} of version {header.version} ({error})"] += 1
                raise _Ended from error

    def _answer(self, header: _Header, frame: bytes) -> tuple[Frame | None, Any, Answer]:
        with self._changed:
            self._requests += 1
            if self._requests > REQUESTS_MAX:
                raise _Ended
            newest = self.script.version_max(header.api)
            if header.api_key == _API_VERSIONS and newest is not None and header.version > newest:
                return None, None, Answer(do=Do.ANSWER, message={"error_code": int(ErrorCode.unsupported_version)})
            try:
                request = decode_request(frame) if header.api_key in API_NAMES else None
                script_frame = self.script.take(header.api, request, _now_ms())
                if script_frame is None:
                    raise _Ended
                if script_frame.is_script:
                    self._note_met()
                answer = self._awaited(script_frame, request)
            except _UNREADABLE as error:
                self.script.missing[f"{header.api} of version {header.version} ({error})"] += 1
                raise _Ended from error
            self._changed.notify_all()  # who waits for others in the group looks again
            return script_frame, request, answer

    def _note_met(self) -> None:
        now_us = time.monotonic_ns() // 1_000
        self.first_met_us = self.first_met_us or now_us
        lasts_ms = self.script.lasts_ms(_now_ms())
        self.spent_us = now_us + 1_000 * lasts_ms if self.script.is_spent(_now_ms() + lasts_ms) else None

    def _awaited(self, frame: Frame, request: Any) -> Answer:
        """Under the lock, which is given away while it waits."""
        answer = self.script.answer(frame, request, _now_ms())
        if answer.later is None:
            deadline_s = time.monotonic() + min(answer.waits_ms, _FETCH_WAIT_MS_MAX) / 1_000
            while answer.waits_ms and not self._is_closing and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
                answer = self.script.answer(frame, request, _now_ms())
            return answer
        self._changed.notify_all()
        message = answer.message
        deadline_s = time.monotonic() + answer.waits_ms / 1_000
        while message is None and not self._is_closing and time.monotonic() < deadline_s:
            self._changed.wait(_LOOK_S)
            message = answer.later.ask(_now_ms())
        if message is None:
            raise _Ended
        return replace(answer, message=message)

    def _encoded(self, header: _Header, message: Plain) -> bytes:
        """An ApiVersions request that is too new gets the layout of version 0, as every broker answers it."""
        newest = self.script.version_max(header.api)
        is_too_new = header.api_key == _API_VERSIONS and newest is not None and header.version > newest
        version = 0 if is_too_new else header.version
        try:
            kind = response_type(header.api_key, version)
            return encode_response(header.api_key, version, header.correlation_id, from_plain(kind, message))
        except _UNREADABLE as error:
            with self._changed:
                self.script.missing[f"{header.api} of version {header.version} ({error})"] += 1
            raise _Ended from error


def _is_given_up(connection: socket.socket) -> bool:
    """Whether the client has closed it. What it has sent meanwhile stays to be read."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _read_frame(connection: socket.socket) -> bytes | None:
    """With its length. None if the client has closed the connection."""
    head = _read(connection, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > FRAME_BYTES_MAX:
        raise _Ended
    body = _read(connection, size)
    return None if body is None else head + body


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part: Any = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return bytes(data)
