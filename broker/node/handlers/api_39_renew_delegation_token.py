"""RenewDelegationToken (key 39), versions 1-2 (KIP-48): a token expires later, at most at the end of its maximum
lifetime.

On a client listener it is forwarded to the controller, in an Envelope with the client's principal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.token_types import RenewDelegationToken
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.handlers.token_requests import TokenChange, change_event, shows_end
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import renew_delegation_token as shapes


def _told(
    request: AnyRequest[shapes.RenewDelegationTokenRequest], error_code: int, expires_ms: int
) -> shapes.RenewDelegationTokenResponse:
    return response(ApiKey.RENEW_DELEGATION_TOKEN, request.version, error_code=error_code, expiry_timestamp=expires_ms)


_CHANGE: TokenChange[shapes.RenewDelegationTokenRequest] = TokenChange(told=_told)
refusal, refused = _CHANGE.refusal, _CHANGE.refused


def event(services: Services, request: AnyRequest[shapes.RenewDelegationTokenRequest]) -> MakeEvent:
    message = request.message
    return change_event(RenewDelegationToken, request, hmac=message.hmac, period=message.renew_period)


def _shows(
    image: MetadataImage, message: shapes.RenewDelegationTokenRequest, answered: shapes.RenewDelegationTokenResponse
) -> bool:
    """Whether the image shows the new time of expiry."""
    if answered.error_code is not ErrorCode.none:
        return True
    return shows_end(image, answered.expiry_timestamp)


CONTROLLER = ControllerApi(event=event, answer=_CHANGE.answer)
FORWARD: Forward[shapes.RenewDelegationTokenRequest, shapes.RenewDelegationTokenResponse] = Forward(
    version=2, failed=refused, is_visible=_shows, is_enveloped=True
)
