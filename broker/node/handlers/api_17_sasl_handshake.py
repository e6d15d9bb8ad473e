"""SaslHandshake (key 17), versions 0-1: chooses the mechanism by which the client authenticates.

On a listener with SASL, net/authentication.py answers it before it reaches this handler. A request that reaches this
handler is refused with ILLEGAL_SASL_STATE, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import sasl_handshake as shapes


def handle(services: Services, request: AnyRequest[shapes.SaslHandshakeRequest]) -> None:
    error = ErrorCode.illegal_sasl_state
    request.respond(response(ApiKey.SASL_HANDSHAKE, request.version, error_code=error, mechanisms=[]))
