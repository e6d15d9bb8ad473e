"""Clients' metrics on this broker: the rules of instances.py with a clock, and the file of receiver.py."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from uuid import UUID

from broker.controller.image import MetadataImage
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.telemetry.instances import Instance, Instances
from broker.node.telemetry.receiver import Receiver
from broker.wire.compression import CodecId
from broker.wire.errors import ErrorCode


class Telemetry:
    """Without `harness.telemetry.path` clients are not told that they may push. If a client asks all the same, it is
    answered, and the metrics that it pushes are discarded. Apache Kafka does the same without a plug-in."""

    def __init__(self, config: NodeConfig, logger: Logger) -> None:
        self._logger = logger
        self.telemetry_max_bytes = config.telemetry_max_bytes
        self._instances = Instances()
        self.is_on = config.harness_telemetry_path is not None
        self._receiver = Receiver(
            config.harness_telemetry_path,
            size_bytes_max=config.harness_telemetry_bytes,
            push_bytes_max=config.telemetry_max_bytes,
        )

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.client_metrics_configs != new.client_metrics_configs:
            self._instances.set_subscriptions(new.client_metrics_configs)

    def asked(
        self, instance_id: UUID, client: Mapping[str, str], is_connected: Callable[[], bool]
    ) -> tuple[ErrorCode, Instance]:
        """`is_connected` tells at any later time whether the client's connection is still open."""
        known = {**client, **_named(instance_id)}
        return self._instances.asked(instance_id, known, monotonic_ms(), is_connected)

    def pushed(
        self,
        instance_id: UUID,
        client: Mapping[str, str],
        is_connected: Callable[[], bool],
        *,
        subscription_id: int,
        is_terminating: bool,
        compression: int,
        metrics: bytes,
    ) -> ErrorCode:
        known = {**client, **_named(instance_id)}
        error = self._instances.pushed(
            instance_id,
            known,
            monotonic_ms(),
            is_connected,
            subscription_id=subscription_id,
            is_terminating=is_terminating,
            compression=compression,
            is_too_large=len(metrics) > self.telemetry_max_bytes,
        )
        if error is not ErrorCode.none:
            return error
        if metrics:
            facts = {"wall_ms": wall_ms(), **known, "is_terminating": is_terminating}
            error = self._take(CodecId(compression), metrics, facts)
        if error is ErrorCode.none:
            self._instances.taken(instance_id)
        else:
            self._instances.refused(instance_id, error)
        return error

    def _take(self, codec: CodecId, metrics: bytes, facts: Mapping[str, object]) -> ErrorCode:
        try:
            return self._receiver.take(codec, metrics, **facts)
        except OSError as error:
            self._logger.warning("telemetry_not_written", cause=repr(str(error)))
            return ErrorCode.invalid_record  # Kafka's answer if its plug-in fails


def _named(instance_id: UUID) -> Mapping[str, str]:
    """The id in Kafka's form."""
    return {"client_instance_id": base64.urlsafe_b64encode(instance_id.bytes).decode().rstrip("=")}
