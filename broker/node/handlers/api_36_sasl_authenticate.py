"""SaslAuthenticate (key 36), versions 0-2: one token of a mechanism, and the lifetime of the session (KIP-368).

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
    from broker.wire.shapes import sasl_authenticate as shapes

_MESSAGE = "SaslAuthenticate request received after successful authentication"


def handle(services: Services, request: AnyRequest[shapes.SaslAuthenticateRequest]) -> None:
    request.respond(
        response(
            ApiKey.SASL_AUTHENTICATE,
            request.version,
            error_code=ErrorCode.illegal_sasl_state,
            error_message=_MESSAGE,
            auth_bytes=b"",
        )
    )
