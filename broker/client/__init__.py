"""Reference producer, consumer and admin for clusters that speak the Kafka protocol: pure core, thread-based shell.

core/ decides (no I/O, no clock), the modules beside it move bytes. docs/contracts.md describes the public surface.
Consumer groups are not served yet and are refused by name.
"""

from __future__ import annotations

from broker.client.admin import Admin, ClusterDescription, NewTopic
from broker.client.batches import read_batches
from broker.client.consumer import Consumer
from broker.client.core.batch import RecordMetadata, TopicPartition
from broker.client.core.errors import (
    BufferExhaustedError,
    ClosedError,
    ConfigurationError,
    KafkaError,
    TimedOutError,
)
from broker.client.core.fetcher import EARLIEST, LATEST, ConsumerRecord
from broker.client.core.metadata import BrokerAddress, PartitionState, TopicState
from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata
from broker.client.future import DeliveryFuture, FailedFuture
from broker.client.producer import Producer, ProducerInterceptor, ProducerRecord
from broker.client.reporting import BatchListener, DeliveredBatch

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "BatchListener",
    "BrokerAddress",
    "BufferExhaustedError",
    "ClosedError",
    "ClusterDescription",
    "ConfigurationError",
    "Consumer",
    "ConsumerRecord",
    "DeliveredBatch",
    "DeliveryFuture",
    "FailedFuture",
    "GroupMetadata",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "PartitionState",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordMetadata",
    "TimedOutError",
    "TopicPartition",
    "TopicState",
    "read_batches",
]
