"""Which requests of a run's clients the proxies of this host saw, kept here until the harness has gathered it.

The proxy server that knows Kafka appends a line for each batch of a Produce request to its wire log. While a cell runs,
the lines of the cell's topics are copied into a segment. The harness reads the segment piece by piece, and gets the
SHA-256 of the whole at the end. Lines of other topics never leave this host, and no line holds a record's content.

Newer clients name a topic by its id. So the broker behind each proxy is asked for the names, when a record begins and
when it ends. Shown by tests/chaos/test_chaos_fault_host_requests.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.door.addresses import parse_address
from broker.door.clients import KafkaError
from broker.door.questions import DirectConnection, metadata_of
from chaos.fault_host.host import TOPIC, Refused
from chaos.fault_host.proxy_permits import ProxyPermit
from chaos.fault_host.proxy_servers import ProxyServers
from chaos.fault_host.site import NotDone
from chaos.toxiproxy.calls import ToxiproxyError

TOPICS_MAX: Final = 64
PIECE_BYTES: Final = 1 << 20
SEGMENT_BYTES_MAX: Final = 4 << 30  # some ten million batches
WIRE_LOG_BYTES_MAX: Final = 8 << 30  # it has the lines of other topics too
SILENT_S: Final = 300.0  # a harness that was not heard of for so long does not come for the record any more
_IDLE_BYTES_MAX: Final = 4 << 20  # A wire log has no more while nobody asks for it.
_UNKNOWN_MAX: Final = 100_000  # lines of topics whose names are not known yet
_READ_BYTES: Final = 8 << 20  # at one step
_ASK_S: Final = 5.0
_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes of the segment from an offset on, and how many it has so far. `sha256`: of all of it, when it is whole.
    `problem`: why it is not complete."""

    data: bytes = b""
    size_bytes: int = 0
    sha256: str = ""
    problem: str = ""


