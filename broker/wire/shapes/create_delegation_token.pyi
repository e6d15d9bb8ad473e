"""CreateDelegationTokenRequest (key 38) and its answer, versions 1-3.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class CreatableRenewers:
    principal_type: str
    principal_name: str

class CreatableRenewersFields(TypedDict, total=False):
    principal_type: str
    principal_name: str

@final
@dataclass(frozen=True, kw_only=True)
class CreateDelegationTokenRequest(Asks[CreateDelegationTokenResponse]):
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime: timedelta
    owner_principal_type: str | None  # since version 3
    owner_principal_name: str | None  # since version 3

class CreateDelegationTokenRequestFields(TypedDict, total=False):
    renewers: Iterable[CreatableRenewersFields]
    max_lifetime: timedelta | int
    owner_principal_type: str | None  # since version 3
    owner_principal_name: str | None  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class CreateDelegationTokenResponse(Answers[CreateDelegationTokenRequest]):
    error_code: ErrorCode
    principal_type: str
    principal_name: str
    issue_timestamp: datetime | None
    expiry_timestamp: datetime | None
    max_timestamp: datetime | None
    token_id: str
    hmac: bytes
    throttle_time: timedelta
    token_requester_principal_type: str  # since version 3
    token_requester_principal_name: str  # since version 3

class CreateDelegationTokenResponseFields(TypedDict, total=False):
    error_code: int
    principal_type: str
    principal_name: str
    issue_timestamp: datetime | int | None
    expiry_timestamp: datetime | int | None
    max_timestamp: datetime | int | None
    token_id: str
    hmac: bytes
    throttle_time: timedelta | int
    token_requester_principal_type: str  # since version 3
    token_requester_principal_name: str  # since version 3
