"""LeaveGroupRequest (key 13) and its answer, versions 0-5.

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
class MemberIdentity:
    member_id: str
    group_instance_id: str | None
    reason: str | None  # since version 5

class MemberIdentityFields(TypedDict, total=False):
    member_id: str
    group_instance_id: str | None
    reason: str | None  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class LeaveGroupRequest(Asks[LeaveGroupResponse]):
    group_id: str
    member_id: str  # until version 2
    members: tuple[MemberIdentity, ...]  # since version 3

class LeaveGroupRequestFields(TypedDict, total=False):
    group_id: str
    member_id: str  # until version 2
    members: Iterable[MemberIdentityFields]  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class MemberResponse:
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode

class MemberResponseFields(TypedDict, total=False):
    member_id: str
    group_instance_id: str | None
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class LeaveGroupResponse(Answers[LeaveGroupRequest]):
    error_code: ErrorCode
    throttle_time: timedelta  # since version 1
    members: tuple[MemberResponse, ...]  # since version 3

class LeaveGroupResponseFields(TypedDict, total=False):
    error_code: int
    throttle_time: timedelta | int  # since version 1
    members: Iterable[MemberResponseFields]  # since version 3
