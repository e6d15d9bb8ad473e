"""Requests that make, enlarge and delete topics, and their answers. Values only, as in types.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    partitions: int = -1  # -1: num.partitions
    replication_factor: int = -1  # -1: default.replication.factor
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # if given, the two above are -1
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    token: int
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: str
    error_code: int
    error_message: str | None
    topic_id: UUID | None
    partitions: int  # -1 on error
    replication_factor: int  # -1 on error
    configs: Mapping[str, str]  # overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    error_code: int  # NOT_CONTROLLER: then topics is empty
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    token: int
    names: tuple[str, ...]
    topic_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    name: str | None
    topic_id: UUID | None
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    error_code: int
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """The topic is to have `count` partitions in total. `assignments` places the new partitions. None: the controller
    places them."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    token: int
    topics: tuple[NewPartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    topic: str
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse:
    error_code: int  # NOT_CONTROLLER: then topics is empty
    topics: tuple[TopicOutcome, ...]
