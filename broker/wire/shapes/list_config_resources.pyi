"""ListConfigResourcesRequest (key 74) and its answer, version 1.

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
class ListConfigResourcesRequest(Asks[ListConfigResourcesResponse]):
    resource_types: tuple[int, ...]

class ListConfigResourcesRequestFields(TypedDict, total=False):
    resource_types: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class ConfigResource:
    resource_name: str
    resource_type: int

class ConfigResourceFields(TypedDict, total=False):
    resource_name: str
    resource_type: int

@final
@dataclass(frozen=True, kw_only=True)
class ListConfigResourcesResponse(Answers[ListConfigResourcesRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    config_resources: tuple[ConfigResource, ...]

class ListConfigResourcesResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    config_resources: Iterable[ConfigResourceFields]
