"""DeleteGroupsRequest (key 42) and its answer, versions 0-2.

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
class DeleteGroupsRequest(Asks[DeleteGroupsResponse]):
    groups_names: tuple[str, ...]

class DeleteGroupsRequestFields(TypedDict, total=False):
    groups_names: Iterable[str]

@final
@dataclass(frozen=True, kw_only=True)
class DeletableGroupResult:
    group_id: str
    error_code: ErrorCode

class DeletableGroupResultFields(TypedDict, total=False):
    group_id: str
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteGroupsResponse(Answers[DeleteGroupsRequest]):
    throttle_time: timedelta
    results: tuple[DeletableGroupResult, ...]

class DeleteGroupsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[DeletableGroupResultFields]
