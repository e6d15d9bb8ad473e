"""GetTelemetrySubscriptionsRequest (key 71) and its answer, version 0.

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
class GetTelemetrySubscriptionsRequest(Asks[GetTelemetrySubscriptionsResponse]):
    client_instance_id: UUID | None

class GetTelemetrySubscriptionsRequestFields(TypedDict, total=False):
    client_instance_id: UUID | None

@final
@dataclass(frozen=True, kw_only=True)
class GetTelemetrySubscriptionsResponse(Answers[GetTelemetrySubscriptionsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    client_instance_id: UUID | None
    subscription_id: int
    accepted_compression_types: tuple[int, ...]
    push_interval: timedelta
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: tuple[str, ...]

class GetTelemetrySubscriptionsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    client_instance_id: UUID | None
    subscription_id: int
    accepted_compression_types: Iterable[int]
    push_interval: timedelta | int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: Iterable[str]
