"""ExpireDelegationToken (key 40), versions 1-2 (KIP-48): a token expires at another time, or at once.

On a client listener it is forwarded to the controller, in an Envelope with the client's principal. A connection that
authenticated with the token stays open until its session ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.token_types import ExpireDelegationToken
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.handlers.token_requests import TokenChange, change_event, shows_end
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import expire_delegation_token as shapes


def _told(
    request: AnyRequest[shapes.ExpireDelegationTokenRequest], error_code: int, expires_ms: int
) -> shapes.ExpireDelegationTokenResponse:
    return response(ApiKey.EXPIRE_DELEGATION_TOKEN, request.version, error_code=error_code, expiry_timestamp=expires_ms)


_CHANGE: TokenChange[shapes.ExpireDelegationTokenRequest] = TokenChange(told=_told)
refusal, refused = _CHANGE.refusal, _CHANGE.refused


def event(services: Services, request: AnyRequest[shapes.ExpireDelegationTokenRequest]) -> MakeEvent:
    message = request.message
    return change_event(ExpireDelegationToken, request, hmac=message.hmac, period=message.expiry_time_period)


def _shows(
    image: MetadataImage, message: shapes.ExpireDelegationTokenRequest, answered: shapes.ExpireDelegationTokenResponse
) -> bool:
    """Whether the image shows the new time of expiry. If the token was removed, the image cannot show it, because the
    request names the token by its secret."""
    if answered.error_code is not ErrorCode.none or to_ms(message.expiry_time_period) < 0:
        return True
    return shows_end(image, answered.expiry_timestamp)


def _unsure(answered: shapes.ExpireDelegationTokenResponse) -> shapes.ExpireDelegationTokenResponse:
    """If the request was repeated, the first attempt may have removed the token that the repetition did not find."""
    if answered.error_code is not ErrorCode.delegation_token_not_found:
        return answered
    return replace(answered, error_code=ErrorCode.request_timed_out)


CONTROLLER = ControllerApi(event=event, answer=_CHANGE.answer)
FORWARD: Forward[shapes.ExpireDelegationTokenRequest, shapes.ExpireDelegationTokenResponse] = Forward(
    version=2, failed=refused, is_visible=_shows, repeated=_unsure, is_enveloped=True
)
