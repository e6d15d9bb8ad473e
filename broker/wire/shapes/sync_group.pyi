"""SyncGroupRequest (key 14) and its answer, versions 0-5.

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
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes

class SyncGroupRequestAssignmentFields(TypedDict, total=False):
    member_id: str
    assignment: bytes

@final
@dataclass(frozen=True, kw_only=True)
class SyncGroupRequest(Asks[SyncGroupResponse]):
    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[SyncGroupRequestAssignment, ...]
    group_instance_id: str | None  # since version 3
    protocol_type: str | None  # since version 5
    protocol_name: str | None  # since version 5

class SyncGroupRequestFields(TypedDict, total=False):
    group_id: str
    generation_id: int
    member_id: str
    assignments: Iterable[SyncGroupRequestAssignmentFields]
    group_instance_id: str | None  # since version 3
    protocol_type: str | None  # since version 5
    protocol_name: str | None  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class SyncGroupResponse(Answers[SyncGroupRequest]):
    error_code: ErrorCode
    assignment: bytes
    throttle_time: timedelta  # since version 1
    protocol_type: str | None  # since version 5
    protocol_name: str | None  # since version 5

class SyncGroupResponseFields(TypedDict, total=False):
    error_code: int
    assignment: bytes
    throttle_time: timedelta | int  # since version 1
    protocol_type: str | None  # since version 5
    protocol_name: str | None  # since version 5
