"""The admin of delegation tokens (KIP-48): create, renew, expire, describe. Reached as `Admin(..).tokens`.

The holder of a token logs in by SCRAM with `DelegationToken.jaas_config`. A client that itself logged in with a token
cannot ask for tokens. Each call is bounded by default.api.timeout.ms.
Shown by tests/broker_node/test_node_delegation_tokens.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.core.errors import KafkaError
from broker.client.question import Question, raise_error
from broker.wire.apis import ApiKey
from broker.wire.messages import field_or, request, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.create_delegation_token import (
        CreatableRenewersFields,
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )
    from broker.wire.shapes.describe_delegation_token import (
        DescribedDelegationToken,
        DescribeDelegationTokenOwnerFields,
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )
    from broker.wire.shapes.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from broker.wire.shapes.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

Result = TypeVar("Result")
AS_ALLOWED: Final = -1  # a lifetime or a period: as long as the cluster allows
AT_ONCE: Final = -1  # a period after which a token expires
_WITH_OWNER: Final = 3  # the version of CreateDelegationToken that has an owner
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """Principals are texts like `User:alice`. Times are in ms of the wall clock. `hmac` is the secret."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str  # equal to the owner if the broker does not tell the requester
    issued_ms: int
    expires_ms: int
    ends_ms: int  # the token cannot be renewed beyond this time
    renewers: tuple[str, ...] = ()

    @property
    def jaas_config(self) -> str:
        """The value of `sasl.jaas.config` that logs in with this token. `sasl.mechanism` must be SCRAM-SHA-256 or
        SCRAM-SHA-512."""
        password = base64.b64encode(self.hmac).decode()
        return f'{_LOGIN_MODULE} required username="{self.token_id}" password="{password}" tokenauth="true";'


class TokenAdmin:
    def __init__(self, client: BlockingClient, timeout_ms: int) -> None:
        self._client, self._timeout_ms = client, timeout_ms

    def create(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = AS_ALLOWED
    ) -> DelegationToken:
        """Principals are texts like `User:alice`. If `owner` is None, the client itself is the owner. For another
        owner, the client needs CREATE_TOKENS on that user (KIP-373).

        If the answer is lost, a token may exist whose secret nobody knows. It expires.
        """
        return self._ask(_created(owner, renewers, max_lifetime_ms))

    def renew(self, hmac: bytes, *, period_ms: int = AS_ALLOWED) -> int:
        """Returns the new time of expiry, in ms of the wall clock. Only the owner and the renewers of the token may
        renew it."""
        return self._ask(_renewed(hmac, period_ms))

    def expire(self, hmac: bytes, *, period_ms: int = AT_ONCE) -> int:
        """As `renew`, for a token that must expire sooner. With a period below 0 the token is deleted at once, and
        nobody can log in with it any more."""
        return self._ask(_expired(hmac, period_ms))

    def describe(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens that these principals own or may renew (None: all principals). Tokens that the client may not
        describe are left out."""
        return self._ask(_described(owners))

    def _ask(self, question: Question[Result]) -> Result:
        return self._client.ask(None, question, now_ms() + self._timeout_ms)


def _parts(principal: str) -> tuple[str, str]:
    kind, separator, name = principal.partition(":")
    if not kind or not separator or not name:
        raise KafkaError(-1, f"expected a principal as in User:alice, got {principal!r}", name="LOCAL_PRINCIPAL")
    return kind, name


def _created(owner: str | None, renewers: Sequence[str], max_lifetime_ms: int) -> Question[DelegationToken]:
    kind, name = (None, None) if owner is None else _parts(owner)
    named: list[CreatableRenewersFields] = []
    for renewer_kind, renewer in map(_parts, renewers):
        named.append({"principal_type": renewer_kind, "principal_name": renewer})

    def build(version: int) -> CreateDelegationTokenRequest:
        return request(
            ApiKey.CREATE_DELEGATION_TOKEN,
            version,
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=named,
            max_lifetime=max_lifetime_ms,
        )

    def parse(message: CreateDelegationTokenResponse) -> DelegationToken:
        raise_error(message.error_code, None, "delegation token")
        requester_kind = field_or(message, "token_requester_principal_type", message.principal_type)
        requester = field_or(message, "token_requester_principal_name", message.principal_name)
        return DelegationToken(
            token_id=message.token_id,
            hmac=bytes(message.hmac),
            owner=f"{message.principal_type}:{message.principal_name}",
            requester=f"{requester_kind}:{requester}",
            issued_ms=to_ms(message.issue_timestamp),
            expires_ms=to_ms(message.expiry_timestamp),
            ends_ms=to_ms(message.max_timestamp),
            renewers=tuple(renewers),
        )

    lowest = 1 if owner is None else _WITH_OWNER
    return Question(ApiKey.CREATE_DELEGATION_TOKEN, build, parse, lowest=lowest)


def _renewed(hmac: bytes, period_ms: int) -> Question[int]:
    def build(version: int) -> RenewDelegationTokenRequest:
        return request(ApiKey.RENEW_DELEGATION_TOKEN, version, hmac=hmac, renew_period=period_ms)

    def parse(message: RenewDelegationTokenResponse) -> int:
        raise_error(message.error_code, None, "delegation token")
        return to_ms(message.expiry_timestamp)

    return Question(ApiKey.RENEW_DELEGATION_TOKEN, build, parse, lowest=1)


def _expired(hmac: bytes, period_ms: int) -> Question[int]:
    def build(version: int) -> ExpireDelegationTokenRequest:
        return request(ApiKey.EXPIRE_DELEGATION_TOKEN, version, hmac=hmac, expiry_time_period=period_ms)

    def parse(message: ExpireDelegationTokenResponse) -> int:
        raise_error(message.error_code, None, "delegation token")
        return to_ms(message.expiry_timestamp)

    return Question(ApiKey.EXPIRE_DELEGATION_TOKEN, build, parse, lowest=1)


def _described(owners: Iterable[str] | None) -> Question[list[DelegationToken]]:
    named: list[DescribeDelegationTokenOwnerFields] | None = None
    if owners is not None:
        named = [{"principal_type": kind, "principal_name": name} for kind, name in map(_parts, owners)]

    def build(version: int) -> DescribeDelegationTokenRequest:
        return request(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=named)

    def parse(message: DescribeDelegationTokenResponse) -> list[DelegationToken]:
        raise_error(message.error_code, None, "delegation tokens")
        return [_told(each) for each in message.tokens]

    return Question(ApiKey.DESCRIBE_DELEGATION_TOKEN, build, parse, lowest=1)


def _told(token: DescribedDelegationToken) -> DelegationToken:
    requester_kind = field_or(token, "token_requester_principal_type", token.principal_type)
    requester = field_or(token, "token_requester_principal_name", token.principal_name)
    return DelegationToken(
        token_id=token.token_id,
        hmac=bytes(token.hmac),
        owner=f"{token.principal_type}:{token.principal_name}",
        requester=f"{requester_kind}:{requester}",
        issued_ms=token.issue_timestamp,
        expires_ms=token.expiry_timestamp,
        ends_ms=token.max_timestamp,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
    )
