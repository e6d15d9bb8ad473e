"""CreateDelegationToken (key 38), versions 1-3 (KIP-48): a token for the client itself or, from version 3 on, for
another owner (KIP-373).

On a client listener it is forwarded to the controller, in an Envelope with the client's principal. An owner that is no
User is refused, and so is such a renewer (Apache Kafka creates a token with such an owner).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.token_types import CreateDelegationToken, CreateDelegationTokenResponse
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.handlers.token_requests import may_ask
from broker.node.net.principal import Principal
from broker.node.net.requests import AnyRequest
from broker.node.process.clock import wall_ms
from broker.security.delegation import USER_TYPE, principal_text
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import create_delegation_token as shapes

NO_TIME = -1  # the times in a refusal, as in Kafka


def owner_of(request: AnyRequest[shapes.CreateDelegationTokenRequest]) -> Principal:
    name = field_or(request.message, "owner_principal_name", None)
    if not name:
        return request.principal
    return Principal(field_or(request.message, "owner_principal_type", None) or "", name)


def refused(
    request: AnyRequest[shapes.CreateDelegationTokenRequest], error: ErrorCode
) -> shapes.CreateDelegationTokenResponse:
    return _made(
        request, CreateDelegationTokenResponse(error_code=error, issued_ms=NO_TIME, expires_ms=NO_TIME, ends_ms=NO_TIME)
    )


def refusal(
    services: Services, request: AnyRequest[shapes.CreateDelegationTokenRequest]
) -> shapes.CreateDelegationTokenResponse | None:
    if not may_ask(services, request):
        return refused(request, ErrorCode.delegation_token_request_not_allowed)
    if any(each.principal_type != USER_TYPE for each in request.message.renewers):
        return refused(request, ErrorCode.invalid_principal_type)
    return None


def event(services: Services, request: AnyRequest[shapes.CreateDelegationTokenRequest]) -> MakeEvent:
    message, requester, owner = request.message, str(request.principal), str(owner_of(request))
    renewers = tuple(principal_text(each.principal_type, each.principal_name) for each in message.renewers)
    return lambda token: CreateDelegationToken(
        token=token,
        wall_ms=wall_ms(),
        requester=requester,
        owner=owner,
        renewers=renewers,
        max_lifetime_ms=to_ms(message.max_lifetime),
    )


def answer(
    services: Services,
    request: AnyRequest[shapes.CreateDelegationTokenRequest],
    result: CreateDelegationTokenResponse,
) -> shapes.CreateDelegationTokenResponse:
    return _made(request, result)


def _made(
    request: AnyRequest[shapes.CreateDelegationTokenRequest], result: CreateDelegationTokenResponse
) -> shapes.CreateDelegationTokenResponse:
    owner = owner_of(request)
    return response(
        ApiKey.CREATE_DELEGATION_TOKEN,
        request.version,
        error_code=result.error_code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=request.principal.kind,
        token_requester_principal_name=request.principal.name,
        issue_timestamp=result.issued_ms,
        expiry_timestamp=result.expires_ms,
        max_timestamp=result.ends_ms,
        token_id=result.token_id,
        hmac=result.hmac,
    )


def _failed(
    request: AnyRequest[shapes.CreateDelegationTokenRequest], error: ErrorCode, cause: str | None
) -> shapes.CreateDelegationTokenResponse:
    return refused(request, error)


def _shows(
    image: MetadataImage,
    message: shapes.CreateDelegationTokenRequest,
    answered: shapes.CreateDelegationTokenResponse,
) -> bool:
    return answered.error_code is not ErrorCode.none or answered.token_id in image.delegation_tokens


CONTROLLER = ControllerApi(event=event, answer=answer)
# If the request was repeated, there may be two tokens. Nobody knows the secret of the first one, and it expires.
FORWARD: Forward[shapes.CreateDelegationTokenRequest, shapes.CreateDelegationTokenResponse] = Forward(
    version=3, failed=_failed, is_visible=_shows, is_enveloped=True
)
