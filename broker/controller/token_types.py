"""Requests about delegation tokens, and their answers. Values only, as in types.py.

`token` identifies the request, as in all requests to the controller. It is not a delegation token. `wall_ms` is the
wall clock of the node that decides the request, because clients compare a token's times with their own clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NO_TIME = 0  # in an answer with an error, as in Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationToken:
    token: int
    wall_ms: int
    requester: str
    owner: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int  # 0 or less: as long as the cluster allows


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    error_code: int
    token_id: str = ""
    hmac: bytes = field(default=b"", repr=False)
    issued_ms: int = NO_TIME
    expires_ms: int = NO_TIME
    ends_ms: int = NO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationToken:
    token: int
    wall_ms: int
    requester: str
    hmac: bytes = field(repr=False)
    period_ms: int  # 0 or less: as long as the cluster allows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationToken:
    token: int
    wall_ms: int
    requester: str
    hmac: bytes = field(repr=False)
    period_ms: int  # below 0: the token is removed at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDelegationTokenResponse:
    """The answer to RenewDelegationToken and ExpireDelegationToken."""

    error_code: int
    expires_ms: int = NO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpiredTokens:
    """No client sends this. Each node makes it at intervals, and the active controller acts on it."""

    token: int
    wall_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpiredTokensResponse:
    error_code: int
    count: int = 0


TokenRequest = CreateDelegationToken | RenewDelegationToken | ExpireDelegationToken | RemoveExpiredTokens
TokenResponse = CreateDelegationTokenResponse | ChangedDelegationTokenResponse | RemoveExpiredTokensResponse
