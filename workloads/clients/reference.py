"""The project's own client (`broker.client`). Callbacks come from its sender thread.

A full buffer must not block the sending thread for `max.block.ms`: then it could not tell the client's delay from its
own. So the client is given 1 ms, a refused send is tried again by the producer loop until the run ends, and
`max.block.ms` is refused as a property.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from broker.client import BufferExhaustedError, Consumer, KafkaError, Producer, RecordMetadata, TopicPartition
from runlog.schema import ABSENT, SendStatus
from workloads.clients.protocol import ClientError, OutcomeSink, PropertyError, ReceivedRecord, SendToken

NAME = "reference"
_MAX_BLOCK_MS = 1
_RETRY_S = 0.01
_Client = TypeVar("_Client")


class ReferenceProducer:
    def __init__(self, bootstrap_servers: str, topic: str, properties: Mapping[str, str], sink: OutcomeSink) -> None:
        if "max.block.ms" in properties:
            raise PropertyError(NAME, "max.block.ms", "the load generator itself waits for space in the buffer")
        self._topic = topic
        self._sink = sink
        settings = {**properties, "bootstrap.servers": bootstrap_servers, "max.block.ms": str(_MAX_BLOCK_MS)}
        self._producer = _checked(Producer, settings)
        self._effective: dict[str, str] = dict(self._producer.effective_properties())
        self._acks_zero = self._effective.get("acks", "all") == "0"
        self._send = self._producer.send
        self._is_refused = False  # written by a callback on the sending thread only

    def connect(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                if self._producer.partitions_for(self._topic):
                    return
                problem = "the topic has no partitions"
            except KafkaError as error:
                problem = str(error)
            if time.monotonic() > deadline_s:
                raise ClientError(
                    f"client {NAME}: no metadata of topic {self._topic} within {timeout_s:g} s: {problem}"
                )
            time.sleep(_RETRY_S)

    def send(self, value: bytes, key: bytes | None, token: SendToken) -> bool:
        self._send(self._topic, value, key, None, (), None, partial(self._delivered, token))
        if self._is_refused:
            self._is_refused = False
            return False
        return True

    def _delivered(self, token: SendToken, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is None and metadata is not None:
            status = SendStatus.UNKNOWN if self._acks_zero else SendStatus.ACKED
            self._sink(token, status, 0, metadata.partition, ABSENT if self._acks_zero else metadata.offset)
        elif isinstance(error, BufferExhaustedError):
            self._is_refused = True  # raised within send(), on the sending thread, before anything was queued
        elif error is not None:
            status = SendStatus.FAILED if error.definite else SendStatus.UNKNOWN
            self._sink(token, status, error.code, ABSENT, ABSENT)

    def poll(self, timeout_s: float) -> None:
        """Outcomes come by themselves: this only waits."""
        if timeout_s > 0:
            time.sleep(timeout_s)

    def close(self, timeout_s: float) -> None:
        self._producer.close(timeout_s)

    def metrics(self) -> dict[str, float]:
        return self._producer.metrics()

    def effective(self) -> dict[str, str]:
        return {**self._effective, "client.library": "reference"}


class ReferenceConsumer:
    def __init__(self, bootstrap_servers: str, topic: str, properties: Mapping[str, str]) -> None:
        self._topic = topic
        settings = {"enable.auto.commit": "false", "auto.offset.reset": "earliest", **properties}
        self._consumer = _checked(Consumer, {**settings, "bootstrap.servers": bootstrap_servers})

    def connect(self, partitions: list[int], timeout_s: float) -> None:
        """Metadata is fetched by the first polls; a broker that cannot be reached shows there."""
        assigned = [TopicPartition(self._topic, partition) for partition in partitions]
        self._consumer.assign(assigned)
        self._consumer.seek_to_beginning()

    def poll(self, timeout_s: float) -> list[ReceivedRecord]:
        try:
            records = self._consumer.poll(int(timeout_s * 1_000))
        except KafkaError:
            time.sleep(_RETRY_S)  # during a fault a poll may fail; the next one tries again until the run stops it
            return []
        return [(record.partition, record.offset, record.value or b"") for record in records]

    def close(self) -> None:
        self._consumer.close()


def _checked(make: Callable[[Mapping[str, str]], _Client], settings: Mapping[str, str]) -> _Client:
    try:
        return make(settings)
    except ValueError as error:  # the client's ConfigurationError, which begins with the property's name
        name = next((name for name in settings if f" {name}:" in f" {error}"), "a property")
        raise PropertyError(NAME, name, str(error)) from error
