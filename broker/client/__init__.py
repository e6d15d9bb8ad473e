"""Reference producer, consumer and admin for clusters that speak the Kafka protocol: pure core, thread-based shell.

core/ makes the decisions (no I/O, no clock). The modules next to it move bytes. docs/internals/contracts.md describes
the public surface.
"""

from __future__ import annotations

from broker.client.admin import Admin, ClusterDescription
from broker.client.consumer import Consumer
from broker.client.core.batch import RecordMetadata, TopicPartition
from broker.client.core.errors import (
    AuthenticationError,
    BufferExhaustedError,
    ClosedError,
    CommitFailedError,
    ConfigurationError,
    KafkaError,
    LogTruncationError,
    TimedOutError,
    WakeupError,
)
from broker.client.core.fetch_state import EARLIEST, LATEST, ConsumerRecord
from broker.client.core.metadata import BrokerAddress, PartitionState, TopicState
from broker.client.core.shares.values import AcknowledgeType, ShareRecord
from broker.client.core.shares.values import Outcome as AcknowledgementOutcome
from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata
from broker.client.future import DeliveryFuture, FailedFuture
from broker.client.group_session import RebalanceListener
from broker.client.interceptors import ConsumerInterceptor
from broker.client.producer import Producer
from broker.client.producer_hooks import ProducerInterceptor, ProducerRecord
from broker.client.questions import FoundOffset
from broker.client.reporting import BatchListener, DeliveredBatch
from broker.client.share_consumer import ShareConsumer
from broker.client.topic_questions import NewTopic

__all__ = [
    "EARLIEST",
    "LATEST",
    "AcknowledgeType",
    "AcknowledgementOutcome",
    "Admin",
    "AuthenticationError",
    "BatchListener",
    "BrokerAddress",
    "BufferExhaustedError",
    "ClosedError",
    "ClusterDescription",
    "CommitFailedError",
    "ConfigurationError",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "DeliveredBatch",
    "DeliveryFuture",
    "FailedFuture",
    "FoundOffset",
    "GroupMetadata",
    "KafkaError",
    "LogTruncationError",
    "NewTopic",
    "OffsetAndMetadata",
    "PartitionState",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RebalanceListener",
    "RecordMetadata",
    "ShareConsumer",
    "ShareRecord",
    "TimedOutError",
    "TopicPartition",
    "TopicState",
    "WakeupError",
]
