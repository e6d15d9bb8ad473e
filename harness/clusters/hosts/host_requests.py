"""The Produce requests that the proxies of fault hosts saw: gathered, verified, and put on the run's time axis.

Each fault host keeps its own record, by its own clock (chaos/fault_host/request_record.py). It is read piece by piece
while the cell runs, and held against the SHA-256 that the host tells at the end. Times of one host are converted with
one offset throughout, so they keep their order. Between two hosts they are as exact as `clock_error_us` of the lines.
Shown by tests/harness/test_harness_host_requests.py.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from harness.clusters.hosts.host_answers import HostAnswer, HostClock
from harness.errors import HarnessError
from runlog.files.clock import RunClock
from runlog.records.codec import RecordError
from runlog.records.lines import WIRE, RecordWriter
from runlog.records.wire import WireExchange

GATHERED_BYTES_MAX: Final = 1 << 30  # One host and cell may bring no more, because it is kept in memory.


class RecordingHosts(Protocol):
    """What is needed here of host_answers.BrokerHosts."""

    def act_on_requests(self, action: str, host: str, *, topics: Sequence[str] = (), offset: int = 0) -> HostAnswer: ...

    def clock_over(self, host: str, first_us: int, last_us: int, *, offset_ns: int | None = None) -> HostClock: ...


@dataclass(slots=True)
class _Record:
    """What came of one host so far."""

    links: Mapping[str, str]  # The key is the name of a proxy, the value its link.
    data: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    offset_ns: int | None = None  # The first conversion of its clock sets it. Later ones are like it.


class RequestGathering:
    """Gathers the requests of one cell. `recorders` has the links of each host's proxies (host_links.recorders).
    Threads may share it."""

    def __init__(self, hosts: RecordingHosts, recorders: Mapping[str, Mapping[str, str]], clock: RunClock) -> None:
        self._hosts, self._clock = hosts, clock
        self._records = {host: _Record(links) for host, links in recorders.items()}
        self._begun_us: int | None = None
        self._lock = threading.Lock()

    def begin(self, topics: Sequence[str]) -> None:
        """Raises HarnessError if a host does not record."""
        self._begun_us = self._clock.now_us()
        for host in self._records:
            self._hosts.act_on_requests("requests_begin", host, topics=topics)

    def fetch(self) -> None:
        """What has come since the last time. Raises HarnessError."""
        with self._lock:
            for host, record in self._records.items():
                if self._begun_us is not None and not record.is_whole:
                    self._fetch_of(host, record)

    def exchanges(self) -> list[WireExchange]:
        """Those that were seen so far. Raises HarnessError."""
        self.fetch()
        with self._lock:
            return self._on_one_axis()[0]

    def finish(self, path: Path) -> tuple[list[str], list[str]]:
        """End the record, write it to `path`, and let the hosts forget it. Returns problems, with which the record is
        not complete, and notes."""
        problems: list[str] = []
        if self._begun_us is None:
            return problems, []
        with self._lock:
            for host, record in self._records.items():
                try:
                    problems += self._end_of(host, record)
                except HarnessError as error:
                    problems.append(f"the record of requests of fault host {host}: {error}")
            try:
                found, unclear, notes = self._on_one_axis()
            except HarnessError as error:
                return [*problems, f"the record of requests has no times: {error}"], []
            problems += unclear
            with RecordWriter(path, WIRE) as writer:
                for exchange in found:
                    writer.append(exchange)
            for host, record in self._records.items():
                if record.is_whole:
                    self._forget(host)
        return problems, notes

    def _end_of(self, host: str, record: _Record) -> list[str]:
        piece = self._hosts.act_on_requests("requests_end", host).requests
        self._fetch_of(host, record)
        if piece is None or hashlib.sha256(record.data).hexdigest() != piece.sha256:
            return [f"the record of requests of fault host {host} came with another checksum than it has there"]
        record.is_whole = True
        return (
            [f"the record of requests of fault host {host} is not complete: {piece.problem}"] if piece.problem else []
        )

    def _forget(self, host: str) -> None:
        try:
            self._hosts.act_on_requests("requests_forget", host)
        except HarnessError:
            return  # the next record takes its place

    def _fetch_of(self, host: str, record: _Record) -> None:
        while True:
            piece = self._hosts.act_on_requests("requests_piece", host, offset=len(record.data)).requests
            if piece is None or not piece.data:
                return
            if len(record.data) + len(piece.data) > GATHERED_BYTES_MAX:
                raise HarnessError(f"it is larger than {GATHERED_BYTES_MAX >> 30} GiB")
            record.data += piece.data
            if len(record.data) >= piece.size_bytes:
                return

    # --- time -------------------------------------------------------------------------------------------------------

    def _on_one_axis(self) -> tuple[list[WireExchange], list[str], list[str]]:
        """The exchanges in the order of the harness's time, problems, and notes."""
        assert self._begun_us is not None
        found: list[WireExchange] = []
        problems, notes = [], []
        for host, record in self._records.items():
            now_us = self._clock.now_us()
            bound = self._hosts.clock_over(host, self._begun_us, now_us, offset_ns=record.offset_ns)
            if bound.problem:
                problems.append(f"the record of requests of fault host {host} has no times: {bound.problem}")
                continue
            record.offset_ns = bound.offset_ns
            # A line may still be written while it is read.
            lines = bytes(record.data).split(b"\n")[:-1]
            own = [exchange for line in lines if (exchange := self._converted(line, host, record, bound)) is not None]
            if len(own) < len(lines):
                problems.append(f"fault host {host} recorded {len(lines) - len(own)} request(s) that cannot be read")
            notes.append(
                f"fault host {host} recorded {len(own):,} batches on {', '.join(sorted(record.links.values()))}, by a "
                f"clock {bound.offset_ns / 1e6:+,.3f} ms off, within {bound.error_us / 1e3:,.3f} ms"
            )
            found += own
        return _numbered(sorted(found, key=lambda exchange: exchange.mono_ns)), problems, notes

    def _converted(self, line: bytes, host: str, record: _Record, bound: HostClock) -> WireExchange | None:
        """The line with times of the harness's clock, and the link instead of the proxy's name there."""
        try:
            told: dict[str, Any] = json.loads(line)
            exchange: WireExchange = WIRE.record({**told, "proxy": record.links[told["proxy"]]})
        except (ValueError, KeyError, TypeError, RecordError):
            return None
        mono_ns = exchange.mono_ns - bound.offset_ns
        return replace(
            exchange,
            mono_ns=mono_ns,
            t_us=(mono_ns - self._clock.t0_monotonic_ns) // 1000,
            answered_ns=None if exchange.answered_ns is None else exchange.answered_ns - bound.offset_ns,
            host=host,
            clock_error_us=bound.error_us,
        )


def _numbered(exchanges: Iterable[WireExchange]) -> list[WireExchange]:
    """With the number of each attempt: a retry may have come through another host, which did not know of the first."""
    seen: defaultdict[tuple[object, ...], int] = defaultdict(int)
    found = []
    for exchange in exchanges:
        key = (exchange.client_id, exchange.topic, exchange.partition, exchange.crc)
        seen[key] += 1
        found.append(replace(exchange, attempt=seen[key]))
    return found
