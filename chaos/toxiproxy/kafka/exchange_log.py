"""The exchange log: one JSON line for each exchange of a proxy that was asked for it, when its outcome is known.

The record is in runlog/records/exchange.py. The log is for a search that learns which requests a client sends and what
came of them. It works for all APIs, and for all clients of a proxy or for those with certain client ids. A proxy that
was not asked does nothing for it. Shown by tests/chaos/test_chaos_exchange_log.py.
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from chaos.toxiproxy.kafka import produce, subjects
from chaos.toxiproxy.kafka.apis import API_NAMES
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.log_file import LogFile
from chaos.toxiproxy.kafka.messages import decode_response
from runlog.records.codec import to_json
from runlog.records.exchange import ExchangeOutcome, ExchangesStopped, KafkaExchange

# One proxy writes no more, unless it is asked for less. This is about a million exchanges.
BYTES_MAX: Final = 256 << 20
WATCH_BYTES_MAX: Final = 64 << 30  # more than it may be asked for is a typing error
FRAME_BYTES_MAX: Final = 1 << 20  # A line has no more of a frame. The side file takes 32 MiB that are not written yet.
CLIENT_IDS_MAX: Final = 1_000
_NAMED_MAX: Final = 32  # partitions, groups and transactional ids in a line
_CODES_MAX: Final = 32
_NO_RESPONSE: Final = b""


@dataclass(slots=True, kw_only=True)
class Watch:
    """What one proxy logs. Frames of up to `frame_bytes_max` are in the lines; 0: none."""

    client_ids: frozenset[str] = frozenset()  # empty: all
    bytes_max: int = BYTES_MAX
    frame_bytes_max: int = 0
    bytes_written: int = 0
    lines: int = 0
    cause: str = ""  # why it stopped; empty while it has not

    def begin_anew(self) -> None:
        """A new file begins. It may have all bytes again, also if the one before was full."""
        self.bytes_written = self.lines = 0
        self.cause = ""

    def to_json(self) -> dict[str, object]:
        return {
            "client_ids": sorted(self.client_ids),
            "bytes_max": self.bytes_max,
            "frame_bytes_max": self.frame_bytes_max,
            "bytes": self.bytes_written,
            "lines": self.lines,
            "stopped": self.cause,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the line of a request will say, so that nobody must keep its bytes."""

    watch: Watch
    client_id: str
    request_bytes: int
    subject: subjects.Subject
    request: bytes | None


class ExchangeLog:
    """The exchange log. All proxies of a server share its file."""

    def __init__(self, path: Path | None) -> None:
        self.file = LogFile(path, "exchange_log")

    def close(self) -> None:
        self.file.close()

    def begin(
        self,
        watch: Watch,
        header: produce.RequestHeader,
        request: produce.ProduceRequest | None,
        frame: bytes,
        names: Mapping[bytes, str],
    ) -> Watched | None:
        """Call it when a request arrives. None: it gets no line."""
        if watch.cause or not self.file.is_open:
            return None
        try:
            client_id = produce.read_client_id(frame)
            if watch.client_ids and client_id not in watch.client_ids:
                return None
            return Watched(
                watch=watch,
                client_id=client_id,
                request_bytes=len(frame),
                subject=_subject(header, request, frame, names),
                request=frame if len(frame) <= watch.frame_bytes_max else None,
            )
        except MalformedFrame:
            return None

    def end(
        self,
        watched: Watched,
        header: produce.RequestHeader,
        response: bytes | None,
        *,
        mono_ns: int,
        proxy: str,
        connection: int,
        outcome: ExchangeOutcome,
        is_forwarded: bool,
        toxics: tuple[str, ...],
    ) -> None:
        """Write the line of an exchange. `response` is what the client got or was to get."""
        subject, watch = watched.subject, watched.watch
        record = KafkaExchange(
            mono_ns=mono_ns,
            ended_ns=time.monotonic_ns(),
            proxy=proxy,
            connection=connection,
            client_id=watched.client_id,
            api=API_NAMES.get(header.api_key, f"ApiKey {header.api_key}"),
            api_version=header.api_version,
            correlation_id=header.correlation_id,
            request_bytes=watched.request_bytes,
            response_bytes=len(response or _NO_RESPONSE),
            groups=tuple(sorted(subject.groups)[:_NAMED_MAX]),
            transactional_ids=tuple(sorted(subject.transactional_ids)[:_NAMED_MAX]),
            partitions=tuple(sorted(subject.partitions)[:_NAMED_MAX]),
            partition_count=len(subject.partitions),
            error_codes=_error_codes(header, response),
            outcome=outcome,
            is_forwarded=is_forwarded,
            toxics=toxics,
            request=_packed(watched.request, watch),
            response=_packed(response, watch),
        )
        self._write(record, watch, proxy)

    def _write(self, record: KafkaExchange, watch: Watch, proxy: str) -> None:
        if watch.cause:
            return
        line = _line(record)
        if watch.bytes_written + len(line) > watch.bytes_max:
            self.stop(watch, proxy, f"the lines of the proxy have {watch.bytes_max} bytes, which is all they may have")
            return
        watch.bytes_written += len(line)
        watch.lines += 1
        self.file.put(line)

    def stop(self, watch: Watch, proxy: str, cause: str) -> None:
        """Log no further exchange of this proxy. The file tells so in its last line for it."""
        if not watch.cause:
            watch.cause = cause
            self.file.put(_line(ExchangesStopped(stopped_ns=time.monotonic_ns(), proxy=proxy, cause=cause)))


def _line(record: KafkaExchange | ExchangesStopped) -> bytes:
    return json.dumps(to_json(record), separators=(",", ":")).encode() + b"\n"


def _packed(frame: bytes | None, watch: Watch) -> str | None:
    is_wanted = frame is not None and 0 < len(frame) <= watch.frame_bytes_max
    return b64encode(frame).decode() if is_wanted and frame is not None else None


def _subject(
    header: produce.RequestHeader, request: produce.ProduceRequest | None, frame: bytes, names: Mapping[bytes, str]
) -> subjects.Subject:
    if request is not None:
        return subjects.Subject(
            partitions=frozenset((batch.topic, batch.partition) for batch in request.batches),
            transactional_ids=frozenset((request.transactional_id,) if request.transactional_id else ()),
        )
    if header.api_key not in API_NAMES:
        return subjects.Subject()
    try:
        return subjects.subject_of_frame(frame, names)
    except MalformedFrame:  # a version that is newer than ours; the rest of its line is right
        return subjects.Subject()


def _error_codes(header: produce.RequestHeader, response: bytes | None) -> tuple[int, ...] | None:
    if not response or header.api_key not in API_NAMES:
        return None
    try:
        _, message = decode_response(response, header.api_key, header.api_version)
    except MalformedFrame:
        return None
    return tuple(sorted(set(_codes(message)) - {0})[:_CODES_MAX])


def _codes(message: Any) -> Iterator[int]:  # kio's types
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):  # ShareFetch has another beside it, for the acknowledgement
            yield int(value)
        for each in value if isinstance(value, tuple) else ():
            if is_dataclass(each):
                yield from _codes(each)
