"""DescribeUserScramCredentialsRequest (key 50) and its answer, version 0.

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
class UserName:
    name: str

class UserNameFields(TypedDict, total=False):
    name: str

@final
@dataclass(frozen=True, kw_only=True)
class DescribeUserScramCredentialsRequest(Asks[DescribeUserScramCredentialsResponse]):
    users: tuple[UserName, ...] | None

class DescribeUserScramCredentialsRequestFields(TypedDict, total=False):
    users: Iterable[UserNameFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class CredentialInfo:
    mechanism: int
    iterations: int

class CredentialInfoFields(TypedDict, total=False):
    mechanism: int
    iterations: int

@final
@dataclass(frozen=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]

class DescribeUserScramCredentialsResultFields(TypedDict, total=False):
    user: str
    error_code: int
    error_message: str | None
    credential_infos: Iterable[CredentialInfoFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeUserScramCredentialsResponse(Answers[DescribeUserScramCredentialsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]

class DescribeUserScramCredentialsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    results: Iterable[DescribeUserScramCredentialsResultFields]
