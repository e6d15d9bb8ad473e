"""GetTelemetrySubscriptions (key 71), version 0 (KIP-714): which metrics the client is asked to send, and how often.

ApiVersions lists it only with the setting `harness.telemetry.path`, as Apache Kafka does only with a plug-in that takes
metrics. It is answered in any case. A client without an id gets one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.node.telemetry.instances import COMPRESSIONS
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import get_telemetry_subscriptions as shapes


def handle(services: Services, request: Request[shapes.GetTelemetrySubscriptionsRequest]) -> None:
    telemetry = services.telemetry
    asked = request.message.client_instance_id
    instance_id = asked if asked is not None and asked.int else uuid4()
    error, instance = telemetry.asked(instance_id, request.client, request.connection_check())
    if error is not ErrorCode.none:
        request.respond(_failed(request, error))
        return
    request.respond(
        response(
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            request.version,
            error_code=ErrorCode.none,
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=[int(each) for each in COMPRESSIONS],
            push_interval=instance.interval_ms,
            telemetry_max_bytes=telemetry.telemetry_max_bytes,
            delta_temporality=True,
            requested_metrics=list(instance.metrics),
        )
    )


def _failed(
    request: Request[shapes.GetTelemetrySubscriptionsRequest], error: ErrorCode
) -> shapes.GetTelemetrySubscriptionsResponse:
    return response(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, request.version, error_code=error)
