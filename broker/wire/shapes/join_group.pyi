"""JoinGroupRequest (key 11) and its answer, versions 0-9.

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
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes

class JoinGroupRequestProtocolFields(TypedDict, total=False):
    name: str
    metadata: bytes

@final
@dataclass(frozen=True, kw_only=True)
class JoinGroupRequest(Asks[JoinGroupResponse]):
    group_id: str
    session_timeout: timedelta
    member_id: str
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    rebalance_timeout: timedelta  # since version 1
    group_instance_id: str | None  # since version 5
    reason: str | None  # since version 8

class JoinGroupRequestFields(TypedDict, total=False):
    group_id: str
    session_timeout: timedelta | int
    member_id: str
    protocol_type: str
    protocols: Iterable[JoinGroupRequestProtocolFields]
    rebalance_timeout: timedelta | int  # since version 1
    group_instance_id: str | None  # since version 5
    reason: str | None  # since version 8

@final
@dataclass(frozen=True, kw_only=True)
class JoinGroupResponseMember:
    member_id: str
    metadata: bytes
    group_instance_id: str | None  # since version 5

class JoinGroupResponseMemberFields(TypedDict, total=False):
    member_id: str
    metadata: bytes
    group_instance_id: str | None  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class JoinGroupResponse(Answers[JoinGroupRequest]):
    error_code: ErrorCode
    generation_id: int
    protocol_name: str | None
    leader: str
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]
    throttle_time: timedelta  # since version 2
    protocol_type: str | None  # since version 7
    skip_assignment: bool  # since version 9

class JoinGroupResponseFields(TypedDict, total=False):
    error_code: int
    generation_id: int
    protocol_name: str | None
    leader: str
    member_id: str
    members: Iterable[JoinGroupResponseMemberFields]
    throttle_time: timedelta | int  # since version 2
    protocol_type: str | None  # since version 7
    skip_assignment: bool  # since version 9
