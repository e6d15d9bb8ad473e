"""The Kafka side of one proxied connection: pairs requests with responses, carries out Kafka toxics, logs Produce.

It is next to the broker: what passed `forward` has been sent to the broker, and what `backward` returns is on its way
to the client. Both are synchronous. Refusals that were held come later through `emit`. It follows frame boundaries from
the first byte on, so a toxic may be armed on an open connection. Knows no sockets.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from chaos.toxiproxy.kafka import addresses, matching, messages, produce
from chaos.toxiproxy.kafka.apis import API_NAMES
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.frames import FrameSplitter
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.toxic import Toxic

HELD_BYTES_MAX = 8 << 20  # responses held behind a refusal; beyond this, the refusal is sent early
OUTSTANDING_MAX = 10_000  # requests without response on one connection; beyond it the stream passes unread
_DECIDED_EARLY = ("kafka_delay_response", "kafka_edit_response", "kafka_hide_topic", "kafka_cut_frame")
END_TXN, END_TXN_FLEXIBLE = 26, 3  # API key, and the version from which its header has tags
SASL_HANDSHAKE = 17
DRAIN_MS_MAX = 5_000  # how long a dropped connection waits for the broker's outstanding responses


@dataclass(slots=True, kw_only=True)
class KafkaSettings:
    """Shared by all connections of one proxy."""

    proxy: str
    wire_log: WireLog
    names: produce.TopicNames
    is_logging_asked: bool = False
    toxics: list[Toxic] = field(default_factory=list)  # the Kafka ones, in the order of their addition
    rewrites: addresses.Mapped = field(default_factory=dict)  # the brokers' own addresses to those of their proxies

    def wants_frames(self) -> bool:
        """With a wire log, frames are read from the start, because it needs topic names from Metadata and earlier
        attempts."""
        return self.wire_log.is_open or bool(self.rewrites) or self.is_armed()

    def is_armed(self) -> bool:
        return self.is_logging_asked or bool(self.toxics)

    def of_type(self, kind: str) -> list[Toxic]:
        return [toxic for toxic in self.toxics if toxic.spec.type == kind]


class TapControl(Protocol):
    """What a tap may do to its connection, and its clock."""

    def emit(self, data: bytes) -> None:
        """Send to the client, after everything that `backward` returned before."""

    def forward_late(self, data: bytes) -> None:
        """Send to the broker what was held back. It also works after `cut_client`."""

    def cut_client(self) -> None:
        """End the client's side. What the client still sends is discarded. The broker's side stays open."""

    def close(self) -> None:
        """Send what was written, then close both sides."""

    def drained(self) -> None:
        """After `cut_client`: the broker has answered everything, and its side may end."""

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> Callable[[], object]:
        """Returns the function that cancels it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Refusal:
    frame: bytes
    error_code: int
    followers_wanted: int
    followers: int = 0
    is_released: bool = False
    cancel_timer: Callable[[], object] | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """One request that has not been answered yet."""

    header: produce.RequestHeader
    arrived_ns: int
    scope: matching.Scope | None = None  # only if a toxic may act on it
    request: produce.ProduceRequest | None = None  # only for Produce
    delay_ms: int = 0
    is_delayed: bool = False  # the response has come and waits
    edits: tuple[Toxic, ...] = ()
    is_edited: bool = False
    cut: Toxic | None = None
    attempts: tuple[int, ...] = ()
    is_logged: bool = False
    held_by: Toxic | None = None  # its client is gone; the broker gets the request later
    refusal: Refusal | None = None
    response: bytes | None = None
    results: dict[tuple[str, int], produce.PartitionResult] = field(default_factory=dict)


