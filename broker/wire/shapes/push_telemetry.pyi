"""PushTelemetryRequest (key 72) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class PushTelemetryRequest(Asks[PushTelemetryResponse]):
    client_instance_id: UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes

class PushTelemetryRequestFields(TypedDict, total=False):
    client_instance_id: UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes

@final
@dataclass(frozen=True, kw_only=True)
class PushTelemetryResponse(Answers[PushTelemetryRequest]):
    throttle_time: timedelta
    error_code: ErrorCode

class PushTelemetryResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
