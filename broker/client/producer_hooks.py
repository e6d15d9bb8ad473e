"""Interceptors and serializers. Both may change a record before it is sent. Interceptors are also told the outcome.

The calls run in the thread that sends, or in the sender thread (`on_acknowledgement`). An error of an interceptor is
counted and does no other harm, as in Java's client. interceptors.py has those of consumers. Shown by
tests/broker_client/test_client_producer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

from broker.client.core.batch import DeliveryCallback, Headers, RecordMetadata
from broker.client.core.errors import KafkaError
from broker.client.metrics import ProducerMetrics

Serializer: TypeAlias = Callable[[Any], bytes | None]  # Any: the caller may send objects of any type


class ProducerRecord(NamedTuple):
    """The record that an interceptor sees and may replace, before serialization."""

    topic: str
    value: Any
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Exceptions of an interceptor are counted and otherwise ignored, as in Java."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord: ...

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None: ...


class ProducerHooks:
    """Interceptors come first, in their order, then the serializers."""

    def __init__(
        self,
        interceptors: Iterable[ProducerInterceptor],
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        metrics: ProducerMetrics,
    ) -> None:
        self._interceptors = tuple(interceptors)
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._metrics = metrics

    def __bool__(self) -> bool:
        return bool(self._interceptors or self._key_serializer or self._value_serializer)

    def apply(
        self, record: ProducerRecord, callback: DeliveryCallback | None
    ) -> tuple[ProducerRecord, DeliveryCallback | None]:
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                self._metrics.callback_error_total += 1
        if self._key_serializer is not None and record.key is not None:
            record = record._replace(key=self._key_serializer(record.key))
        if self._value_serializer is not None and record.value is not None:
            record = record._replace(value=self._value_serializer(record.value))
        return record, self._telling(callback) if self._interceptors else callback

    def _telling(self, callback: DeliveryCallback | None) -> DeliveryCallback:
        def tell(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            for interceptor in self._interceptors:
                try:
                    interceptor.on_acknowledgement(metadata, error)
                except Exception:
                    self._metrics.callback_error_total += 1
            if callback is not None:
                callback(metadata, error)

        return tell
