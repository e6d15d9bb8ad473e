"""Single requests: a connection to one broker, questions for it, and what the answers say."""

from __future__ import annotations

from broker.client.acl_questions import allowed_operations, created_acls, deleted_acl
from broker.client.core.fetch_state import EARLIEST, LATEST
from broker.client.direct import DirectConnection
from broker.client.feature_questions import Features, changed_features, features
from broker.client.question import Question, Result
from broker.client.questions import (
    GROUP,
    TRANSACTION,
    coordinator_of,
    deleted_records,
    end_of_epoch,
    metadata_of,
    offset_at,
    quorum,
    records_from,
)
from broker.client.replica_questions import (
    changed_replicas,
    log_directories,
    moved_logs,
    reassignments,
    unregistered_broker,
)
from broker.client.scram_question import scram_user
from broker.client.topic_questions import (
    changed_settings,
    created_topics,
    deleted_topic_by_id,
    more_partitions,
    settings_of,
)
from broker.coordinator.keys import partition_for

__all__ = [
    "EARLIEST",
    "GROUP",
    "LATEST",
    "TRANSACTION",
    "DirectConnection",
    "Features",
    "Question",
    "Result",
    "allowed_operations",
    "changed_features",
    "changed_replicas",
    "changed_settings",
    "coordinator_of",
    "created_acls",
    "created_topics",
    "deleted_acl",
    "deleted_records",
    "deleted_topic_by_id",
    "end_of_epoch",
    "features",
    "log_directories",
    "metadata_of",
    "more_partitions",
    "moved_logs",
    "offset_at",
    "partition_for",
    "quorum",
    "reassignments",
    "records_from",
    "scram_user",
    "settings_of",
    "unregistered_broker",
]
