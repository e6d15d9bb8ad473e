"""ExpireDelegationToken (key 40), versions 1-2 (KIP-48): a token ends at another time, or at once.

On a client listener it is forwarded to the controller, in an Envelope that says who asks. Connections that a token let
in go on until their session ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.token_types import ChangedDelegationTokenResponse, ExpireDelegationToken
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
    from broker.wire.shapes import expire_delegation_token as shapes

NO_TIME = -1  # of a refusal, as in Kafka


def refusal(
    services: Services, request: AnyRequest[shapes.ExpireDelegationTokenRequest]
) -> shapes.ExpireDelegationTokenResponse | None:
    return None if may_ask(services, request) else refused(request, ErrorCode.delegation_token_request_not_allowed)


def refused(
    request: AnyRequest[shapes.ExpireDelegationTokenRequest], error: ErrorCode, cause: str | None = None
) -> shapes.ExpireDelegationTokenResponse:
    return response(ApiKey.EXPIRE_DELEGATION_TOKEN, request.version, error_code=error, expiry_timestamp=NO_TIME)


def event(services: Services, request: AnyRequest[shapes.ExpireDelegationTokenRequest]) -> MakeEvent:
    message, requester = request.message, str(request.principal)
    return lambda token: ExpireDelegationToken(
        token=token,
        wall_ms=wall_ms(),
        requester=requester,
        hmac=bytes(message.hmac),
        period_ms=to_ms(message.expiry_time_period),
    )


def answer(
    services: Services,
    request: AnyRequest[shapes.ExpireDelegationTokenRequest],
    result: ChangedDelegationTokenResponse,
) -> shapes.ExpireDelegationTokenResponse:
    return response(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        request.version,
        error_code=result.error_code,
        expiry_timestamp=result.expires_ms,
    )


def _shows(
    image: MetadataImage, message: shapes.ExpireDelegationTokenRequest, answered: shapes.ExpireDelegationTokenResponse
) -> bool:
    """By the new time. That a token is gone cannot be seen: the request names it by its secret."""
    if answered.error_code is not ErrorCode.none or to_ms(message.expiry_time_period) < 0:
        return True
    expires_ms = to_ms(answered.expiry_timestamp)
    return any(each.expires_ms == expires_ms for each in image.delegation_tokens.values())


def _unsure(answered: shapes.ExpireDelegationTokenResponse) -> shapes.ExpireDelegationTokenResponse:
    """A request that was repeated may itself have removed the token that the repetition did not find."""
    if answered.error_code is not ErrorCode.delegation_token_not_found:
        return answered
    return replace(answered, error_code=ErrorCode.request_timed_out)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.ExpireDelegationTokenRequest, shapes.ExpireDelegationTokenResponse] = Forward(
    version=2, failed=refused, is_visible=_shows, repeated=_unsure, is_enveloped=True
)
