"""AlterUserScramCredentialsRequest (key 51) and its answer, version 0.

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
class ScramCredentialDeletion:
    name: str
    mechanism: int

class ScramCredentialDeletionFields(TypedDict, total=False):
    name: str
    mechanism: int

@final
@dataclass(frozen=True, kw_only=True)
class ScramCredentialUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

class ScramCredentialUpsertionFields(TypedDict, total=False):
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

@final
@dataclass(frozen=True, kw_only=True)
class AlterUserScramCredentialsRequest(Asks[AlterUserScramCredentialsResponse]):
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]

class AlterUserScramCredentialsRequestFields(TypedDict, total=False):
    deletions: Iterable[ScramCredentialDeletionFields]
    upsertions: Iterable[ScramCredentialUpsertionFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterUserScramCredentialsResult:
    user: str
    error_code: ErrorCode
    error_message: str | None

class AlterUserScramCredentialsResultFields(TypedDict, total=False):
    user: str
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class AlterUserScramCredentialsResponse(Answers[AlterUserScramCredentialsRequest]):
    throttle_time: timedelta
    results: tuple[AlterUserScramCredentialsResult, ...]

class AlterUserScramCredentialsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[AlterUserScramCredentialsResultFields]
