"""RenewDelegationTokenRequest (key 39) and its answer, versions 1-2.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class RenewDelegationTokenRequest(Asks[RenewDelegationTokenResponse]):
    hmac: bytes
    renew_period: timedelta

class RenewDelegationTokenRequestFields(TypedDict, total=False):
    hmac: bytes
    renew_period: timedelta | int

@final
@dataclass(frozen=True, kw_only=True)
class RenewDelegationTokenResponse(Answers[RenewDelegationTokenRequest]):
    error_code: ErrorCode
    expiry_timestamp: datetime | None
    throttle_time: timedelta

class RenewDelegationTokenResponseFields(TypedDict, total=False):
    error_code: int
    expiry_timestamp: datetime | int | None
    throttle_time: timedelta | int
