"""Requests about delegation tokens, and their answers. Values only, as in types.py.

`token` is that of the request, as everywhere. `wall_ms` is the wall clock where the request is decided: tokens carry
times that clients compare with theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NO_TIME = 0  # of an answer with an error, as in Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationToken:
    token: int
    wall_ms: int
    requester: str
    owner: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int  # not above 0: as long as the cluster allows


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
    period_ms: int  # not above 0: as long as the cluster allows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationToken:
    token: int
    wall_ms: int
    requester: str
    hmac: bytes = field(repr=False)
    period_ms: int  # below 0: it is gone at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDelegationTokenResponse:
    """To RenewDelegationToken and ExpireDelegationToken."""

    error_code: int
    expires_ms: int = NO_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpiredTokens:
    """Nobody's request: each node says so at its interval, and the active controller does it."""

    token: int
    wall_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveExpiredTokensResponse:
    error_code: int
    count: int = 0


TokenRequest = CreateDelegationToken | RenewDelegationToken | ExpireDelegationToken | RemoveExpiredTokens
TokenResponse = CreateDelegationTokenResponse | ChangedDelegationTokenResponse | RemoveExpiredTokensResponse
