"""Changes of the topic under load, by Kafka's own admin requests. An operator may do the same on any cluster.

topic_setting changes one setting (IncrementalAlterConfigs). Healing restores the old value.

partitions_added adds `count` partitions (CreatePartitions, KIP-195). They stay.

records_deleted deletes all but the last `keep` records below the high watermark of the partition of interest
(DeleteRecords, KIP-107). Healing does not bring them back.

topic_recreated deletes the topic. `absent_ms` after the last broker has forgotten it, it is created again with the old
name, the old settings and the same number of partitions. All its records are lost.

Proved by the brokers' answers: the new value at every running broker, a leader for each new partition, the new log
start offset. A recreated topic is proved by its new id (KIP-516) at every broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from runlog.records.codec import to_json
from runlog.records.fault import RecordsDeletedProof, TopicRecreatedProof

KNOWN_WITHIN_S = 20.0  # limit until each broker knows that the topic was deleted, and that it exists again
POLL_S = 0.02


class TopicSetting:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._topics, self._topic = context.port.topics, context.of.topic
        self._name, self._value = str(parameters["setting"]), str(parameters["value"])
        self._before: str | None = None
        self._was_asked = False

    def inject(self) -> None:
        self._before = self._topics.own_settings(self._topic).get(self._name)
        self._was_asked = True
        self._topics.change_setting(self._topic, self._name, self._value)

    def heal(self) -> None:
        if self._was_asked:
            self._topics.change_setting(self._topic, self._name, self._before)
            self._was_asked = False

    def prove(self) -> Proof:
        told = self._topics.setting_by_broker(self._topic, self._name)
        return Proof(
            is_effective=bool(told) and all(value == self._value for value in told.values()),
            detail={
                "setting": self._name,
                "before": self._before,
                "told": {f"broker {broker}": value for broker, value in told.items()},
            },
        )


class PartitionsAdded:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._port, self._topic = context.port, context.of.topic
        self._count = int(parameters["count"])
        self._before: int | None = None

    def inject(self) -> None:
        topics = self._port.topics
        self._before = topics.partition_count(self._topic)
        topics.set_partition_count(self._topic, self._before + self._count)

    def heal(self) -> None:
        """Does nothing: partitions cannot be removed."""

    def prove(self) -> Proof:
        if self._before is None:
            return Proof(is_effective=False, detail={})
        added = range(self._before, self._before + self._count)
        leaders = {partition: self._port.brokers.leader(self._topic, partition) for partition in added}
        return Proof(
            is_effective=all(leader is not None for leader in leaders.values()),
            detail={"before": self._before, "leaders": {str(number): leader for number, leader in leaders.items()}},
        )


class RecordsDeleted:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._topics, self._of = context.port.topics, context.of
        self._keep = int(parameters["keep"])
        self._wanted: int | None = None

    def inject(self) -> None:
        topic, partition = self._of.topic, self._of.partition
        end = self._topics.end_offset(topic, partition)
        if end <= self._keep:
            raise ValueError(f"{topic}-{partition} has {end} records and {self._keep} are to stay: nothing to delete")
        self._wanted = end - self._keep
        self._topics.delete_records(topic, partition, self._wanted)

    def heal(self) -> None:
        """Does nothing: deleted records stay deleted."""

    def prove(self) -> Proof:
        start = self._topics.start_offset(self._of.topic, self._of.partition)
        proof = RecordsDeletedProof(partition=self._of.partition, start_offset=start, wanted=self._wanted)
        return Proof(is_effective=self._wanted is not None and start >= self._wanted, detail=to_json(proof))


class TopicRecreated:
    """The times in its proof are microseconds since it began to act."""

    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._topics, self._topic = context.port.topics, context.of.topic
        self._absent_ms = int(parameters["absent_ms"])
        self._create: Callable[[], None] | None = None  # set while the topic must still be created
        self._before: Mapping[int, str | None] = {}
        self._after: Mapping[int, str | None] = {}
        self._ends: dict[int, int] = {}
        self._gone_us = self._created_us = 0

    def inject(self) -> None:
        begin_ns = time.monotonic_ns()
        topics, topic = self._topics, self._topic
        count, replicas = topics.partition_count(topic), topics.replication_factor(topic)
        config = dict(topics.own_settings(topic))
        self._before = topics.id_by_broker(topic)
        self._ends = {partition: topics.end_offset(topic, partition) for partition in range(count)}

        def create() -> None:
            topics.create(topic, partitions=count, replication_factor=replicas, config=config)

        self._create = create
        topics.delete(topic)
        self._await("forgotten", lambda ids: not any(ids.values()))
        self._gone_us = (time.monotonic_ns() - begin_ns) // 1000
        time.sleep(self._absent_ms / 1000)
        self._created_us = (time.monotonic_ns() - begin_ns) // 1000
        self.heal()
        self._after = self._await("known again", lambda ids: all(ids.values()))

    def _await(self, what: str, holds: Callable[[Mapping[int, str | None]], bool]) -> Mapping[int, str | None]:
        deadline = time.monotonic() + KNOWN_WITHIN_S
        while not ((ids := self._topics.id_by_broker(self._topic)) and holds(ids)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._topic} was not {what} by every broker within {KNOWN_WITHIN_S:.0f} s: {ids}")
            time.sleep(POLL_S)
        return ids

    def heal(self) -> None:
        """Create the topic if it does not exist. Nothing brings back its records."""
        if self._create is not None:
            self._create()
            self._create = None

    def prove(self) -> Proof:
        before, after = set(self._before.values()), set(self._after.values())
        return Proof(
            is_effective=len(after) == 1 and None not in before | after and not before & after,
            detail={
                "ids": {"before": _by_broker(self._before), "after": _by_broker(self._after)},
                **to_json(TopicRecreatedProof(gone_us=self._gone_us, created_us=self._created_us, ends=self._ends)),
            },
        )


def _by_broker(found: Mapping[int, str | None]) -> dict[str, str | None]:
    return {f"broker {broker}": value for broker, value in found.items()}


def _setting_problem(parameters: Mapping[str, Parameter]) -> str | None:
    return None if parameters["setting"] else "topic_setting needs `setting`, a topic's setting by Kafka's name"


def _count_problem(parameters: Mapping[str, Parameter]) -> str | None:
    count = int(parameters["count"])
    return None if 1 <= count <= 100 else f"count of partitions_added is from 1 to 100, got {count}"


def _keep_problem(parameters: Mapping[str, Parameter]) -> str | None:
    keep = int(parameters["keep"])
    return None if keep >= 0 else f"keep of records_deleted is from 0, got {keep}"


def _absent_problem(parameters: Mapping[str, Parameter]) -> str | None:
    absent_ms = int(parameters["absent_ms"])
    if 200 <= absent_ms <= 60_000:
        return None
    why = "answers of the two topics are told apart by the time between"
    return f"absent_ms of topic_recreated is from 200 ({why}) to 60000, got {absent_ms}"


SPECS: tuple[FaultSpec, ...] = (
    FaultSpec(
        name="topic_setting",
        label="topic setting changed",
        colour="#1a5276",
        target_kind="topic",
        default_target="topic",
        make=TopicSetting,
        parameters={"setting": "", "value": ""},
        problem=_setting_problem,
    ),
    FaultSpec(
        name="partitions_added",
        label="partitions added",
        colour="#0e6655",
        target_kind="topic",
        default_target="topic",
        make=PartitionsAdded,
        parameters={"count": 1},
        problem=_count_problem,
    ),
    FaultSpec(
        name="records_deleted",
        label="records deleted",
        colour="#7e5109",
        target_kind="topic",
        default_target="topic",
        make=RecordsDeleted,
        parameters={"keep": 0},
        problem=_keep_problem,
    ),
    FaultSpec(
        name="topic_recreated",
        label="topic deleted and created anew",
        colour="#78281f",
        target_kind="topic",
        default_target="topic",
        make=TopicRecreated,
        parameters={"absent_ms": 1000},
        problem=_absent_problem,
    ),
)
