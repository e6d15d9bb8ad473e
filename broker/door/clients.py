"""The reference clients: producer, consumers and admin, their values, and what they raise."""

from __future__ import annotations

from broker.client.admin import Admin
from broker.client.admin_shares import ShareOffset
from broker.client.consumer import Consumer
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import (
    AuthenticationError,
    BufferExhaustedError,
    CommitFailedError,
    ConfigurationError,
    KafkaError,
    TimedOutError,
    first_of,
)
from broker.client.core.metadata import PartitionState
from broker.client.core.shares.values import AcknowledgeType
from broker.client.core.shares.values import Outcome as AcknowledgementOutcome
from broker.client.core.transactions import OffsetAndMetadata
from broker.client.future import FailedFuture
from broker.client.group_session import RebalanceListener
from broker.client.interceptors import ConsumerInterceptor
from broker.client.producer import Producer
from broker.client.reporting import DeliveredBatch
from broker.client.share_consumer import ShareConsumer
from broker.client.topic_questions import NewTopic

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
