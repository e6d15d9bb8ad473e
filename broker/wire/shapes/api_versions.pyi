"""ApiVersionsRequest (key 18) and its answer, versions 0-4.

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
class ApiVersionsRequest(Asks[ApiVersionsResponse]):
    client_software_name: str  # since version 3
    client_software_version: str  # since version 3

class ApiVersionsRequestFields(TypedDict, total=False):
    client_software_name: str  # since version 3
    client_software_version: str  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class ApiVersion:
    api_key: int
    min_version: int
    max_version: int

class ApiVersionFields(TypedDict, total=False):
    api_key: int
    min_version: int
    max_version: int

@final
@dataclass(frozen=True, kw_only=True)
class SupportedFeatureKey:
    name: str
    min_version: int
    max_version: int

class SupportedFeatureKeyFields(TypedDict, total=False):
    name: str
    min_version: int
    max_version: int

@final
@dataclass(frozen=True, kw_only=True)
class FinalizedFeatureKey:
    name: str
    max_version_level: int
    min_version_level: int

class FinalizedFeatureKeyFields(TypedDict, total=False):
    name: str
    max_version_level: int
    min_version_level: int

@final
@dataclass(frozen=True, kw_only=True)
class ApiVersionsResponse(Answers[ApiVersionsRequest]):
    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: timedelta  # since version 1
    supported_features: tuple[SupportedFeatureKey, ...]  # since version 3
    finalized_features_epoch: int  # since version 3
    finalized_features: tuple[FinalizedFeatureKey, ...]  # since version 3
    zk_migration_ready: bool  # since version 3

class ApiVersionsResponseFields(TypedDict, total=False):
    error_code: int
    api_keys: Iterable[ApiVersionFields]
    throttle_time: timedelta | int  # since version 1
    supported_features: Iterable[SupportedFeatureKeyFields]  # since version 3
    finalized_features_epoch: int  # since version 3
    finalized_features: Iterable[FinalizedFeatureKeyFields]  # since version 3
    zk_migration_ready: bool  # since version 3
