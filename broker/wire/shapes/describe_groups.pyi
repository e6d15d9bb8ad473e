"""DescribeGroupsRequest (key 15) and its answer, versions 0-6.

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
class DescribeGroupsRequest(Asks[DescribeGroupsResponse]):
    groups: tuple[str, ...]
    include_authorized_operations: bool  # since version 3

class DescribeGroupsRequestFields(TypedDict, total=False):
    groups: Iterable[str]
    include_authorized_operations: bool  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class DescribedGroupMember:
    member_id: str
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes
    group_instance_id: str | None  # since version 4

class DescribedGroupMemberFields(TypedDict, total=False):
    member_id: str
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes
    group_instance_id: str | None  # since version 4

@final
@dataclass(frozen=True, kw_only=True)
class DescribedGroup:
    error_code: ErrorCode
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: int  # since version 3
    error_message: str | None  # since version 6

class DescribedGroupFields(TypedDict, total=False):
    error_code: int
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Iterable[DescribedGroupMemberFields]
    authorized_operations: int  # since version 3
    error_message: str | None  # since version 6

@final
@dataclass(frozen=True, kw_only=True)
class DescribeGroupsResponse(Answers[DescribeGroupsRequest]):
    groups: tuple[DescribedGroup, ...]
    throttle_time: timedelta  # since version 1

class DescribeGroupsResponseFields(TypedDict, total=False):
    groups: Iterable[DescribedGroupFields]
    throttle_time: timedelta | int  # since version 1
