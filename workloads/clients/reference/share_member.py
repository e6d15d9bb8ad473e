"""Member of a share group over the project's own client (`broker.client.ShareConsumer`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from broker.door.clients import (
    AcknowledgementOutcome,
    AcknowledgeType,
    KafkaError,
    ShareConsumer,
    TimedOutError,
    TopicPartition,
)
from runlog.records.history import Acknowledged, AcknowledgementKind
from workloads.clients.member_protocol import ShareListener, SharePoll, ShareSetup
from workloads.clients.protocol import ClientError, PropertyError, ReceivedRecord
from workloads.clients.reference.load import NAME, checked

CLOSE_TIMEOUT_MS: Final = 5_000
_RETRY_S: Final = 0.01
_OF_THE_READER: Final[Mapping[str, str]] = {
    "bootstrap.servers": "the cluster decides that",
    "group.id": "the harness names the group after the reader",
    "share.acknowledgement.mode": "the reader's `commit` decides that",
}
_TYPES: Final = {
    AcknowledgementKind.ACCEPT: AcknowledgeType.ACCEPT,
    AcknowledgementKind.RELEASE: AcknowledgeType.RELEASE,
    AcknowledgementKind.REJECT: AcknowledgeType.REJECT,
}
_KINDS: Final = {kind: told for told, kind in _TYPES.items()}


class ReferenceShareMember:
    def __init__(self, setup: ShareSetup, listener: ShareListener) -> None:
        for name, reason in _OF_THE_READER.items():
            if name in setup.properties:
                raise PropertyError(NAME, name, reason)
        self._topics, self._listener = setup.topics, listener
        self._consumer = checked(
            ShareConsumer,
            {
                **setup.properties,
                "bootstrap.servers": setup.bootstrap_servers,
                "group.id": setup.group_id,
                "share.acknowledgement.mode": "implicit" if setup.is_implicit else "explicit",
            },
        )
        self._consumer.set_acknowledgement_commit_callback(self._tell)

    def connect(self, timeout_s: float) -> None:
        """The coordinator is found by the first polls; a broker that cannot be reached shows there."""
        self._consumer.subscribe(self._topics)

    def poll(self, timeout_s: float) -> SharePoll:
        try:
            records = self._consumer.poll(int(timeout_s * 1_000))
        except KafkaError as error:
            if not error.retriable and not isinstance(error, TimedOutError):
                raise ClientError(f"client {NAME}: {error}") from error
            time.sleep(_RETRY_S)  # during a fault a poll may fail; the next one tries again
            records = []
        polled_ns = time.monotonic_ns()
        asked_ms = self._consumer.asked_ms()
        return SharePoll(
            records=[
                (record.topic, record.partition, record.offset, record.value or b"", record.timestamp_ms)
                for record in records
            ],
            counts=[record.delivery_count for record in records],
            polled_ns=polled_ns,
            asked_ns=polled_ns if asked_ms is None else min(asked_ms * 1_000_000, polled_ns),
        )

    def acknowledge(self, record: ReceivedRecord, kind: AcknowledgementKind) -> None:
        topic, partition, offset, _, _ = record
        self._consumer.acknowledge_offset(TopicPartition(topic, partition), offset, _TYPES[kind])

    def close(self) -> None:
        self._consumer.close(CLOSE_TIMEOUT_MS)

    def _tell(self, outcomes: list[AcknowledgementOutcome]) -> None:
        for outcome in outcomes:
            said, reason = Acknowledged.CONFIRMED, ""
            if outcome.error is not None:
                said = Acknowledged.REFUSED if outcome.error.definite else Acknowledged.UNKNOWN
                reason = outcome.error.name
            by_kind: dict[AcknowledgementKind, list[int]] = {}
            for offset, kind in outcome.types.items():
                if kind in _KINDS:
                    by_kind.setdefault(_KINDS[kind], []).append(offset)
            place = (outcome.partition.topic, outcome.partition.partition)
            for told, offsets in by_kind.items():
                self._listener.acknowledged(place, told, said, offsets, reason)
