"""Makes the quotas of a client count one of its requests (KIP-13, KIP-124, KIP-219). Used while there are quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker.node.features.quotas.client_quotas import ClientQuotas
from broker.node.net.requests import Request
from broker.node.process.clock import monotonic_ms, monotonic_ns
from broker.wire.apis import ApiKey

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Answers

_UNKNOWN: Final = -1


class ClientCharge:
    """Of broker/node/net/requests.py, `Charge`. `fetched_bytes` is the column of the API's row."""

    __slots__ = ("_began_ns", "_busy_ns", "_client", "_fetched_bytes", "_quotas", "_request", "_waits_ms")

    def __init__(
        self, quotas: ClientQuotas, request: Request[Any], fetched_bytes: Callable[[Any], int] | None = None
    ) -> None:
        self._quotas, self._request, self._fetched_bytes = quotas, request, fetched_bytes
        self._client = (request.principal.name, request.client_id)
        self._began_ns = monotonic_ns()
        self._busy_ns = _UNKNOWN  # how long the handler used the event loop
        self._waits_ms = _UNKNOWN  # set when the records of a Fetch are counted, before its answer is made

    def handled(self) -> None:
        self._busy_ns = monotonic_ns() - self._began_ns

    def fetch_bytes_max(self) -> int | None:
        return self._quotas.fetch_bytes_max(*self._client)

    def holds_back(self, size_bytes: int) -> bool:
        """As in Apache Kafka, records that are held back count for nothing, and the client asks again after its wait.
        If the answer alone is more than the whole window allows, it is sent: otherwise it could never be."""
        now_ms = monotonic_ms()
        wait_ms = self._time_used(now_ms)
        self._waits_ms = max(wait_ms, self._quotas.fetched(*self._client, size_bytes, now_ms))
        if not self._waits_ms or (not wait_ms and self._quotas.fetched_in_window(*self._client, now_ms) <= size_bytes):
            return False
        self._quotas.fetched(*self._client, -size_bytes, now_ms)
        return True

    def wait_ms(self, answer: Answers[Any] | None) -> int:
        now_ms, key = monotonic_ms(), self._request.header.api_key
        if self._waits_ms != _UNKNOWN:
            return self._waits_ms
        wait_ms = self._time_used(now_ms)
        if key == ApiKey.PRODUCE:
            wait_ms = max(wait_ms, self._quotas.produced(*self._client, self._request.size_bytes, now_ms))
        elif self._fetched_bytes is not None and answer is not None:
            wait_ms = max(wait_ms, self._quotas.fetched(*self._client, self._fetched_bytes(answer), now_ms))
        return wait_ms

    def _time_used(self, now_ms: int) -> int:
        busy_ns = monotonic_ns() - self._began_ns if self._busy_ns == _UNKNOWN else self._busy_ns
        return self._quotas.handled(*self._client, busy_ns, now_ms)
