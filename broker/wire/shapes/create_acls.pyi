"""CreateAclsRequest (key 30) and its answer, versions 1-3.

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
class AclCreation:
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

class AclCreationFields(TypedDict, total=False):
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

@final
@dataclass(frozen=True, kw_only=True)
class CreateAclsRequest(Asks[CreateAclsResponse]):
    creations: tuple[AclCreation, ...]

class CreateAclsRequestFields(TypedDict, total=False):
    creations: Iterable[AclCreationFields]

@final
@dataclass(frozen=True, kw_only=True)
class AclCreationResult:
    error_code: ErrorCode
    error_message: str | None

class AclCreationResultFields(TypedDict, total=False):
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class CreateAclsResponse(Answers[CreateAclsRequest]):
    throttle_time: timedelta
    results: tuple[AclCreationResult, ...]

class CreateAclsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[AclCreationResultFields]
