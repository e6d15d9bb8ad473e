"""CreateTopics, CreatePartitions, DeleteTopics. Pure functions from image and request to records and answer."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from broker.controller.config import ControllerConfig
from broker.controller.directories import default_directories
from broker.controller.elections import leaders_allowed
from broker.controller.image import NO_LEADER, TOPIC_RESOURCE, MetadataImage, TopicState
from broker.controller.outcome import Outcome
from broker.controller.placement import place_replicas
from broker.controller.records import ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from broker.controller.topic_configs import topic_config_problem
from broker.controller.topic_types import (
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsResponse,
    CreateTopics,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicOutcome,
)
from broker.wire.errors import ErrorCode

PARTITIONS_MAX = 2_000  # per request (Kafka: 10,000), because the decision blocks the event loop, 0.05 ms for each
NAME_LENGTH_MAX = 249  # a directory "<name>-<partition>" must fit a file name
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


_NO_ROOM = f"More than {PARTITIONS_MAX} partitions in one request, or more in all than brokers can keep open"


def _room(image: MetadataImage, config: ControllerConfig) -> int:
    """How many partitions one request may create."""
    present = sum(len(topic.partitions) for topic in image.topics.values())
    return min(PARTITIONS_MAX, max(0, config.partitions_max - present))


class _Refused(Exception):
    def __init__(self, error_code: int, message: str | None) -> None:
        super().__init__(message)
        self.error_code, self.message = error_code, message


def create_topics(
    image: MetadataImage, request: CreateTopics, *, config: ControllerConfig, rng: random.Random
) -> Outcome:
    records: list[MetadataRecord] = []
    created: list[CreatedTopic] = []
    times = Counter(topic.name for topic in request.topics)
    budget = _room(image, config)
    twins = {_metric_name(name): name for name in reversed(list(image.topics))}  # with the topics before this one
    for topic in {each.name: each for each in request.topics}.values():
        try:
            if times[topic.name] > 1:
                raise _Refused(ErrorCode.invalid_request, f"Topic {topic.name} is named twice in the request")
            _check_name(image, topic.name, twins)
            _check_configs(topic)
            placement = _placement(image, topic, config, rng, budget)
        except _Refused as refused:
            created.append(_not_created(topic, refused))
            continue
        budget -= len(placement)
        topic_id = UUID(int=rng.getrandbits(128), version=4)
        new = _topic_records(image, topic, topic_id, placement)
        twins.setdefault(_metric_name(topic.name), topic.name)
        records += new
        created.append(
            CreatedTopic(
                name=topic.name,
                error_code=ErrorCode.none,
                error_message=None,
                topic_id=None if request.validate_only else topic_id,
                partitions=len(placement),
                replication_factor=len(placement[0]),
                configs={name: value for name, value in topic.configs.items() if value is not None},
            )
        )
    response = CreateTopicsResponse(error_code=ErrorCode.none, topics=tuple(created))
    return Outcome(response=response, records=() if request.validate_only else tuple(records))


def _not_created(topic: NewTopic, refused: _Refused) -> CreatedTopic:
    return CreatedTopic(
        name=topic.name,
        error_code=refused.error_code,
        error_message=refused.message,
        topic_id=None,
        partitions=-1,
        replication_factor=-1,
        configs={},
    )


def is_legal_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and name not in (".", "..") and len(name) <= NAME_LENGTH_MAX


def _metric_name(name: str) -> str:
    """Metric names replace '.' by '_', so topics with the same one would share their metrics."""
    return name.replace(".", "_")


def _check_name(image: MetadataImage, name: str, twins: Mapping[str, str]) -> None:
    """`twins`: by metric name, the first topic that has it."""
    if not is_legal_name(name):
        raise _Refused(
            ErrorCode.invalid_topic_exception,
            f"Topic name {name[: NAME_LENGTH_MAX + 1]!r} is illegal: 1 to {NAME_LENGTH_MAX} of a-z A-Z 0-9 . _ -",
        )
    if name in image.topics:
        raise _Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    twin = twins.get(_metric_name(name))
    if twin is not None:
        raise _Refused(ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic '{twin}'")


def _check_configs(topic: NewTopic) -> None:
    for name, value in topic.configs.items():
        problem = topic_config_problem(name, value)
        if problem is not None:
            raise _Refused(ErrorCode.invalid_config, problem)


def _placement(
    image: MetadataImage, topic: NewTopic, config: ControllerConfig, rng: random.Random, budget: int
) -> tuple[tuple[int, ...], ...]:
    if topic.assignments:
        placement = _manual_placement(image, topic)
    else:
        placement = _striped_placement(image, topic, config, rng, budget)
    if len(placement) > budget:
        raise _Refused(ErrorCode.policy_violation, _NO_ROOM)
    may_lead = leaders_allowed(image)
    if any(not may_lead & set(replicas) for replicas in placement):
        raise _Refused(ErrorCode.invalid_replica_assignment, "Every replica of a partition is fenced or shutting down")
    return placement


def _striped_placement(
    image: MetadataImage, topic: NewTopic, config: ControllerConfig, rng: random.Random, budget: int
) -> tuple[tuple[int, ...], ...]:
    partitions = config.num_partitions if topic.partitions == -1 else topic.partitions
    replication_factor = (
        config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    )
    if replication_factor < 1:
        raise _Refused(
            ErrorCode.invalid_replication_factor,
            f"Replication factor must be larger than 0, got {replication_factor}",
        )
    if partitions < 1:
        raise _Refused(ErrorCode.invalid_partitions, f"Number of partitions must be larger than 0, got {partitions}")
    if partitions > budget:
        raise _Refused(ErrorCode.policy_violation, _NO_ROOM)
    try:
        return _place(image, partitions, replication_factor, rng)
    except _Refused as refused:
        raise _Refused(
            refused.error_code, f"Unable to replicate the partition {replication_factor} time(s): {refused}"
        ) from None


def _place(
    image: MetadataImage, partitions: int, replication_factor: int, rng: random.Random
) -> tuple[tuple[int, ...], ...]:
    """New replicas, on brokers with a log directory that is not cordoned. The texts are those of Kafka's
    StripedReplicaPlacer."""
    able = {broker_id for broker_id, broker in image.brokers.items() if broker.takes_replicas}
    live = able & leaders_allowed(image)
    if not live:
        cause = "All brokers are currently fenced, or have all their log directories cordoned."
        raise _Refused(ErrorCode.invalid_replication_factor, cause)
    if replication_factor > len(able):
        raise _Refused(
            ErrorCode.invalid_replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(able)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    return place_replicas(
        live=sorted(live),
        fenced=sorted(able - live),
        partitions=partitions,
        replication_factor=replication_factor,
        rng=rng,
        racks={broker_id: broker.rack for broker_id, broker in image.brokers.items()},
    )


def _manual_placement(image: MetadataImage, topic: NewTopic) -> tuple[tuple[int, ...], ...]:
    if topic.partitions != -1 or topic.replication_factor != -1:
        raise _Refused(ErrorCode.invalid_request, "A manual assignment excludes partitions and replication factor")
    if set(topic.assignments) != set(range(len(topic.assignments))):
        raise _Refused(ErrorCode.invalid_replica_assignment, "Partitions must be numbered 0, 1, 2 ..")
    placement = tuple(topic.assignments[partition] for partition in range(len(topic.assignments)))
    for partition, replicas in enumerate(placement):
        if not replicas or len(set(replicas)) != len(replicas) or len(replicas) != len(placement[0]):
            raise _Refused(
                ErrorCode.invalid_replica_assignment,
                f"Partition {partition}: replicas {replicas} are empty, repeated, or not as many as partition 0 has",
            )
        unknown = set(replicas) - set(image.brokers)
        if unknown:
            raise _Refused(
                ErrorCode.invalid_replica_assignment, f"Partition {partition}: no such broker {sorted(unknown)}"
            )
    return placement


def _topic_records(
    image: MetadataImage, topic: NewTopic, topic_id: UUID, placement: tuple[tuple[int, ...], ...]
) -> tuple[MetadataRecord, ...]:
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    for name, value in topic.configs.items():
        records.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value))
    records += [_partition_record(image, topic_id, partition, each) for partition, each in enumerate(placement)]
    return tuple(records)


def _partition_record(
    image: MetadataImage, topic_id: UUID, partition: int, replicas: tuple[int, ...]
) -> PartitionRecord:
    may_lead = leaders_allowed(image)
    isr = tuple(replica for replica in replicas if replica in may_lead)
    return PartitionRecord(
        topic_id=topic_id,
        partition=partition,
        replicas=replicas,
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
        directories=default_directories(image, replicas),
    )


def create_partitions(
    image: MetadataImage, request: CreatePartitions, *, config: ControllerConfig, rng: random.Random
) -> Outcome:
    """Add partitions to existing topics (KIP-195). Keys are then hashed over more partitions than before."""
    records: list[MetadataRecord] = []
    answers: list[TopicOutcome] = []
    times = Counter(topic.topic for topic in request.topics)
    budget = _room(image, config)
    for wanted in {each.topic: each for each in request.topics}.values():
        try:
            if times[wanted.topic] > 1:
                raise _Refused(ErrorCode.invalid_request, f"Topic {wanted.topic} is named twice in the request")
            new = _new_partitions(image, wanted, budget, rng)
        except _Refused as refused:
            answers.append(
                TopicOutcome(topic=wanted.topic, error_code=refused.error_code, error_message=refused.message)
            )
            continue
        budget -= len(new)
        records += new
        answers.append(TopicOutcome(topic=wanted.topic, error_code=ErrorCode.none, error_message=None))
    response = CreatePartitionsResponse(error_code=ErrorCode.none, topics=tuple(answers))
    return Outcome(response=response, records=() if request.validate_only else tuple(records))


def _new_partitions(
    image: MetadataImage, wanted: NewPartitions, budget: int, rng: random.Random
) -> list[PartitionRecord]:
    topic = image.topics.get(wanted.topic)
    if topic is None:
        raise _Refused(ErrorCode.unknown_topic_or_partition, f"No topic '{wanted.topic}'")
    present = len(topic.partitions)
    added = wanted.count - present
    if added == 0:
        raise _Refused(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if added < 0:
        raise _Refused(
            ErrorCode.invalid_partitions,
            f"The topic {wanted.topic} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    if added > budget:
        raise _Refused(ErrorCode.policy_violation, _NO_ROOM)
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignments is not None:
        placement = _manual_additions(image, wanted.assignments, added, present, replication_factor)
    else:
        placement = _place(image, added, replication_factor, rng)
    return [_partition_record(image, topic.topic_id, present + index, each) for index, each in enumerate(placement)]


def _manual_additions(
    image: MetadataImage,
    assignments: tuple[tuple[int, ...], ...],
    added: int,
    present: int,
    replication_factor: int,
) -> tuple[tuple[int, ...], ...]:
    if len(assignments) != added:
        raise _Refused(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified.",
        )
    may_lead = leaders_allowed(image)
    for index, replicas in enumerate(assignments):
        partition = present + index
        if len(set(replicas)) != len(replicas) or len(replicas) != replication_factor:
            raise _Refused(
                ErrorCode.invalid_replica_assignment,
                f"Partition {partition}: replicas {replicas} are repeated, or not {replication_factor} as the others",
            )
        unknown = set(replicas) - set(image.brokers)
        if unknown:
            raise _Refused(
                ErrorCode.invalid_replica_assignment, f"Partition {partition}: no such broker {sorted(unknown)}"
            )
        if not may_lead & set(replicas):
            raise _Refused(
                ErrorCode.invalid_replica_assignment,
                f"Every replica of partition {partition} is fenced or shutting down",
            )
    return assignments


def delete_topics(image: MetadataImage, request: DeleteTopics) -> Outcome:
    records: list[MetadataRecord] = []
    deleted: list[DeletedTopic] = []
    gone: set[UUID] = set()
    wanted: list[tuple[str | None, UUID | None, TopicState | None]] = []
    wanted += [(name, None, image.topics.get(name)) for name in request.names]
    wanted += [(None, topic_id, image.topic_by_id(topic_id)) for topic_id in request.topic_ids]
    for name, topic_id, topic in wanted:
        if topic is None or topic.topic_id in gone:
            error = ErrorCode.unknown_topic_or_partition if topic_id is None else ErrorCode.unknown_topic_id
            deleted.append(DeletedTopic(name=name, topic_id=topic_id, error_code=error))
            continue
        gone.add(topic.topic_id)
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        deleted.append(DeletedTopic(name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.none))
    response = DeleteTopicsResponse(error_code=ErrorCode.none, topics=tuple(deleted))
    return Outcome(response=response, records=tuple(records))
