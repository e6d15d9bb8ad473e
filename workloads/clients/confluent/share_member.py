"""Member of a share group over confluent-kafka (librdkafka's share consumer, KIP-932, since 2.16).

librdkafka sends the fetches of a share group in its own threads, and does not say when. But the records of a partition
come from a fetch that was sent after the application had taken the earlier records of that partition. So that is the
time from which the broker may have given them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka

from runlog.records.history import Acknowledged, AcknowledgementKind
from workloads.clients.confluent.load import NAME, SILENT, construct, consumer_settings
from workloads.clients.member_protocol import Partition, ShareListener, SharePoll, ShareSetup
from workloads.clients.protocol import ClientError, PropertyError, ReceivedRecord

_RETRY_S: Final = 0.01
_SAME_NAME: Final = frozenset({"max.poll.interval.ms", "max.poll.records"})
_NOT_OF_THE_READER: Final[Mapping[str, str]] = {
    "bootstrap.servers": "the cluster decides that",
    "group.id": "the harness names the group after the reader",
    "share.acknowledgement.mode": "the reader's `commit` decides that",
    "share.acquire.mode": "librdkafka has no equivalent",
}
_TYPES: Final = {
    AcknowledgementKind.ACCEPT: confluent_kafka.AcknowledgeType.ACCEPT,
    AcknowledgementKind.RELEASE: confluent_kafka.AcknowledgeType.RELEASE,
    AcknowledgementKind.REJECT: confluent_kafka.AcknowledgeType.REJECT,
}


def share_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Kafka's properties of a share consumer as librdkafka's. PropertyError for those that it does not have."""
    for name, reason in _NOT_OF_THE_READER.items():
        if name in properties:
            raise PropertyError(NAME, name, reason)
    rest = {name: value for name, value in properties.items() if name not in _SAME_NAME}
    return {**consumer_settings(rest), **{name: properties[name] for name in _SAME_NAME & set(properties)}}


class ConfluentShareMember:
    def __init__(self, setup: ShareSetup, listener: ShareListener) -> None:
        self._topics, self._listener, self._is_implicit = setup.topics, listener, setup.is_implicit
        # Not confirmed yet. The library tells the offsets of an acknowledgement, and not what was said of them.
        self._said: dict[Partition, dict[int, AcknowledgementKind]] = {}
        self._polled_ns: dict[Partition, int] = {}  # when records of the partition were last taken
        self._connected_ns = 0
        configuration: dict[str, Any] = {
            **share_settings(setup.properties),
            "bootstrap.servers": setup.bootstrap_servers,
            "group.id": setup.group_id,
            "share.acknowledgement.mode": "implicit" if setup.is_implicit else "explicit",
            **SILENT,
        }
        self._consumer = construct(confluent_kafka.ShareConsumer, configuration)
        self._consumer.set_acknowledgement_commit_callback(self._on_acknowledged)

    def connect(self, timeout_s: float) -> None:
        """The coordinator is found by the first polls; a broker that cannot be reached shows there."""
        self._connected_ns = time.monotonic_ns()
        self._consumer.subscribe(list(self._topics))

    def poll(self, timeout_s: float) -> SharePoll:
        try:
            messages = list(self._consumer.poll(timeout_s))
        except confluent_kafka.KafkaException as error:
            _raise_if_final(error.args[0], error)
            time.sleep(_RETRY_S)  # during a fault a poll may fail; the next one tries again
            messages = []
        polled_ns = time.monotonic_ns()
        records, counts = [], []
        for message in messages:
            if message.error() is not None:
                _raise_if_final(message.error(), None)
                continue
            records.append(
                (message.topic(), message.partition(), message.offset(), message.value() or b"", message.timestamp()[1])
            )
            counts.append(message.delivery_count())
        places = {record[:2] for record in records}
        asked_ns = min((self._polled_ns.get(place, self._connected_ns) for place in places), default=polled_ns)
        self._polled_ns.update(dict.fromkeys(places, polled_ns))
        if self._is_implicit:
            for topic, partition, offset, _, _ in records:
                self._said.setdefault((topic, partition), {})[offset] = AcknowledgementKind.ACCEPT
        return SharePoll(records=records, counts=counts, polled_ns=polled_ns, asked_ns=asked_ns)

    def acknowledge(self, record: ReceivedRecord, kind: AcknowledgementKind) -> None:
        topic, partition, offset, _, _ = record
        self._consumer.acknowledge_offset(topic, partition, offset, _TYPES[kind])
        self._said.setdefault((topic, partition), {})[offset] = kind

    def close(self) -> None:
        self._consumer.close()

    def _on_acknowledged(self, offsets: Mapping[Any, set[int]], error: Any) -> None:
        """Only INVALID_RECORD_STATE means that the acknowledgement does not count. Others may come from the library,
        which does not know what a broker did that ended: it calls that NOT_LEADER_OR_FOLLOWER."""
        outcome, reason = Acknowledged.CONFIRMED, ""
        if error is not None:
            problem = error.args[0]
            is_refused = problem.code() == confluent_kafka.KafkaError.INVALID_RECORD_STATE
            outcome, reason = Acknowledged.REFUSED if is_refused else Acknowledged.UNKNOWN, problem.name()
        for partition, told in offsets.items():
            place = (partition.topic, partition.partition)
            said = self._said.get(place, {})
            by_kind: dict[AcknowledgementKind, list[int]] = {}
            for offset in sorted(told & set(said)):
                by_kind.setdefault(said.pop(offset), []).append(offset)
            for kind, those in by_kind.items():
                self._listener.acknowledged(place, kind, outcome, those, reason)


def _raise_if_final(problem: Any, cause: BaseException | None) -> None:
    if problem.fatal() or not problem.retriable():
        raise ClientError(f"client {NAME}: {problem.str()}") from cause
