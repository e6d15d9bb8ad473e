"""The requests of one connection that have no answer yet, and the order in which their responses are sent.

A broker answers in the order of the requests. So a response waits behind a refusal that is held or a response that is
delayed. This module has no timers, no sockets and no toxics. Shown by tests/chaos/test_chaos_kafka_toxics.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.toxiproxy.kafka import matching, produce
from chaos.toxiproxy.kafka.exchange_log import Watched
from chaos.toxiproxy.kafka.wire_log import Noted
from chaos.toxiproxy.toxic import Toxic
from runlog.records.wire import WireOutcome

HELD_BYTES_MAX = 8 << 20  # responses that wait for their turn; beyond this, all waits end early
OUTSTANDING_MAX = 10_000  # requests without a response on one connection; beyond this, the stream passes unread


@dataclass(slots=True, kw_only=True, eq=False)
class Refusal:
    frame: bytes
    error_code: int
    followers_wanted: int
    followers: int = 0
    is_released: bool = False
    cancel_timer: Callable[[], object] | None = None

    def cancel(self) -> None:
        if self.cancel_timer:
            self.cancel_timer()


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """One request that has not been answered yet."""

    header: produce.RequestHeader
    arrived_ns: int
    scope: matching.Scope | None = None  # only if a toxic may act on it
    request: produce.ProduceRequest | None = None  # only for Produce
    delay_ms: int = 0
    is_delayed: bool = False  # the response has arrived and waits
    silence: Toxic | None = None  # the response waits for the end of this toxic, or the request does
    is_closing: bool = False  # its connection ends instead of a response
    is_forwarded: bool = True
    edits: tuple[Toxic, ...] = ()
    is_edited: bool = False
    cut: Toxic | None = None
    is_altered: bool = False  # the client gets other contents, but no error
    noted: Noted | None = None  # only if it gets lines in the wire log
    watched: Watched | None = None  # only if it gets a line in the exchange log
    acted: list[Toxic] = field(default_factory=list)  # the toxics that acted on it
    held_by: Toxic | None = None  # its client is gone; the broker gets the request later
    refusal: Refusal | None = None
    response: bytes | None = None
    results: dict[tuple[str, int], produce.PartitionResult] = field(default_factory=dict)


class Outstanding:
    """The unanswered requests. `log` is called with the outcome of each exchange that is over."""

    def __init__(self, log: Callable[[Exchange, WireOutcome], None]) -> None:
        self._log = log
        self._exchanges: list[Exchange] = []  # in the order of arrival, which is the order of responses
        self._held_bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._exchanges) >= OUTSTANDING_MAX

    def append(self, exchange: Exchange) -> None:
        self._exchanges.append(exchange)

    def find(self, correlation_id: int) -> Exchange | None:
        """The exchange that waits for this response of the broker."""
        for exchange in self._exchanges:
            if exchange.header.correlation_id == correlation_id and not exchange.refusal and exchange.response is None:
                return exchange
        return None

    def is_next(self, exchange: Exchange) -> bool:
        return self._exchanges[0] is exchange

    def hold(self, exchange: Exchange, size_bytes: int) -> bool:
        """The response has arrived. If it must wait and there is no space left, all waits end. But a silence does not
        end by that: then the result is True, and no further response should be read."""
        if self.is_next(exchange) and not exchange.is_delayed:
            return False
        self._held_bytes += size_bytes
        if self._held_bytes <= HELD_BYTES_MAX:
            return False
        self._release_all()
        return any(each.silence for each in self._exchanges)

    def silenced(self) -> list[Exchange]:
        """Those whose responses wait for the end of a toxic."""
        return [exchange for exchange in self._exchanges if exchange.silence]

    def count_follower(self, request: produce.ProduceRequest) -> bool:
        """A later request has arrived. Refusals for one of its partitions count it. True if a refusal waited only for
        this request."""
        partitions = {(batch.topic, batch.partition) for batch in request.batches}
        is_any_released = False
        for exchange in self._exchanges:
            refusal, refused = exchange.refusal, exchange.request
            if refusal is None or refused is None or refusal.is_released:
                continue
            if partitions.isdisjoint((batch.topic, batch.partition) for batch in refused.batches):
                continue
            refusal.followers += 1
            if refusal.followers >= refusal.followers_wanted:
                refusal.is_released = is_any_released = True
        return is_any_released

    def take_ready(self) -> bytes:
        """Remove and return all frames that may be sent now."""
        out: list[bytes] = []
        for exchange in self._exchanges:
            if exchange.refusal and exchange.refusal.is_released:
                self._log(exchange, WireOutcome.REFUSED)
                out.append(exchange.refusal.frame)
                exchange.refusal.cancel()
            elif exchange.response is not None and not exchange.is_delayed:
                self._log(exchange, WireOutcome.REPLACED if exchange.is_edited else WireOutcome.DELIVERED)
                self._held_bytes = max(0, self._held_bytes - len(exchange.response)) if out else self._held_bytes
                out.append(exchange.response)
            else:
                break
        del self._exchanges[: len(out)]
        if not any(exchange.response is not None for exchange in self._exchanges):
            self._held_bytes = 0
        return b"".join(out)

    def settle(self) -> bool:
        """The client has gone. Exchanges that are over get their outcome. True if no exchange is left."""
        waiting: list[Exchange] = []
        for exchange in self._exchanges:
            if exchange.response is not None:
                self._log(exchange, WireOutcome.DROPPED)
            elif exchange.refusal:
                self._log(exchange, WireOutcome.UNANSWERED)
                exchange.refusal.cancel()
            else:
                waiting.append(exchange)
        self._exchanges = waiting
        return not waiting

    def close(self) -> None:
        """The connection has ended. The remaining exchanges get an outcome."""
        for exchange in self._exchanges:
            if exchange.refusal:
                exchange.refusal.cancel()
            self._log(exchange, WireOutcome.DROPPED if exchange.response is not None else WireOutcome.UNANSWERED)
        self._exchanges.clear()

    def _release_all(self) -> None:
        for exchange in self._exchanges:
            exchange.is_delayed = exchange.silence is not None
            if exchange.refusal:
                exchange.refusal.is_released = True
