"""The reference clients: producer, consumers and admin, their values, and what they raise."""

from __future__ import annotations

from broker.client import (
    AcknowledgementOutcome,
    AcknowledgeType,
    Admin,
    AuthenticationError,
    BufferExhaustedError,
    CommitFailedError,
    ConfigurationError,
    Consumer,
    ConsumerInterceptor,
    DeliveredBatch,
    FailedFuture,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    PartitionState,
    Producer,
    RebalanceListener,
    ShareConsumer,
    TimedOutError,
    TopicPartition,
)
from broker.client.admin_shares import ShareOffset
from broker.client.core.errors import first_of

__all__ = [
    "AcknowledgeType",
    "AcknowledgementOutcome",
    "Admin",
    "AuthenticationError",
    "BufferExhaustedError",
    "CommitFailedError",
    "ConfigurationError",
    "Consumer",
    "ConsumerInterceptor",
    "DeliveredBatch",
    "FailedFuture",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "PartitionState",
    "Producer",
    "RebalanceListener",
    "ShareConsumer",
    "ShareOffset",
    "TimedOutError",
    "TopicPartition",
    "first_of",
]
