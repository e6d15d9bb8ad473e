"""DeleteTopicsRequest (key 20) and its answer, versions 1-6.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class DeleteTopicState:
    name: str | None
    topic_id: UUID | None

class DeleteTopicStateFields(TypedDict, total=False):
    name: str | None
    topic_id: UUID | None

@final
@dataclass(frozen=True, kw_only=True)
class DeleteTopicsRequest(Asks[DeleteTopicsResponse]):
    topic_names: tuple[str, ...]  # until version 5
    timeout: timedelta
    topics: tuple[DeleteTopicState, ...]  # since version 6

class DeleteTopicsRequestFields(TypedDict, total=False):
    topic_names: Iterable[str]  # until version 5
    timeout: timedelta | int
    topics: Iterable[DeleteTopicStateFields]  # since version 6

@final
@dataclass(frozen=True, kw_only=True)
class DeletableTopicResult:
    name: str | None
    error_code: ErrorCode
    error_message: str | None  # since version 5
    topic_id: UUID | None  # since version 6

class DeletableTopicResultFields(TypedDict, total=False):
    name: str | None
    error_code: int
    error_message: str | None  # since version 5
    topic_id: UUID | None  # since version 6

@final
@dataclass(frozen=True, kw_only=True)
class DeleteTopicsResponse(Answers[DeleteTopicsRequest]):
    throttle_time: timedelta
    responses: tuple[DeletableTopicResult, ...]

class DeleteTopicsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    responses: Iterable[DeletableTopicResultFields]
