"""DescribeAclsRequest (key 29) and its answer, versions 1-3.

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
class DescribeAclsRequest(Asks[DescribeAclsResponse]):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

class DescribeAclsRequestFields(TypedDict, total=False):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

@final
@dataclass(frozen=True, kw_only=True)
class AclDescription:
    principal: str
    host: str
    operation: int
    permission_type: int

class AclDescriptionFields(TypedDict, total=False):
    principal: str
    host: str
    operation: int
    permission_type: int

@final
@dataclass(frozen=True, kw_only=True)
class DescribeAclsResource:
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: tuple[AclDescription, ...]

class DescribeAclsResourceFields(TypedDict, total=False):
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: Iterable[AclDescriptionFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeAclsResponse(Answers[DescribeAclsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]

class DescribeAclsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    resources: Iterable[DescribeAclsResourceFields]
