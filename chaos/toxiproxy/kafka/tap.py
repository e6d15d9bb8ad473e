"""The Kafka side of one proxied connection: pairs requests with responses, refuses, drops, writes the wire log.

It sits next to the broker: what passed `forward` has been sent to the broker, what `backward` returns is on its way to
the client. Both are synchronous; refusals that were held come later through `emit`. It follows frame boundaries from
the first byte, so a toxic may be armed on an open connection. Knows no sockets.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from chaos.toxiproxy.kafka import matching, produce
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.frames import FrameSplitter
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.toxic import Toxic

HELD_BYTES_MAX = 8 << 20  # responses held behind a refusal; more, and the refusal goes out early
OUTSTANDING_MAX = 10_000  # requests without response on one connection; beyond it the stream passes unread
DRAIN_MS_MAX = 5_000  # how long a dropped connection waits for the broker's outstanding responses


@dataclass(slots=True, kw_only=True)
class KafkaSettings:
    """Shared by all connections of one proxy."""

    proxy: str
    wire_log: WireLog
    names: produce.TopicNames
    is_logging_asked: bool = False
    drop: list[Toxic] = field(default_factory=list)
    refuse: list[Toxic] = field(default_factory=list)

    def wants_frames(self) -> bool:
        """With a wire log frames are read from the start: it needs topic names from Metadata, and earlier attempts."""
        return self.wire_log.is_open or self.is_armed()

    def is_armed(self) -> bool:
        return self.is_logging_asked or bool(self.drop) or bool(self.refuse)


class TapControl(Protocol):
    """What a tap may do to its connection, and its clock."""

    def emit(self, data: bytes) -> None:
        """Send to the client, after all that `backward` returned before."""

    def cut_client(self) -> None:
        """End the client's side; what the client still sends goes nowhere; the broker's side stays open."""

    def drained(self) -> None:
        """After `cut_client`: the broker owes nothing more, its side may end."""

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
    """One request whose turn to be answered has not come."""

    header: produce.RequestHeader
    arrived_ns: int
    request: produce.ProduceRequest | None = None  # only for Produce
    attempts: tuple[int, ...] = ()
    is_logged: bool = False
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
            return unread + b"".join(frames)
        return unread + b"".join([frame for frame in frames if self._admit(frame)])

    def backward(self, data: bytes) -> bytes:
        """From the broker; returns what goes to the client now."""
        if not self._responses.is_reading:
            self._responses.skim(data)
            return data
        unread, frames = self._responses.feed(data)
        if self._responses.is_opaque:
            return b"" if self._is_cut else unread + b"".join(frames)
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

    def closed(self) -> None:
        """The connection has ended: what has no outcome yet gets one."""
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

    def _admit(self, frame: bytes) -> bool:
        """True if the broker shall see this request."""
        try:
            header = produce.read_header(frame)
        except MalformedFrame:
            return True
        exchange = Exchange(header=header, arrived_ns=time.monotonic_ns())
        request = self._read_produce(header, frame)
        if len(self._outstanding) >= OUTSTANDING_MAX:
            self._requests.is_opaque = True
            return True
        if request is None:
            self._outstanding.append(exchange)
            return True
        exchange.request = request
        exchange.attempts = self._settings.wire_log.count_attempts(request)
        # A retry of what was logged is logged too, even if the toxic has gone meanwhile.
        exchange.is_logged = self._settings.is_armed() or max(exchange.attempts, default=1) > 1
        if request.acks == 0:  # never answered, so it can be neither refused nor dropped, and holds no turn
            self._log(exchange, "unanswered")
            return True
        exchange.refusal = self._try_refuse(request)
        self._outstanding.append(exchange)
        if exchange.refusal:
            return False
        self._count_follower(request)
        return True

    def _read_produce(self, header: produce.RequestHeader, frame: bytes) -> produce.ProduceRequest | None:
        if header.api_key != produce.PRODUCE:
            return None
        try:
            return produce.read_request(frame, self._settings.names.by_id)
        except MalformedFrame:
            return None

    def _try_refuse(self, request: produce.ProduceRequest) -> Refusal | None:
        for toxic in self._settings.refuse:
            if self._acts_here(toxic) and matching.try_take(toxic, request):
                return self._hold(request, toxic)
        return None

    def _hold(self, request: produce.ProduceRequest, toxic: Toxic) -> Refusal:
        error_code = toxic.number("error_code")
        refusal = Refusal(
            frame=produce.refusal_frame(request, error_code),
            error_code=error_code,
            followers_wanted=toxic.number("followers"),
        )
        # Without followers to wait for it goes out in its turn, but not from within `forward`.
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
            # The follower itself is returned to the caller only afterwards, but the client cannot resend before it
            # has got the refusal, and then the follower is ahead in the same stream.
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
        exchange.response = frame
        if self._is_cut:
            return b""
        if self._is_to_be_dropped(exchange):
            self._is_cut = True
            self._cancel_drain = self._control.call_later_ms(DRAIN_MS_MAX, self._control.drained)
            return b""
        if self._outstanding[0] is not exchange:
            self._held_bytes += len(frame)
            if self._held_bytes > HELD_BYTES_MAX:
                self._release_all()
        return self._take_ready()

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
        """Only the response to an append: dropping an error would show nothing."""
        request = exchange.request
        if request is None or any(result.error_code for result in exchange.results.values()):
            return False
        return any(self._acts_here(toxic) and matching.try_take(toxic, request) for toxic in self._settings.drop)

    def _acts_here(self, toxic: Toxic) -> bool:
        """Toxicity is drawn once for each connection."""
        return self._draws.setdefault(id(toxic), self._rng.random() < toxic.toxicity)

    def _release_all(self) -> None:
        for exchange in self._outstanding:
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
            elif exchange.response is not None:
                self._log(exchange, "delivered")
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
        """Record what has come; once nothing forwarded is outstanding the broker's side may end too."""
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
        extra: dict[str, object] = {"forwarded": refusal is None}
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
