"""DescribeClusterRequest (key 60) and its answer, versions 0-2.

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
class DescribeClusterRequest(Asks[DescribeClusterResponse]):
    include_cluster_authorized_operations: bool
    endpoint_type: int  # since version 1
    include_fenced_brokers: bool  # since version 2

class DescribeClusterRequestFields(TypedDict, total=False):
    include_cluster_authorized_operations: bool
    endpoint_type: int  # since version 1
    include_fenced_brokers: bool  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class DescribeClusterBroker:
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool  # since version 2

class DescribeClusterBrokerFields(TypedDict, total=False):
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class DescribeClusterResponse(Answers[DescribeClusterRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    cluster_id: str
    controller_id: int
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int
    endpoint_type: int  # since version 1

class DescribeClusterResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    cluster_id: str
    controller_id: int
    brokers: Iterable[DescribeClusterBrokerFields]
    cluster_authorized_operations: int
    endpoint_type: int  # since version 1
