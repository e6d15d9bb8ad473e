"""AlterConfigsRequest (key 33) and its answer, versions 0-2.

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
class AlterableConfig:
    name: str
    value: str | None

class AlterableConfigFields(TypedDict, total=False):
    name: str
    value: str | None

@final
@dataclass(frozen=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]

class AlterConfigsResourceFields(TypedDict, total=False):
    resource_type: int
    resource_name: str
    configs: Iterable[AlterableConfigFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterConfigsRequest(Asks[AlterConfigsResponse]):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool

class AlterConfigsRequestFields(TypedDict, total=False):
    resources: Iterable[AlterConfigsResourceFields]
    validate_only: bool

@final
@dataclass(frozen=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str

class AlterConfigsResourceResponseFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str

@final
@dataclass(frozen=True, kw_only=True)
class AlterConfigsResponse(Answers[AlterConfigsRequest]):
    throttle_time: timedelta
    responses: tuple[AlterConfigsResourceResponse, ...]

class AlterConfigsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    responses: Iterable[AlterConfigsResourceResponseFields]
