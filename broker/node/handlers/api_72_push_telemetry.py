"""PushTelemetry (key 72), version 0 (KIP-714): a client's metrics, which are written to the file
`harness.telemetry.path`.

As in Apache Kafka, a push is refused if it is too early, too large, of another subscription, of an unknown compression,
or after the client's last push. What cannot be unpacked, or unpacks to more than may be pushed, is an invalid record.
Metrics are not decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from uuid import UUID

    from broker.wire.shapes import push_telemetry as shapes

RESERVED = frozenset({1})  # together with the zero id, these are ids that Kafka never gives to a client


def handle(services: Services, request: Request[shapes.PushTelemetryRequest]) -> None:
    message, telemetry = request.message, services.telemetry
    instance_id: UUID | None = message.client_instance_id
    if instance_id is None or instance_id.int in RESERVED:
        error = ErrorCode.invalid_request
    else:
        error = telemetry.pushed(
            instance_id,
            request.client,
            request.connection_check(),
            subscription_id=message.subscription_id,
            is_terminating=message.terminating,
            compression=message.compression_type,
            metrics=bytes(message.metrics),
        )
    request.respond(response(ApiKey.PUSH_TELEMETRY, request.version, error_code=error))