class RequestRecord:
    """One record at a time. Threads may share it. `root`: the directory of this worker."""

    def __init__(
        self,
        permits: Mapping[str, ProxyPermit],
        servers: ProxyServers,
        root: Path,
        name: str,
        *,
        say: Callable[[str], object],
    ) -> None:
        self._permits = {proxy: permit for proxy, permit in permits.items() if permit.requests}
        self._servers, self._say = servers, say
        self._path = root / f"{name}.requests.seg"
        self._lock = threading.Lock()
        self._topics: frozenset[str] = frozenset()  # empty: nothing is recorded
        self._ids: dict[str, str] = {}  # hexadecimal digits of a topic's id -> its name
        self._unknown: list[tuple[str, bytes]] = []  # (id, line)
        self._are_names_known = True
        self._position = self._size_bytes = 0
        self._rest = b""
        self._server_pid = 0
        self._heard_s = time.monotonic()
        self._problem = self._sha256 = ""

    def open(self) -> None:
        """When the proxies run: what a worker that was killed has left is ended."""
        with self._lock:
            self._ask_proxies(is_on=False)
            self._remove_files()

    def heard(self) -> None:
        self._heard_s = time.monotonic()

    def begin(self, topics: Sequence[str]) -> None:
        """Record the requests to these topics from now on. What was recorded before is gone. Raises Refused or
        NotDone."""
        if not self._permits:
            raise Refused("a record of requests: no proxy on this host's list has `requests`")
        if wrong := [topic for topic in topics if not TOPIC.fullmatch(topic)]:
            raise Refused(f"a record of requests to topic {wrong[0][:60]}: it is no topic of a run (harness-...)")
        with self._lock:
            self._end_quietly()
            if not self._servers.reads_requests():
                raise NotDone("the proxies that know requests do not run")
            with suppress(
                ToxiproxyError
            ):  # lines of what came before must not follow; the log itself begins anew below
                self._log_problem()
            try:
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
                os.truncate(self._servers.wire_log, 0)
            except OSError as error:
                raise NotDone(f"no record of requests can be kept: {error}") from error
            self._position = self._size_bytes = 0
            self._rest, self._problem, self._sha256 = b"", "", ""
            self._ids, self._unknown = {}, []
            self._server_pid = self._servers.identity_of_reader
            self._heard_s = time.monotonic()
            self._topics = frozenset(topics[:TOPICS_MAX])
            self._learn_names()
            self._ask_proxies(is_on=True)

    def piece(self, offset: int) -> Piece:
        """What was recorded from `offset` on. Raises NotDone if nothing is recorded."""
        with self._lock:
            self._require()
            if not self._sha256:
                self._ask_for_all()
                self._copy()
            return self._piece(offset)

    def end(self) -> Piece:
        """The record is complete now. Raises NotDone if nothing is recorded. To end it twice does no harm."""
        with self._lock:
            self._require()
            if not self._sha256:
                self._learn_names()
                self._ask_for_all()
                while self._copy():
                    continue
                self._settle_unknown()
                self._ask_proxies(is_on=False)
                with self._path.open("rb") as file:
                    self._sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return self._piece(self._size_bytes)

    def forget(self) -> None:
        """The harness has it, or nobody will ask for it."""
        with self._lock:
            self._end_quietly()

    def step(self) -> None:
        """Called several times a second."""
        if not self._permits or not self._lock.acquire(blocking=False):
            return
        try:
            if self._topics and time.monotonic() - self._heard_s > SILENT_S:
                self._say(f"the record of requests was ended: the harness was silent for {SILENT_S:g} s")
                self._end_quietly()
            elif self._topics and not self._sha256:
                self._copy()
            elif not self._topics and _size(self._servers.wire_log) > _IDLE_BYTES_MAX:
                os.truncate(self._servers.wire_log, 0)
        except OSError as error:
            self._is_incomplete(f"the record of requests: {error}")
        finally:
            self._lock.release()

    # --- under the lock ---------------------------------------------------------------------------------------------

    def _require(self) -> None:
        if not self._topics:
            raise NotDone("no requests are recorded: the worker was ended and started again, or another run has begun")

    def _piece(self, offset: int) -> Piece:
        with self._path.open("rb") as file:
            file.seek(offset)
            data = file.read(PIECE_BYTES)
        return Piece(data=data, size_bytes=self._size_bytes, sha256=self._sha256, problem=self._problem)

    def _end_quietly(self) -> None:
        if self._topics and not self._sha256:
            self._ask_proxies(is_on=False)
        self._topics = frozenset()
        self._unknown, self._rest, self._sha256 = [], b"", ""
        self._remove_files()

    def _remove_files(self) -> None:
        """The proxy server keeps its wire log open, so that one is only emptied."""
        self._path.unlink(missing_ok=True)
        if _size(self._servers.wire_log):
            os.truncate(self._servers.wire_log, 0)

    def _is_incomplete(self, why: str) -> None:
        if not self._problem:
            self._problem = why
            self._say(f"the record of requests is not complete: {why}")

    def _is_too_large(self, limit_bytes: int) -> None:
        """Nothing more is recorded: a disk of somebody else must not be filled."""
        self._is_incomplete(f"it is larger than {limit_bytes >> 30} GiB")
        self._ask_proxies(is_on=False)

    def _ask_proxies(self, *, is_on: bool) -> None:
        for proxy in self._permits:
            try:
                self._servers.of(proxy).log_requests(proxy, is_on=is_on)
            except ToxiproxyError as error:
                if is_on:
                    raise NotDone(f"proxy {proxy} does not record requests: {error}") from error

    def _ask_for_all(self) -> None:
        """Let the proxy server write down what it still holds. It says what it could not write."""
        if not self._servers.reads_requests():
            return  # `_copy` tells of it
        try:
            problem = self._log_problem()
        except ToxiproxyError as error:
            problem = str(error)
        if problem:
            self._is_incomplete(f"the proxy server stopped writing down requests: {problem}")

    def _log_problem(self) -> str:
        """Why requests are missing in the wire log; empty if the file has all until now. Raises ToxiproxyError."""
        return self._servers.of(next(iter(self._permits))).request_log_problem()

    def _copy(self) -> bool:
        """Copy new lines of the wire log. True if there were any."""
        if not self._servers.reads_requests() or self._servers.identity_of_reader != self._server_pid:
            self._is_incomplete("the proxy server that saw the requests ended by itself")
        with self._servers.wire_log.open("rb") as file:
            file.seek(self._position)
            data = file.read(_READ_BYTES)
        self._position += len(data)
        if self._position > WIRE_LOG_BYTES_MAX:
            self._is_too_large(WIRE_LOG_BYTES_MAX)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._append(b"".join(self._own(line) for line in lines))
        return bool(data)

    def _own(self, line: bytes) -> bytes:
        """The line if it is of the record's topics and proxies, with the topic's name. Otherwise nothing."""
        try:
            found = json.loads(line)
            topic, proxy = str(found["topic"]), found["proxy"]
        except (ValueError, KeyError, TypeError):
            if line:
                self._is_incomplete("a line of the proxy server cannot be read")
            return b""
        if proxy not in self._permits:
            return b""
        if topic in self._topics:
            return line + b"\n"
        if not _ID.fullmatch(topic):
            return b""
        if topic in self._ids:
            return json.dumps({**found, "topic": self._ids[topic]}, separators=(",", ":")).encode() + b"\n"
        if len(self._unknown) >= _UNKNOWN_MAX:
            self._is_incomplete(f"more than {_UNKNOWN_MAX} batches are of topics whose names are not known")
        else:
            self._unknown.append((topic, line))
        return b""

    def _settle_unknown(self) -> None:
        """Lines of topics that had no name yet. What has none now is of somebody else's topics, if all names of ours
        are known."""
        lines, self._unknown = self._unknown, []
        self._append(b"".join(self._own(line) for topic, line in lines if topic in self._ids))
        if lines and not self._are_names_known and any(topic not in self._ids for topic, _ in lines):
            self._is_incomplete("clients name topics by their ids, and the brokers did not tell the names")

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if self._size_bytes + len(data) > SEGMENT_BYTES_MAX:
            self._is_too_large(SEGMENT_BYTES_MAX)
            return
        try:
            with self._path.open("ab") as file:
                file.truncate(self._size_bytes)  # a full disk may have taken a part of the lines before
                file.write(data)
        except OSError as error:  # these lines were read and will not be read again
            self._is_incomplete(f"it could not be written: {error}")
            return
        self._size_bytes += len(data)

    def _learn_names(self) -> None:
        """Ask the brokers behind the proxies, on the way of the clients. Which broker tells does not matter."""
        self._are_names_known = False
        for permit in self._permits.values():
            host, port = parse_address(permit.listen)
            connection = DirectConnection(host, port, client_id="harness-requests", timeout_s=_ASK_S)
            try:
                answer = connection.ask(metadata_of(sorted(self._topics)))
            except KafkaError:
                continue
            finally:
                connection.close()
            for topic in answer.topics:
                if topic.topic_id and topic.name:
                    self._ids[topic.topic_id.replace("-", "")] = topic.name
            known = set(self._ids.values())
            self._are_names_known = self._are_names_known or known >= self._topics


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
