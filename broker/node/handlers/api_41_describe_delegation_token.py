"""DescribeDelegationToken (key 41), versions 1-3 (KIP-48): tokens that the client owns, may renew, or may describe.

The answer contains their secrets, as in Kafka. An expired token is listed until it is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.handlers.token_requests import may_ask
from broker.node.net.requests import AnyRequest
from broker.security.acls import Operation, ResourceType
from broker.security.delegation import DelegationToken, principal_parts, principal_text
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_delegation_token as shapes


def handle(services: Services, request: AnyRequest[shapes.DescribeDelegationTokenRequest]) -> None:
    error, tokens = ErrorCode.none, list[DelegationToken]()
    if not may_ask(services, request):
        error = ErrorCode.delegation_token_request_not_allowed
    elif not services.token_keys.is_enabled:
        error = ErrorCode.delegation_token_auth_disabled
    else:
        tokens = _told(services, request)
    request.respond(
        response(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            request.version,
            error_code=error,
            tokens=[_described(services, each) for each in tokens],
        )
    )


def _told(services: Services, request: AnyRequest[shapes.DescribeDelegationTokenRequest]) -> list[DelegationToken]:
    """The tokens for the answer. Without owners in the request these are the tokens of everybody. An empty list of
    owners asks for nothing."""
    asked = request.message.owners
    owners = None if asked is None else {principal_text(each.principal_type, each.principal_name) for each in asked}
    return [
        each
        for each in services.metadata.image.delegation_tokens.values()
        if (owners is None or not owners.isdisjoint((each.owner, *each.renewers))) and _may_know(request, each)
    ]


def _may_know(request: AnyRequest[shapes.DescribeDelegationTokenRequest], token: DelegationToken) -> bool:
    access = request.access
    return (
        access is None
        or token.may_be_changed_by(str(request.principal))
        or access.may(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or access.may(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(services: Services, token: DelegationToken) -> shapes.DescribedDelegationTokenFields:
    (kind, name), (requester_kind, requester) = principal_parts(token.owner), principal_parts(token.requester)
    renewers: list[shapes.DescribedDelegationTokenRenewerFields] = []
    for each in token.renewers:
        renewer_kind, renewer = principal_parts(each)
        renewers.append({"principal_type": renewer_kind, "principal_name": renewer})
    return {
        "principal_type": kind,
        "principal_name": name,
        "token_requester_principal_type": requester_kind,
        "token_requester_principal_name": requester,
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.ends_ms,
        "token_id": token.token_id,
        "hmac": services.token_keys.known_hmac(services.metadata.image.delegation_tokens, token.token_id),
        "renewers": renewers,
    }
