"""Passes requests to their handlers. An exception of a handler ends only its own request; all such exceptions are
caught here.

Owns: only which handler an API has. While there are quotas, it measures what a request costs its client.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from broker.node.cluster.links import LocalRequest
from broker.node.handlers.rows import Handler
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.node.process.clock import monotonic_ms, monotonic_ns
from broker.wire import apis
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import RemoteProtocolError
from broker.wire.messages import to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import FetchResponse
    from broker.wire.shapes.kinds import Answers
    from broker.wire.shapes.share_fetch import ShareFetchResponse

_NO_TIME: Final = timedelta(0)


class Dispatcher:
    """`own` are the handlers for requests of this broker to itself, which are not authorized."""

    def __init__(
        self, services: Services, handlers: Mapping[ApiKey, Handler], *, own: Mapping[ApiKey, Handler]
    ) -> None:
        self._services = services
        self._handlers: Mapping[int, Handler] = {int(key): handler for key, handler in handlers.items()}
        self._own: Mapping[int, Handler] = {int(key): handler for key, handler in own.items()}

    def dispatch(self, request: Request[Any]) -> None:
        """Handles a request of a connection. If it raises RemoteProtocolError, the connection logs the error and
        closes."""
        header = request.header
        handler = self._handlers.get(header.api_key)
        if handler is None or not apis.is_supported(header.api_key, header.api_version, request.listener):
            raise RemoteProtocolError(f"api key {header.api_key} version {header.api_version} is not offered here")
        is_charged = self._services.quotas.is_active and request.listener is Listener.CLIENT
        handled = self._charge(request) if is_charged else None
        try:
            handler(self._services, request)
            if handled is not None:
                handled()
        except RemoteProtocolError:
            raise
        except Exception:
            request.fail(traceback.format_exc())

    def handle_locally(self, request: LocalRequest) -> None:
        """Handles a request of this broker to itself."""
        handler = self._own[request.api_key]
        try:
            handler(self._services, request)
        except Exception:
            request.fail(traceback.format_exc())

    def _charge(self, request: Request[Any]) -> Callable[[], None]:
        """Makes the quotas of this client count the request when it is answered. The result must be called after the
        handler."""
        began_ns, client_id, api_key = monotonic_ns(), request.client_id, request.header.api_key
        quotas, user = self._services.quotas, request.principal.name
        busy_ns: list[int] = []  # how long the handler used the event loop, set when it has returned

        def charge(answer: Answers[Any] | None) -> int:
            now_ms = monotonic_ms()
            wait_ms = quotas.handled(user, client_id, busy_ns[0] if busy_ns else monotonic_ns() - began_ns, now_ms)
            if api_key == ApiKey.PRODUCE:
                wait_ms = max(wait_ms, quotas.produced(user, client_id, request.size_bytes, now_ms))
            elif api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH) and answer is not None:
                topics = cast("FetchResponse | ShareFetchResponse", answer).responses
                size_bytes = sum(len(each.records or b"") for topic in topics for each in topic.partitions)
                wait_ms = max(wait_ms, quotas.fetched(user, client_id, size_bytes, now_ms))
            # The throttle time that the controller returned for a forwarded request.
            return max(wait_ms, to_ms(getattr(answer, "throttle_time", _NO_TIME)))

        request.charge = charge
        return lambda: busy_ns.append(monotonic_ns() - began_ns)
