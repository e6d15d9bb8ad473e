"""DeleteShareGroupOffsetsRequest (key 92) and its answer, version 0.

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
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str

class DeleteShareGroupOffsetsRequestTopicFields(TypedDict, total=False):
    topic_name: str

@final
@dataclass(frozen=True, kw_only=True)
class DeleteShareGroupOffsetsRequest(Asks[DeleteShareGroupOffsetsResponse]):
    group_id: str
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]

class DeleteShareGroupOffsetsRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[DeleteShareGroupOffsetsRequestTopicFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: UUID | None
    error_code: ErrorCode
    error_message: str | None

class DeleteShareGroupOffsetsResponseTopicFields(TypedDict, total=False):
    topic_name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class DeleteShareGroupOffsetsResponse(Answers[DeleteShareGroupOffsetsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]

class DeleteShareGroupOffsetsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    responses: Iterable[DeleteShareGroupOffsetsResponseTopicFields]
