"""Passes requests to their handlers. An exception of a handler ends only its own request; all such exceptions are
caught here.

Owns: only which handler an API has.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from broker.node.cluster.links import LocalRequest
from broker.node.handlers.rows import Handler
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.wire import apis
from broker.wire.apis import ApiKey
from broker.wire.errors import RemoteProtocolError


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
        try:
            handler(self._services, request)
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
