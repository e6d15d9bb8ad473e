"""AlterClientQuotasRequest (key 49) and its answer, versions 0-1.

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
class AskedEntityData:
    entity_type: str
    entity_name: str | None

class AskedEntityDataFields(TypedDict, total=False):
    entity_type: str
    entity_name: str | None

@final
@dataclass(frozen=True, kw_only=True)
class OpData:
    key: str
    value: float
    remove: bool

class OpDataFields(TypedDict, total=False):
    key: str
    value: float
    remove: bool

@final
@dataclass(frozen=True, kw_only=True)
class AskedEntryData:
    entity: tuple[AskedEntityData, ...]
    ops: tuple[OpData, ...]

class AskedEntryDataFields(TypedDict, total=False):
    entity: Iterable[AskedEntityDataFields]
    ops: Iterable[OpDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterClientQuotasRequest(Asks[AlterClientQuotasResponse]):
    entries: tuple[AskedEntryData, ...]
    validate_only: bool

class AlterClientQuotasRequestFields(TypedDict, total=False):
    entries: Iterable[AskedEntryDataFields]
    validate_only: bool

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredEntityData:
    entity_type: str
    entity_name: str | None

class AnsweredEntityDataFields(TypedDict, total=False):
    entity_type: str
    entity_name: str | None

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredEntryData:
    error_code: ErrorCode
    error_message: str | None
    entity: tuple[AnsweredEntityData, ...]

class AnsweredEntryDataFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    entity: Iterable[AnsweredEntityDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterClientQuotasResponse(Answers[AlterClientQuotasRequest]):
    throttle_time: timedelta
    entries: tuple[AnsweredEntryData, ...]

class AlterClientQuotasResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    entries: Iterable[AnsweredEntryDataFields]
