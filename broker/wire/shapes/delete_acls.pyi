"""DeleteAclsRequest (key 31) and its answer, versions 1-3.

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
class DeleteAclsFilter:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

class DeleteAclsFilterFields(TypedDict, total=False):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteAclsRequest(Asks[DeleteAclsResponse]):
    filters: tuple[DeleteAclsFilter, ...]

class DeleteAclsRequestFields(TypedDict, total=False):
    filters: Iterable[DeleteAclsFilterFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteAclsMatchingAcl:
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

class DeleteAclsMatchingAclFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteAclsFilterResult:
    error_code: ErrorCode
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]

class DeleteAclsFilterResultFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    matching_acls: Iterable[DeleteAclsMatchingAclFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteAclsResponse(Answers[DeleteAclsRequest]):
    throttle_time: timedelta
    filter_results: tuple[DeleteAclsFilterResult, ...]

class DeleteAclsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    filter_results: Iterable[DeleteAclsFilterResultFields]
