"""The Kafka part of one proxied connection: pairs requests with responses, carries out Kafka toxics, logs Produce.

It is next to the broker: what `forward` returns is sent to the broker at once, and what `backward` returns is on its
way to the client. Both are synchronous. Refusals that were held are sent later through `emit`. It follows frame
boundaries from the first byte on, so a toxic may be added while a connection is open. It knows no sockets.

The bytes may be of somebody else. So an error of our own code lets a frame pass as it is, and the wire log, which then
is not complete any more, says so. Shown by tests/chaos/test_chaos_full_disk.py.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from chaos.toxiproxy.kafka import addresses, produce
from chaos.toxiproxy.kafka.decisions import Decisions, count_late_answer
from chaos.toxiproxy.kafka.exchange import HELD_BYTES_MAX, OUTSTANDING_MAX, Exchange, Outstanding, Refusal
from chaos.toxiproxy.kafka.exchange_log import Watched
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.frames import FrameSplitter
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.toxic import Toxic
from runlog.records.exchange import ExchangeOutcome
from runlog.records.wire import WireOutcome

SASL_HANDSHAKE = 17
DRAIN_MS_MAX = 5_000  # how long a dropped connection waits for the broker's outstanding responses


class TapControl(Protocol):
    """What a tap may do to its connection, and its timer."""

    def emit(self, data: bytes) -> None:
        """Send to the client, after everything that `backward` returned before."""

    def forward_late(self, data: bytes) -> None:
        """Send to the broker what was held back. It also works after `cut_client`."""

    def cut_client(self) -> None:
        """End the client's side. What the client still sends is discarded. The broker's side stays open."""

    def read_client(self, is_reading: bool) -> None:
        """Whether bytes of the client are read. Those that were read already still come."""

    def read_broker(self, is_reading: bool) -> None:
        """Likewise for the broker."""

    def close(self) -> None:
        """Send what was written, then close both sides."""

    def drained(self) -> None:
        """After `cut_client`: the broker has answered everything, so its side may be closed."""

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> Callable[[], object]:
        """Call `action` later. Returns a function that cancels this."""


@dataclass(slots=True, kw_only=True, eq=False)
class Stall:
    """A request that is not forwarded for now, and the frames that came after it."""

    exchange: Exchange
    frame: bytes
    later: list[bytes] = field(default_factory=list)
    later_bytes: int = 0
    cancel_timer: Callable[[], object] | None = None


class KafkaTap:
    def __init__(self, settings: KafkaSettings, connection: int, control: TapControl, rng: random.Random) -> None:
        self._settings = settings
        self._connection = connection
        self._control = control
        self._decisions = Decisions(settings, rng)
        self._requests = FrameSplitter()
        self._responses = FrameSplitter()
        self._outstanding = Outstanding(self._log)
        self._is_cut = False
        self._is_closed = False
        self._is_mute = False  # the client gets nothing any more, although the connection stays
        self._stall: Stall | None = None
        self._cancel_drain: Callable[[], object] | None = None

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    def passes_unread(self) -> bool:
        """Whether all bytes pass as they are for now, both ways. Then only `frames` must follow them."""
        is_reading = self._requests.is_reading or self._responses.is_reading
        return not (self._is_cut or is_reading or self._settings.wants_frames())

    def frames(self, *, is_upstream: bool) -> FrameSplitter:
        return self._requests if is_upstream else self._responses

    def forward(self, data: bytes) -> bytes:
        """Process bytes from the client. Returns what goes to the broker."""
        if self._is_cut:
            return b""
        if not self._requests.is_reading:
            if not self._settings.wants_frames():
                self._requests.skim(data)
                return data
            self._requests.start_reading()
            self._responses.start_reading()
        unread, frames = self._requests.feed(data)
        if self._stall is not None:
            self._keep(self._stall, [unread, *frames] if unread else frames)
            return b""
        if self._requests.is_opaque:
            return self._unread(unread + b"".join(frames))
        return unread + self._admit_all(frames)

    def _admit_all(self, frames: list[bytes]) -> bytes:
        """The bytes of these requests that are sent to the broker now."""
        out: list[bytes] = []
        for number, frame in enumerate(frames):
            try:
                out.append(self._admit(frame))
            except Exception as error:  # whatever it is, see above
                self._tell_own_error(error)
                out.append(frame)
            if self._is_cut:
                break
            if self._stall is not None:
                self._keep(self._stall, frames[number + 1 :])
                break
        return b"".join(out)

    def toxics_changed(self) -> None:
        """A toxic was added or removed. Silence ends with the toxic that made it."""
        present = {id(toxic) for toxic in self._settings.toxics}
        if self._stall is not None and id(self._stall.exchange.silence) not in present:
            self._end_stall()
        for exchange in self._outstanding.silenced():
            if id(exchange.silence) not in present:
                self._end_silence(exchange)

    def backward(self, data: bytes) -> bytes:
        """Process bytes from the broker. Returns what goes to the client now."""
        if not self._responses.is_reading:
            self._responses.skim(data)
            return data
        unread, frames = self._responses.feed(data)
        if self._responses.is_opaque:
            return b"" if self._is_cut else self._unread(unread + b"".join(frames))
        out = [unread]
        for frame in frames:
            was_cut = self._is_cut
            try:
                out.append(self._answer(frame))
            except Exception as error:  # whatever it is, see above
                self._tell_own_error(error)
                out.append(b"" if self._is_cut else self._unread(frame))
            if self._is_cut and not was_cut:
                # The client still gets the responses that came before the dropped one.
                self._control.emit(b"".join(out))
                out.clear()
                self._control.cut_client()
        if self._is_cut and self._outstanding.settle():
            self._control.drained()  # all forwarded requests are answered, so the broker's side may end too
        elif self._is_mute:
            self._outstanding.settle()
        return b"".join(out)

    def closed(self) -> None:
        """The connection has ended. The remaining exchanges get an outcome."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._cancel_drain:
            self._cancel_drain()
        if self._stall is not None:
            self._log(self._stall.exchange, WireOutcome.UNANSWERED)
            self._stall = None
        self._outstanding.close()

    def _unread(self, data: bytes) -> bytes:
        """Bytes that are not Kafka frames pass. But if addresses are rewritten, the connection ends, because the bytes
        could contain an address."""
        if not self._settings.rewrites:
            return data
        self._end_unreadable("bytes that are no Kafka frames")
        return b""

    def _tell_own_error(self, error: Exception) -> None:
        where = f"proxy {self._settings.proxy}, connection {self._connection}"
        self._settings.wire_log.stop(f"{where}: {type(error).__name__}: {error}")
        traceback.print_exception(error, file=sys.stderr)

    def _end_unreadable(self, what: str) -> None:
        print(
            f"event=closed proxy={self._settings.proxy} connection={self._connection} cause={what}: "
            "the addresses in it could not be rewritten",
            file=sys.stderr,
            flush=True,
        )
        self._end_connection()

    def _admit(self, frame: bytes) -> bytes:
        """The bytes of this request that are sent to the broker now."""
        try:
            header = produce.read_header(frame)
        except MalformedFrame:
            return frame
        if header.api_key == SASL_HANDSHAKE and header.api_version == 0:
            return self._raw_tokens(frame)
        exchange = Exchange(header=header, arrived_ns=time.monotonic_ns())
        request = self._read_produce(header, frame)
        if self._outstanding.is_full:
            self._requests.is_opaque = True
            if self._settings.is_armed():
                self._settings.wire_log.stop(f"a connection has {OUTSTANDING_MAX} requests without an answer")
            return frame
        exchange.scope = self._decisions.scope(header, request, frame)
        exchange.request = request
        if (watch := self._settings.watch) is not None:
            log, names = self._settings.exchange_log, self._settings.names.by_id
            exchange.watched = log.begin(watch, header, request, frame, names)
        if request is not None:
            exchange.noted = self._settings.wire_log.note(request, frame, is_armed=self._settings.is_armed())
        if exchange.scope is not None:
            self._decisions.prepare(exchange)
        if self._try_hold_back(exchange, frame):
            return b""
        if exchange.cut is not None and exchange.cut.text("frame") == "request":
            self._log(exchange, WireOutcome.UNANSWERED)
            self._end_connection()
            return frame[: min(exchange.cut.number("at_byte"), len(frame) - 1)]
        if self._decisions.try_close(exchange):
            exchange.is_forwarded = False
            self._log(exchange, WireOutcome.UNANSWERED)
            self._end_client()
            return b""
        if (toxic := self._decisions.try_silence(exchange)) is not None:
            self._begin_stall(exchange, frame, toxic)
            return b""
        return self._pass_on(exchange, frame)

    def _pass_on(self, exchange: Exchange, frame: bytes) -> bytes:
        """The bytes of a request that nothing holds back."""
        request = exchange.request
        if request is not None and request.acks == 0:  # it is never answered, so it can be neither refused nor dropped
            self._log(exchange, WireOutcome.UNANSWERED)
            return frame
        if refusing := self._decisions.try_refuse(exchange, frame):
            exchange.refusal = self._hold(*refusing, is_produce=request is not None)
            exchange.is_forwarded = False
        self._outstanding.append(exchange)
        if exchange.refusal:
            return b""
        if request is not None:
            if self._outstanding.count_follower(request):
                # The refusal is sent now, although the follower is returned to the caller only afterwards. The client
                # retries only after it has the refusal. By then the follower is ahead in the same stream.
                self._control.emit(self._take_ready())
            return self._decisions.corrupted(exchange, frame)
        return frame

    def _raw_tokens(self, frame: bytes) -> bytes:
        """After version 0 of SaslHandshake the tokens have no header (KIP-152 changed that). Their end cannot be found,
        so the rest of this connection passes unread."""
        if self._settings.rewrites:
            self._end_unreadable("SaslHandshake version 0, which a client of Kafka 1.0 or later does not use")
            return b""
        self._requests.is_opaque = self._responses.is_opaque = True
        return frame

    def _try_hold_back(self, exchange: Exchange, frame: bytes) -> bool:
        """Hold the request back, if a toxic wants it. The client's side ends at once. The broker's side stays until it
        has answered the late request."""
        toxic = self._decisions.try_hold(exchange)
        if toxic is None:
            return False
        exchange.held_by = toxic
        self._outstanding.append(exchange)
        self._is_cut = True
        self._control.cut_client()
        delay_ms = toxic.number("delay_ms")
        self._control.call_later_ms(delay_ms, partial(self._release_held, toxic, frame))
        self._cancel_drain = self._control.call_later_ms(delay_ms + DRAIN_MS_MAX, self._control.drained)
        return True

    def _release_held(self, toxic: Toxic, frame: bytes) -> None:
        if not self._is_closed:
            toxic.counters["released"] = toxic.counters.get("released", 0) + 1
            self._control.forward_late(frame)

    def _end_connection(self) -> None:
        """Close both sides after the bytes that are on their way. Later bytes do not pass."""
        self._is_cut = True
        self._control.call_later_ms(0, self._control.close)

    def _read_produce(self, header: produce.RequestHeader, frame: bytes) -> produce.ProduceRequest | None:
        if header.api_key != produce.PRODUCE:
            return None
        try:
            return produce.read_request(frame, self._settings.names.by_id)
        except MalformedFrame:
            return None

    def _begin_stall(self, exchange: Exchange, frame: bytes, toxic: Toxic) -> None:
        exchange.silence, exchange.is_forwarded = toxic, False
        self._stall = Stall(exchange=exchange, frame=frame)
        if silence_ms := toxic.number("silence_ms"):
            self._stall.cancel_timer = self._control.call_later_ms(silence_ms, self._end_stall)

    def _keep(self, stall: Stall, frames: list[bytes]) -> None:
        """Keep what came after a request that is not forwarded."""
        if self._is_mute:
            return
        stall.later += frames
        stall.later_bytes += sum(map(len, frames))
        if stall.later_bytes > HELD_BYTES_MAX:
            self._control.read_client(False)

    def _end_stall(self) -> None:
        """The silence of a request that was not forwarded ends."""
        stall = self._stall
        if stall is None or self._is_closed or self._is_cut or self._is_mute:
            return
        if stall.cancel_timer is not None:
            stall.cancel_timer()
        toxic = stall.exchange.silence
        assert toxic is not None
        self._control.read_client(True)
        if toxic.text("at_heal") == "stay":
            self._is_mute = True
            stall.later.clear()
        elif toxic.text("at_heal") == "close":
            self._end_connection()
        else:
            self._stall = None
            stall.exchange.silence, stall.exchange.is_forwarded = None, True
            first = self._pass_on(stall.exchange, stall.frame)
            is_opaque = self._requests.is_opaque  # the last of the frames is then the beginning of something else
            rest = self._unread(b"".join(stall.later)) if is_opaque else self._admit_all(stall.later)
            self._control.forward_late(first + rest)

    def _end_silence(self, exchange: Exchange) -> None:
        """The silence of a response that has arrived, or has not yet, ends."""
        toxic = exchange.silence
        if toxic is None or self._is_closed or self._is_cut or self._is_mute:
            return
        self._control.read_broker(True)
        if toxic.text("at_heal") == "stay":
            self._is_mute = True
            self._outstanding.settle()
        elif toxic.text("at_heal") == "close":
            self._end_connection()
        else:
            exchange.silence = None
            self._delay_over(exchange)

    def _end_client(self) -> None:
        """The client's side ends at once. The broker's side stays until it has answered what it got."""
        self._is_cut = True
        self._control.cut_client()
        is_answered = self._outstanding.settle()
        self._cancel_drain = self._control.call_later_ms(0 if is_answered else DRAIN_MS_MAX, self._control.drained)

    def _hold(self, toxic: Toxic, frame: bytes, *, is_produce: bool) -> Refusal:
        refusal = Refusal(
            frame=frame,
            error_code=toxic.number("error_code"),
            followers_wanted=toxic.number("followers") if is_produce else 0,
        )
        # A refusal that waits for no followers is sent in its turn, but not within `forward`.
        hold_ms = toxic.number("hold_ms_max") if refusal.followers_wanted else 0
        refusal.cancel_timer = self._control.call_later_ms(hold_ms, lambda: self._release_late(refusal))
        return refusal

    def _release_late(self, refusal: Refusal) -> None:
        refusal.is_released = True
        ready = self._take_ready()
        if ready:
            self._control.emit(ready)

    def _answer(self, frame: bytes) -> bytes:
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        exchange = self._outstanding.find(correlation_id)
        if exchange is None:  # the request was sent before frames were read
            return b"" if self._is_cut else frame
        self._read_response(exchange, frame)
        self._decisions.answered(exchange, frame)
        frame = self._decisions.edited(exchange, self._readdressed(exchange.header, frame))
        exchange.response = frame
        if exchange.held_by is not None:
            count_late_answer(exchange.held_by, exchange.header, frame)
        if self._is_cut:
            return b""
        if exchange.cut is not None:
            return self._cut_response(exchange, frame)
        if self._decisions.try_drop(exchange):
            self._is_cut = True
            self._cancel_drain = self._control.call_later_ms(DRAIN_MS_MAX, self._control.drained)
            return b""
        if exchange.silence is not None:
            exchange.is_delayed = True
            if silence_ms := exchange.silence.number("silence_ms"):
                self._control.call_later_ms(silence_ms, lambda: self._end_silence(exchange))
        elif exchange.delay_ms:
            exchange.is_delayed = True
            self._control.call_later_ms(exchange.delay_ms, lambda: self._delay_over(exchange))
        if self._outstanding.hold(exchange, len(frame)):
            self._control.read_broker(False)
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

    def _cut_response(self, exchange: Exchange, frame: bytes) -> bytes:
        """The earlier responses and the beginning of this one. Then the connection ends."""
        assert exchange.cut is not None
        exchange.response = None
        ready = self._take_ready()
        exchange.response = frame
        self._end_connection()
        is_next = self._outstanding.is_next(exchange)
        return ready + (frame[: min(exchange.cut.number("at_byte"), len(frame) - 1)] if is_next else b"")

    def _delay_over(self, exchange: Exchange) -> None:
        exchange.is_delayed = False
        ready = self._take_ready()
        if ready:
            self._control.emit(ready)

    def _read_response(self, exchange: Exchange, frame: bytes) -> None:
        names = self._settings.names
        try:
            if exchange.request:
                exchange.results = produce.read_response(frame, exchange.request.api_version, names.by_id)
            elif exchange.header.api_key == produce.METADATA:
                produce.learn_topic_ids(frame, exchange.header.api_version, names)
        except MalformedFrame:
            return

    def _take_ready(self) -> bytes:
        """All frames that may be sent now."""
        is_silent = self._is_cut or self._is_closed or self._is_mute
        return b"" if is_silent else self._outstanding.take_ready()

    def _log(self, exchange: Exchange, outcome: WireOutcome) -> None:
        if exchange.watched is not None:
            self._log_exchange(exchange, exchange.watched, outcome)
        if exchange.noted is None:
            return
        results, refusal, answered_ns = exchange.results, exchange.refusal, time.monotonic_ns()
        if refusal:
            results = {
                (batch.topic, batch.partition): produce.PartitionResult(
                    partition=batch.partition, error_code=refusal.error_code, base_offset=-1
                )
                for batch in exchange.noted.request.batches
            }
        self._settings.wire_log.write(
            exchange.noted,
            mono_ns=exchange.arrived_ns,
            proxy=self._settings.proxy,
            connection=self._connection,
            outcome=outcome,
            results=results,
            is_forwarded=exchange.is_forwarded,
            answered_ns=answered_ns,
            followers=refusal.followers if refusal else None,
            held_us=(answered_ns - exchange.arrived_ns) // 1000 if refusal else None,
        )

    def _log_exchange(self, exchange: Exchange, watched: Watched, outcome: WireOutcome) -> None:
        log, proxy = self._settings.exchange_log, self._settings.proxy
        is_altered = outcome is WireOutcome.DELIVERED and exchange.is_altered
        try:
            log.end(
                watched,
                exchange.header,
                exchange.refusal.frame if exchange.refusal else exchange.response,
                mono_ns=exchange.arrived_ns,
                proxy=proxy,
                connection=self._connection,
                outcome=ExchangeOutcome.ALTERED if is_altered else ExchangeOutcome(outcome.value),
                is_forwarded=exchange.is_forwarded,
                toxics=tuple(toxic.name for toxic in exchange.acted),
            )
        except Exception as error:  # whatever it is: the exchange is somebody else's
            log.stop(watched.watch, proxy, f"an exchange cannot be written down: {type(error).__name__}: {error}")
