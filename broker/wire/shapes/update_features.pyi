"""UpdateFeaturesRequest (key 57) and its answer, versions 0-2.

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
class FeatureUpdateKey:
    feature: str
    max_version_level: int
    allow_downgrade: bool  # until version 0
    upgrade_type: int  # since version 1

class FeatureUpdateKeyFields(TypedDict, total=False):
    feature: str
    max_version_level: int
    allow_downgrade: bool  # until version 0
    upgrade_type: int  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class UpdateFeaturesRequest(Asks[UpdateFeaturesResponse]):
    timeout: timedelta
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool  # since version 1

class UpdateFeaturesRequestFields(TypedDict, total=False):
    timeout: timedelta | int
    feature_updates: Iterable[FeatureUpdateKeyFields]
    validate_only: bool  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class UpdatableFeatureResult:
    feature: str
    error_code: ErrorCode
    error_message: str | None

class UpdatableFeatureResultFields(TypedDict, total=False):
    feature: str
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class UpdateFeaturesResponse(Answers[UpdateFeaturesRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[UpdatableFeatureResult, ...]  # until version 1

class UpdateFeaturesResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    results: Iterable[UpdatableFeatureResultFields]  # until version 1
