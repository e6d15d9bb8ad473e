"""DescribeConfigsRequest (key 32) and its answer, versions 1-4.

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
class DescribeConfigsResource:
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None

class DescribeConfigsResourceFields(TypedDict, total=False):
    resource_type: int
    resource_name: str
    configuration_keys: Iterable[str] | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribeConfigsRequest(Asks[DescribeConfigsResponse]):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool
    include_documentation: bool  # since version 3

class DescribeConfigsRequestFields(TypedDict, total=False):
    resources: Iterable[DescribeConfigsResourceFields]
    include_synonyms: bool
    include_documentation: bool  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class DescribeConfigsSynonym:
    name: str
    value: str | None
    source: int

class DescribeConfigsSynonymFields(TypedDict, total=False):
    name: str
    value: str | None
    source: int

@final
@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResourceResult:
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int  # since version 3
    documentation: str | None  # since version 3

class DescribeConfigsResourceResultFields(TypedDict, total=False):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: Iterable[DescribeConfigsSynonymFields]
    config_type: int  # since version 3
    documentation: str | None  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResult:
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]

class DescribeConfigsResultFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: Iterable[DescribeConfigsResourceResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResponse(Answers[DescribeConfigsRequest]):
    throttle_time: timedelta
    results: tuple[DescribeConfigsResult, ...]

class DescribeConfigsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[DescribeConfigsResultFields]
