"""The common parts of the handlers of delegation tokens (KIP-48): which clients may use them, and how the expiry of a
token changes.

RenewDelegationToken and ExpireDelegationToken differ in the type of their request, and in what its period means. The
controller decides both, and answers with the new time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic

from broker.controller.image import MetadataImage
from broker.controller.token_types import ChangedDelegationTokenResponse, ExpireDelegationToken, RenewDelegationToken
from broker.node.handlers.rows import MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.principal import ANONYMOUS
from broker.node.net.requests import AnyRequest, Asked
from broker.node.process.clock import wall_ms
from broker.node.settings.security import Protocol, security_of
from broker.wire.errors import ErrorCode
from broker.wire.messages import to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Answers

NO_TIME: Final = -1  # the time in a refusal, as in Kafka


def may_ask(services: Services, request: AnyRequest[Asked]) -> bool:
    """Whether the client may use the APIs of tokens. It must be authenticated, and not by a token: otherwise a stolen
    token could be used to create further ones. On a connection without TLS and SASL no client is authenticated. A
    client of TLS without a certificate is not either."""
    if request.principal.is_by_token:
        return False
    protocol = security_of(services.config, request.listener_name).protocol
    if protocol is Protocol.PLAINTEXT:
        return False
    return protocol is not Protocol.SSL or request.principal != ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChange(Generic[Asked]):
    """The answers of an API that changes the expiry of a token."""

    # takes (request, error code, the new time of expiry in ms)
    told: Callable[[AnyRequest[Asked], int, int], Answers[Asked]]

    def refusal(self, services: Services, request: AnyRequest[Asked]) -> Answers[Asked] | None:
        if may_ask(services, request):
            return None
        return self.refused(request, ErrorCode.delegation_token_request_not_allowed)

    def refused(self, request: AnyRequest[Asked], error: ErrorCode, cause: str | None = None) -> Answers[Asked]:
        return self.told(request, error, NO_TIME)

    def answer(
        self, services: Services, request: AnyRequest[Asked], result: ChangedDelegationTokenResponse
    ) -> Answers[Asked]:
        return self.told(request, result.error_code, result.expires_ms)


def change_event(
    kind: type[RenewDelegationToken] | type[ExpireDelegationToken],
    request: AnyRequest[Asked],
    *,
    hmac: bytes,
    period: timedelta,
) -> MakeEvent:
    requester = str(request.principal)
    return lambda token: kind(
        token=token, wall_ms=wall_ms(), requester=requester, hmac=bytes(hmac), period_ms=to_ms(period)
    )


def shows_end(image: MetadataImage, expiry: datetime | None) -> bool:
    """Whether any token of the image expires at this time. The request names its token by the secret, and only a broker
    that uses the secret key can find the id for it. So the time is compared."""
    expires_ms = to_ms(expiry)
    return any(each.expires_ms == expires_ms for each in image.delegation_tokens.values())
