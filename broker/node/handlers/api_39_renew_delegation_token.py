"""RenewDelegationToken (key 39), versions 1-2 (KIP-48): a token lives longer, up to its maximum.

On a client listener it is forwarded to the controller, in an Envelope that says who asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.token_types import ChangedDelegationTokenResponse, RenewDelegationToken
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.handlers.token_requests import may_ask
from broker.node.net.requests import AnyRequest
from broker.node.process.clock import wall_ms
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import renew_delegation_token as shapes

NO_TIME = -1  # of a refusal, as in Kafka


def refusal(
    services: Services, request: AnyRequest[shapes.RenewDelegationTokenRequest]
) -> shapes.RenewDelegationTokenResponse | None:
    return None if may_ask(services, request) else refused(request, ErrorCode.delegation_token_request_not_allowed)


def refused(
    request: AnyRequest[shapes.RenewDelegationTokenRequest], error: ErrorCode, cause: str | None = None
) -> shapes.RenewDelegationTokenResponse:
    return response(ApiKey.RENEW_DELEGATION_TOKEN, request.version, error_code=error, expiry_timestamp=NO_TIME)


def event(services: Services, request: AnyRequest[shapes.RenewDelegationTokenRequest]) -> MakeEvent:
    message, requester = request.message, str(request.principal)
    return lambda token: RenewDelegationToken(
        token=token,
        wall_ms=wall_ms(),
        requester=requester,
        hmac=bytes(message.hmac),
        period_ms=to_ms(message.renew_period),
    )


def answer(
    services: Services,
    request: AnyRequest[shapes.RenewDelegationTokenRequest],
    result: ChangedDelegationTokenResponse,
) -> shapes.RenewDelegationTokenResponse:
    return response(
        ApiKey.RENEW_DELEGATION_TOKEN,
        request.version,
        error_code=result.error_code,
        expiry_timestamp=result.expires_ms,
    )


def _shows(
    image: MetadataImage, message: shapes.RenewDelegationTokenRequest, answered: shapes.RenewDelegationTokenResponse
) -> bool:
    """By the new time. A request names a token by its secret, which only who has the key can turn into an id."""
    if answered.error_code is not ErrorCode.none:
        return True
    expires_ms = to_ms(answered.expiry_timestamp)
    return any(each.expires_ms == expires_ms for each in image.delegation_tokens.values())


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.RenewDelegationTokenRequest, shapes.RenewDelegationTokenResponse] = Forward(
    version=2, failed=refused, is_visible=_shows, is_enveloped=True
)
