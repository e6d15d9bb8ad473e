"""DescribeClientQuotasRequest (key 48) and its answer, versions 0-1.

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
class ComponentData:
    entity_type: str
    match_type: int
    match: str | None

class ComponentDataFields(TypedDict, total=False):
    entity_type: str
    match_type: int
    match: str | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribeClientQuotasRequest(Asks[DescribeClientQuotasResponse]):
    components: tuple[ComponentData, ...]
    strict: bool

class DescribeClientQuotasRequestFields(TypedDict, total=False):
    components: Iterable[ComponentDataFields]
    strict: bool

@final
@dataclass(frozen=True, kw_only=True)
class EntityData:
    entity_type: str
    entity_name: str | None

class EntityDataFields(TypedDict, total=False):
    entity_type: str
    entity_name: str | None

@final
@dataclass(frozen=True, kw_only=True)
class ValueData:
    key: str
    value: float

class ValueDataFields(TypedDict, total=False):
    key: str
    value: float

@final
@dataclass(frozen=True, kw_only=True)
class EntryData:
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]

class EntryDataFields(TypedDict, total=False):
    entity: Iterable[EntityDataFields]
    values: Iterable[ValueDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeClientQuotasResponse(Answers[DescribeClientQuotasRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    entries: tuple[EntryData, ...] | None

class DescribeClientQuotasResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    entries: Iterable[EntryDataFields] | None
