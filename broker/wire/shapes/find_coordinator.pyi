"""FindCoordinatorRequest (key 10) and its answer, versions 0-6.

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
class FindCoordinatorRequest(Asks[FindCoordinatorResponse]):
    key: str  # until version 3
    key_type: int  # since version 1
    coordinator_keys: tuple[str, ...]  # since version 4

class FindCoordinatorRequestFields(TypedDict, total=False):
    key: str  # until version 3
    key_type: int  # since version 1
    coordinator_keys: Iterable[str]  # since version 4

@final
@dataclass(frozen=True, kw_only=True)
class Coordinator:
    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None

class CoordinatorFields(TypedDict, total=False):
    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class FindCoordinatorResponse(Answers[FindCoordinatorRequest]):
    error_code: ErrorCode  # until version 3
    node_id: int  # until version 3
    host: str  # until version 3
    port: int  # until version 3
    throttle_time: timedelta  # since version 1
    error_message: str | None  # versions 1 to 3
    coordinators: tuple[Coordinator, ...]  # since version 4

class FindCoordinatorResponseFields(TypedDict, total=False):
    error_code: int  # until version 3
    node_id: int  # until version 3
    host: str  # until version 3
    port: int  # until version 3
    throttle_time: timedelta | int  # since version 1
    error_message: str | None  # versions 1 to 3
    coordinators: Iterable[CoordinatorFields]  # since version 4
