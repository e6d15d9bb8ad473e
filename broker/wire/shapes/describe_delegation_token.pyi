"""DescribeDelegationTokenRequest (key 41) and its answer, versions 1-3.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class DescribeDelegationTokenOwner:
    principal_type: str
    principal_name: str

class DescribeDelegationTokenOwnerFields(TypedDict, total=False):
    principal_type: str
    principal_name: str

@final
@dataclass(frozen=True, kw_only=True)
class DescribeDelegationTokenRequest(Asks[DescribeDelegationTokenResponse]):
    owners: tuple[DescribeDelegationTokenOwner, ...] | None

class DescribeDelegationTokenRequestFields(TypedDict, total=False):
    owners: Iterable[DescribeDelegationTokenOwnerFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribedDelegationTokenRenewer:
    principal_type: str
    principal_name: str

class DescribedDelegationTokenRenewerFields(TypedDict, total=False):
    principal_type: str
    principal_name: str

@final
@dataclass(frozen=True, kw_only=True)
class DescribedDelegationToken:
    principal_type: str
    principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: tuple[DescribedDelegationTokenRenewer, ...]
    token_requester_principal_type: str  # since version 3
    token_requester_principal_name: str  # since version 3

class DescribedDelegationTokenFields(TypedDict, total=False):
    principal_type: str
    principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: Iterable[DescribedDelegationTokenRenewerFields]
    token_requester_principal_type: str  # since version 3
    token_requester_principal_name: str  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class DescribeDelegationTokenResponse(Answers[DescribeDelegationTokenRequest]):
    error_code: ErrorCode
    tokens: tuple[DescribedDelegationToken, ...]
    throttle_time: timedelta

class DescribeDelegationTokenResponseFields(TypedDict, total=False):
    error_code: int
    tokens: Iterable[DescribedDelegationTokenFields]
    throttle_time: timedelta | int