class KafkaTap:
    def __init__(self, settings: KafkaSettings, connection: int, control: TapControl, rng: random.Random) -> None:
        self._settings = settings
        self._connection = connection
        self._control = control
        self._rng = rng
        self._draws: dict[int, bool] = {}
        self._requests = FrameSplitter()
        self._responses = FrameSplitter()
        self._outstanding: list[Exchange] = []  # in the order of arrival, which is the order of responses
        self._held_bytes = 0
        self._is_cut = False
        self._is_closed = False
        self._cancel_drain: Callable[[], object] | None = None

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def forward(self, data: bytes) -> bytes:
        """From the client; returns what goes to the broker."""
        if self._is_cut:
            return b""
        if not self._requests.is_reading:
            if not self._settings.wants_frames():
                self._requests.skim(data)
                return data
            self._requests.start_reading()
            self._responses.start_reading()
        unread, frames = self._requests.feed(data)
        if self._requests.is_opaque:
            return self._unread(unread + b"".join(frames))
        out = [unread]
        for frame in frames:
            out.append(self._admit(frame))
            if self._is_cut:
                break
        return b"".join(out)

    def backward(self, data: bytes) -> bytes:
        """From the broker; returns what goes to the client now."""
        if not self._responses.is_reading:
            self._responses.skim(data)
            return data
        unread, frames = self._responses.feed(data)
        if self._responses.is_opaque:
            return b"" if self._is_cut else self._unread(unread + b"".join(frames))
        out = [unread]
        for frame in frames:
            was_cut = self._is_cut
            out.append(self._answer(frame))
            if self._is_cut and not was_cut:
                # The client still gets the responses that came before the dropped one.
                self._control.emit(b"".join(out))
                out.clear()
                self._control.cut_client()
        if self._is_cut:
            self._finish_drain()
        return b"".join(out)

    def _unread(self, data: bytes) -> bytes:
        """Bytes that are no Kafka frames pass, except if an address might pass with them."""
        if not self._settings.rewrites:
            return data
        self._end_unreadable("bytes that are no Kafka frames")
        return b""

    def _end_unreadable(self, what: str) -> None:
        print(
            f"event=closed proxy={self._settings.proxy} connection={self._connection} cause={what}: "
            "the addresses in it could not be rewritten",
            file=sys.stderr,
            flush=True,
        )
        self._end_connection()

    def closed(self) -> None:
        """The connection has ended. Exchanges without an outcome get one."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._cancel_drain:
            self._cancel_drain()
        for exchange in self._outstanding:
            if exchange.refusal and exchange.refusal.cancel_timer:
                exchange.refusal.cancel_timer()
            self._log(exchange, "dropped" if exchange.response is not None else "unanswered")
        self._outstanding.clear()

    def _admit(self, frame: bytes) -> bytes:
        """The bytes of this request that the broker shall see."""
        try:
            header = produce.read_header(frame)
        except MalformedFrame:
            return frame
        if header.api_key == SASL_HANDSHAKE and header.api_version == 0:
            return self._raw_tokens(frame)
        exchange = Exchange(header=header, arrived_ns=time.monotonic_ns())
        request = self._read_produce(header, frame)
        if len(self._outstanding) >= OUTSTANDING_MAX:
            self._requests.is_opaque = True
            return frame
        exchange.scope = self._scope(header, request, frame)
        exchange.request = request
        if request is not None:
            exchange.attempts = self._settings.wire_log.count_attempts(request)
            # A retry of a logged batch is logged too, even if the toxic is gone by then.
            exchange.is_logged = self._settings.is_armed() or max(exchange.attempts, default=1) > 1
        if exchange.scope is not None:
            self._prepare(exchange)
        if exchange.scope is not None and self._try_hold_back(exchange, frame):
            return b""
        if exchange.cut is not None and exchange.cut.text("frame") == "request":
            self._log(exchange, "unanswered")
            self._end_connection()
            return frame[: min(exchange.cut.number("at_byte"), len(frame) - 1)]
        if request is not None and request.acks == 0:  # it is never answered, so it can be neither refused nor dropped
            self._log(exchange, "unanswered")
            return frame
        if request is not None:
            exchange.refusal = self._try_refuse(exchange)
        self._outstanding.append(exchange)
        if exchange.refusal:
            return b""
        if request is not None:
            self._count_follower(request)
            return self._corrupted(exchange, frame)
        return frame

    def _raw_tokens(self, frame: bytes) -> bytes:
        """After version 0 of SaslHandshake come tokens without any header (KIP-152 ended that). Nobody can tell where
        they end, so the rest of this connection passes unread."""
        if self._settings.rewrites:
            self._end_unreadable("SaslHandshake version 0, which a client of Kafka 1.0 or later does not use")
            return b""
        self._requests.is_opaque = self._responses.is_opaque = True
        return frame

    def _scope(
        self, header: produce.RequestHeader, request: produce.ProduceRequest | None, frame: bytes
    ) -> matching.Scope | None:
        """None unless a toxic is aimed at this API."""
        api = API_NAMES.get(header.api_key)
        aimed = [toxic for toxic in self._settings.toxics if toxic.text("api") == api]
        if api is None or not aimed:
            return None
        if request is not None:
            partitions = frozenset((batch.topic, batch.partition) for batch in request.batches)
            return matching.Scope(api=api, client_id=request.client_id, partitions=partitions)
        partitions = frozenset()
        if any(toxic.text("topic") or toxic.number("partition") >= 0 for toxic in aimed):
            try:
                partitions = messages.partitions_of_request(frame, self._settings.names.by_id)
            except MalformedFrame:
                return None
        return matching.Scope(api=api, client_id=produce.read_client_id(frame), partitions=partitions)

    def _prepare(self, exchange: Exchange) -> None:
        """What shall happen to the response is decided when the request comes, because requests are counted in this
        order."""
        assert exchange.scope is not None
        edits: list[Toxic] = []
        for toxic in self._settings.toxics:
            kind = toxic.spec.type
            if kind not in _DECIDED_EARLY or not self._acts_here(toxic) or not matching.try_take(toxic, exchange.scope):
                continue
            if kind == "kafka_delay_response":
                exchange.delay_ms = max(exchange.delay_ms, toxic.number("delay_ms"))
            elif kind == "kafka_cut_frame":
                exchange.cut = toxic
            else:
                edits.append(toxic)
        exchange.edits = tuple(edits)

    def _try_hold_back(self, exchange: Exchange, frame: bytes) -> bool:
        """The client's side ends at once. The broker's side stays until it has answered the late request."""
        assert exchange.scope is not None
        for toxic in self._settings.of_type("kafka_hold_request"):
            if not self._acts_here(toxic) or not matching.try_take(toxic, exchange.scope):
                continue
            exchange.held_by = toxic
            self._outstanding.append(exchange)
            self._is_cut = True
            self._control.cut_client()
            delay_ms = toxic.number("delay_ms")
            self._control.call_later_ms(delay_ms, partial(self._release_held, toxic, frame))
            self._cancel_drain = self._control.call_later_ms(delay_ms + DRAIN_MS_MAX, self._control.drained)
            return True
        return False

    def _release_held(self, toxic: Toxic, frame: bytes) -> None:
        if not self._is_closed:
            toxic.counters["released"] = toxic.counters.get("released", 0) + 1
            self._control.forward_late(frame)

    @staticmethod
    def _count_late_answer(toxic: Toxic, header: produce.RequestHeader, frame: bytes) -> None:
        """Counts the answer by its error code, if it has one for the whole request. What matters is whether the broker
        accepted the request."""
        name = "answered"
        if header.api_key == END_TXN:
            position = 12 + (header.api_version >= END_TXN_FLEXIBLE)  # length, correlation id, tags, throttle time
            name = f"answered with error {int.from_bytes(frame[position : position + 2], 'big', signed=True)}"
        toxic.counters[name] = toxic.counters.get(name, 0) + 1

    def _end_connection(self) -> None:
        """Both sides close after the bytes that are on their way. Nothing that comes later passes."""
        self._is_cut = True
        self._control.call_later_ms(0, self._control.close)

    def _corrupted(self, exchange: Exchange, frame: bytes) -> bytes:
        assert exchange.request is not None
        assert exchange.scope is not None or not self._settings.of_type("kafka_corrupt_batch")
        for toxic in self._settings.of_type("kafka_corrupt_batch"):
            assert exchange.scope is not None
            if self._acts_here(toxic) and matching.try_take(toxic, exchange.scope):
                position = exchange.request.records_end - 1  # the last byte of the last batch: a header count or value
                return frame[:position] + bytes([frame[position] ^ 1]) + frame[position + 1 :]
        return frame

    def _read_produce(self, header: produce.RequestHeader, frame: bytes) -> produce.ProduceRequest | None:
        if header.api_key != produce.PRODUCE:
            return None
        try:
            return produce.read_request(frame, self._settings.names.by_id)
        except MalformedFrame:
            return None

    def _try_refuse(self, exchange: Exchange) -> Refusal | None:
        if exchange.scope is None or exchange.request is None:
            return None
        for toxic in self._settings.of_type("kafka_refuse_request"):
            if self._acts_here(toxic) and matching.try_take(toxic, exchange.scope):
                return self._hold(exchange.request, toxic)
        return None

    def _hold(self, request: produce.ProduceRequest, toxic: Toxic) -> Refusal:
        error_code = toxic.number("error_code")
        refusal = Refusal(
            frame=produce.refusal_frame(request, error_code),
            error_code=error_code,
            followers_wanted=toxic.number("followers"),
        )
        # If it need not wait for followers, it is sent in its turn, but not from within `forward`.
        hold_ms = toxic.number("hold_ms_max") if refusal.followers_wanted else 0
        refusal.cancel_timer = self._control.call_later_ms(hold_ms, lambda: self._release_late(refusal))
        return refusal

    def _count_follower(self, request: produce.ProduceRequest) -> None:
        partitions = {(batch.topic, batch.partition) for batch in request.batches}
        is_any_released = False
        for exchange in self._outstanding:
            refusal, refused = exchange.refusal, exchange.request
            if refusal is None or refused is None or refusal.is_released:
                continue
            if partitions.isdisjoint((batch.topic, batch.partition) for batch in refused.batches):
                continue
            refusal.followers += 1
            if refusal.followers >= refusal.followers_wanted:
                refusal.is_released = is_any_released = True
        if is_any_released:
            # The follower itself is returned to the caller only afterwards. But the client cannot send again before it
            # has the refusal, and then the follower is ahead in the same stream.
            self._control.emit(self._take_ready())

    def _release_late(self, refusal: Refusal) -> None:
        refusal.is_released = True
        ready = self._take_ready()
        if ready:
            self._control.emit(ready)

    def _answer(self, frame: bytes) -> bytes:
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        exchange = self._find(correlation_id)
        if exchange is None:  # asked before frames were read
            return b"" if self._is_cut else frame
        self._read_response(exchange, frame)
        frame = self._edited(exchange, self._readdressed(exchange.header, frame))
        exchange.response = frame
        if exchange.held_by is not None:
            self._count_late_answer(exchange.held_by, exchange.header, frame)
        if self._is_cut:
            return b""
        if exchange.cut is not None:
            return self._cut_response(exchange, frame)
        if self._is_to_be_dropped(exchange):
            self._is_cut = True
            self._cancel_drain = self._control.call_later_ms(DRAIN_MS_MAX, self._control.drained)
            return b""
        if exchange.delay_ms:
            exchange.is_delayed = True
            self._control.call_later_ms(exchange.delay_ms, lambda: self._delay_over(exchange))
        if self._outstanding[0] is not exchange or exchange.is_delayed:
            self._held_bytes += len(frame)
            if self._held_bytes > HELD_BYTES_MAX:
                self._release_all()
        return self._take_ready()

    def _readdressed(self, header: produce.RequestHeader, frame: bytes) -> bytes:
        rewrites = self._settings.rewrites
        if not rewrites or self._is_cut or not addresses.carries_addresses(header.api_key, header.api_version):
            return frame
        try:
            return addresses.rewritten(frame, header.api_key, header.api_version, rewrites)
        except MalformedFrame as error:
            self._end_unreadable(str(error))
            return frame

    def _edited(self, exchange: Exchange, frame: bytes) -> bytes:
        for toxic in exchange.edits:
            is_hiding = toxic.spec.type == "kafka_hide_topic"
            try:
                frame = messages.edited_response(
                    frame,
                    api_key=exchange.header.api_key,
                    version=exchange.header.api_version,
                    names=self._settings.names.by_id,
                    error_code=-1 if is_hiding else toxic.number("error_code"),
                    throttle_ms=-1 if is_hiding else toxic.number("throttle_ms"),
                    topic=toxic.text("topic"),
                    partition=toxic.number("partition"),
                    is_hiding=is_hiding,
                )
            except MalformedFrame:
                toxic.counters["acted"] = toxic.counters.get("acted", 1) - 1  # nothing was done, so nothing is counted
                toxic.counters["unreadable"] = toxic.counters.get("unreadable", 0) + 1
                continue
            exchange.is_edited |= not is_hiding and toxic.number("error_code") > 0
        return frame

    def _cut_response(self, exchange: Exchange, frame: bytes) -> bytes:
        """The beginning of this response, after the responses before it; then the end."""
        assert exchange.cut is not None
        exchange.response = None
        ready = self._take_ready()
        exchange.response = frame
        self._end_connection()
        is_next = self._outstanding[0] is exchange
        return ready + (frame[: min(exchange.cut.number("at_byte"), len(frame) - 1)] if is_next else b"")

    def _delay_over(self, exchange: Exchange) -> None:
        exchange.is_delayed = False
        ready = self._take_ready()
        if ready:
            self._control.emit(ready)

    def _find(self, correlation_id: int) -> Exchange | None:
        for exchange in self._outstanding:
            if exchange.header.correlation_id == correlation_id and not exchange.refusal and exchange.response is None:
                return exchange
        return None

    def _read_response(self, exchange: Exchange, frame: bytes) -> None:
        names = self._settings.names
        try:
            if exchange.request:
                exchange.results = produce.read_response(frame, exchange.request.api_version, names.by_id)
            elif exchange.header.api_key == produce.METADATA:
                produce.learn_topic_ids(frame, exchange.header.api_version, names)
        except MalformedFrame:
            return

    def _is_to_be_dropped(self, exchange: Exchange) -> bool:
        """Only the response to a successful append. Dropping an error would show nothing."""
        if exchange.scope is None or any(result.error_code for result in exchange.results.values()):
            return False
        drops = self._settings.of_type("kafka_drop_response")
        return any(self._acts_here(toxic) and matching.try_take(toxic, exchange.scope) for toxic in drops)

    def _acts_here(self, toxic: Toxic) -> bool:
        """Toxicity is drawn once for each connection."""
        return self._draws.setdefault(id(toxic), self._rng.random() < toxic.toxicity)

    def _release_all(self) -> None:
        for exchange in self._outstanding:
            exchange.is_delayed = False
            if exchange.refusal:
                exchange.refusal.is_released = True

    def _take_ready(self) -> bytes:
        """All frames whose turn has come."""
        if self._is_cut or self._is_closed:
            return b""
        out: list[bytes] = []
        count = 0
        for exchange in self._outstanding:
            if exchange.refusal and exchange.refusal.is_released:
                self._log(exchange, "refused")
                out.append(exchange.refusal.frame)
                if exchange.refusal.cancel_timer:
                    exchange.refusal.cancel_timer()
            elif exchange.response is not None and not exchange.is_delayed:
                self._log(exchange, "replaced" if exchange.is_edited else "delivered")
                out.append(exchange.response)
                self._held_bytes = max(0, self._held_bytes - len(exchange.response)) if count else self._held_bytes
            else:
                break
            count += 1
        del self._outstanding[:count]
        if not any(exchange.response is not None for exchange in self._outstanding):
            self._held_bytes = 0
        return b"".join(out)

    def _finish_drain(self) -> None:
        """Record what has come. Once nothing forwarded is outstanding, the broker's side may end too."""
        waiting: list[Exchange] = []
        for exchange in self._outstanding:
            if exchange.response is not None:
                self._log(exchange, "dropped")
            elif exchange.refusal:
                self._log(exchange, "unanswered")
                if exchange.refusal.cancel_timer:
                    exchange.refusal.cancel_timer()
            else:
                waiting.append(exchange)
        self._outstanding = waiting
        if not waiting:
            self._control.drained()

    def _log(self, exchange: Exchange, outcome: str) -> None:
        if not exchange.is_logged or exchange.request is None:
            return
        results, refusal = exchange.results, exchange.refusal
        extra: dict[str, object] = {"forwarded": refusal is None, "answered_ns": time.monotonic_ns()}
        if refusal:
            extra["followers"] = refusal.followers
            extra["held_us"] = (time.monotonic_ns() - exchange.arrived_ns) // 1000
            results = {
                (batch.topic, batch.partition): produce.PartitionResult(
                    partition=batch.partition, error_code=refusal.error_code, base_offset=-1
                )
                for batch in exchange.request.batches
            }
        self._settings.wire_log.write(
            mono_ns=exchange.arrived_ns,
            proxy=self._settings.proxy,
            connection=self._connection,
            request=exchange.request,
            attempts=exchange.attempts,
            outcome=outcome,
            results=results,
            extra=extra,
        )
