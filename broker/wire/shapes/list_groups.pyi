"""ListGroupsRequest (key 16) and its answer, versions 0-5.

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
class ListGroupsRequest(Asks[ListGroupsResponse]):
    states_filter: tuple[str, ...]  # since version 4
    types_filter: tuple[str, ...]  # since version 5

class ListGroupsRequestFields(TypedDict, total=False):
    states_filter: Iterable[str]  # since version 4
    types_filter: Iterable[str]  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str  # since version 4
    group_type: str  # since version 5

class ListedGroupFields(TypedDict, total=False):
    group_id: str
    protocol_type: str
    group_state: str  # since version 4
    group_type: str  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class ListGroupsResponse(Answers[ListGroupsRequest]):
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]
    throttle_time: timedelta  # since version 1

class ListGroupsResponseFields(TypedDict, total=False):
    error_code: int
    groups: Iterable[ListedGroupFields]
    throttle_time: timedelta | int  # since version 1
