"""CreatePartitionsRequest (key 37) and its answer, versions 0-3.

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
class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...]

class CreatePartitionsAssignmentFields(TypedDict, total=False):
    broker_ids: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class CreatePartitionsTopic:
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None

class CreatePartitionsTopicFields(TypedDict, total=False):
    name: str
    count: int
    assignments: Iterable[CreatePartitionsAssignmentFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class CreatePartitionsRequest(Asks[CreatePartitionsResponse]):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: timedelta
    validate_only: bool

class CreatePartitionsRequestFields(TypedDict, total=False):
    topics: Iterable[CreatePartitionsTopicFields]
    timeout: timedelta | int
    validate_only: bool

@final
@dataclass(frozen=True, kw_only=True)
class CreatePartitionsTopicResult:
    name: str
    error_code: ErrorCode
    error_message: str | None

class CreatePartitionsTopicResultFields(TypedDict, total=False):
    name: str
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class CreatePartitionsResponse(Answers[CreatePartitionsRequest]):
    throttle_time: timedelta
    results: tuple[CreatePartitionsTopicResult, ...]

class CreatePartitionsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[CreatePartitionsTopicResultFields]
