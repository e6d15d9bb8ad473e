"""Envelope (key 58), version 0 (KIP-590): a request that a broker forwards to the controller, with the principal of the
client.

A request comes in an envelope only if the controller must know the client. These are requests that create or delete
topics or partitions, while there are controller mutation quotas. All other forwarded requests come without an envelope.
The broker has already authorized the client.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from broker.node.cluster.controller_client import is_not_controller
from broker.node.handlers import (
    api_19_create_topics,
    api_20_delete_topics,
    api_37_create_partitions,
)
from broker.node.handlers.rows import ControllerApi
from broker.node.handlers.services import Services
from broker.node.net.limits import elements_max
from broker.node.net.principal import Principal
from broker.node.net.requests import AnyRequest
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey
from broker.wire.codec import (
    RequestHeader,
    UnsupportedVersionError,
    decode_request_body,
    decode_request_header,
    encode_response,
)
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import response
from broker.wire.principals import decode_principal

if TYPE_CHECKING:
    from broker.wire.shapes import envelope as shapes

# The type is Any, because each API has a request and an answer of its own.
_CONTROLLERS: Mapping[int, ControllerApi[Any]] = {
    ApiKey.CREATE_TOPICS: api_19_create_topics.CONTROLLER,
    ApiKey.DELETE_TOPICS: api_20_delete_topics.CONTROLLER,
    ApiKey.CREATE_PARTITIONS: api_37_create_partitions.CONTROLLER,
}


def handle(services: Services, request: AnyRequest[shapes.EnvelopeRequest]) -> None:
    try:
        inner = _opened(request)
    except UnsupportedVersionError:
        request.respond(_closed(request, ErrorCode.unsupported_version))
    except (RemoteProtocolError, struct.error, UnicodeDecodeError):
        request.respond(_closed(request, ErrorCode.invalid_request))
    else:
        if inner is None:
            request.respond(_closed(request, ErrorCode.principal_deserialization_failure))
        else:
            _CONTROLLERS[inner.header.api_key].ask_charged(services, inner)


def _opened(request: AnyRequest[shapes.EnvelopeRequest]) -> _Enveloped | None:
    """The request in the envelope. None if its principal cannot be read. Raises RemoteProtocolError if there is no
    valid request inside, or one of another API."""
    message = request.message
    frame = bytes(message.request_data)
    header = decode_request_header(frame)
    if header.api_key not in _CONTROLLERS:
        raise RemoteProtocolError(f"api key {header.api_key} does not come in an envelope")
    principal = None if message.request_principal is None else decode_principal(bytes(message.request_principal))
    if principal is None:
        return None
    body = decode_request_body(header, frame, elements_max=elements_max(header.api_key, is_peer=False))
    return _Enveloped(request, header, body, Principal(*principal))


def _closed(
    request: AnyRequest[shapes.EnvelopeRequest], error: ErrorCode, data: bytes | None = None
) -> shapes.EnvelopeResponse:
    return response(ApiKey.ENVELOPE, request.version, error_code=error, response_data=data)


class _Enveloped:
    """The request in the envelope. Its answer goes back in an envelope."""

    def __init__(
        self, outer: AnyRequest[shapes.EnvelopeRequest], header: RequestHeader, message: Any, principal: Principal
    ) -> None:
        """`message` has the type Any: it belongs to one of the APIs above."""
        self._outer, self.header, self.message, self.principal = outer, header, message, principal
        self.listener, self.listener_name = outer.listener, outer.listener_name
        self.access: Access | None = None

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def peer_host(self) -> str:
        return self._outer.peer_host

    @property
    def is_open(self) -> bool:
        return self._outer.is_open

    def respond(self, message: Any) -> None:
        """As in Kafka, NOT_CONTROLLER is an error of the envelope, because the forwarding broker looks for it there."""
        header = self.header
        if is_not_controller(message):
            self._outer.respond(_closed(self._outer, ErrorCode.not_controller))
            return
        frame = b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, message))
        self._outer.respond(_closed(self._outer, ErrorCode.none, frame[4:]))  # without the length before the frame

    def take_alone(self) -> None:
        self._outer.take_alone()

    def fail(self, cause: str) -> None:
        self._outer.fail(cause)
