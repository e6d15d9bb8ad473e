"""CreateTopics, DeleteTopics, AlterConfigs. Pure functions from image and request to records and answer."""

from __future__ import annotations

import random
import re
from collections import Counter
from uuid import UUID

from broker.controller.config import ControllerConfig
from broker.controller.elections import UNCLEAN_ELECTION, changes_for_offline, leaders_allowed
from broker.controller.image import BROKER_RESOURCE, NO_LEADER, TOPIC_RESOURCE, MetadataImage, TopicState, replay
from broker.controller.outcome import Outcome
from broker.controller.placement import place_replicas
from broker.controller.records import ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from broker.controller.topic_configs import topic_config_problem
from broker.controller.types import (
    AlterConfigs,
    AlterConfigsResponse,
    AlteredConfig,
    ConfigChange,
    CreatedTopic,
    CreateTopics,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsResponse,
    NewTopic,
)
from broker.wire.errors import ErrorCode

PARTITIONS_MAX = 10_000  # per request, as Kafka's: one entry must stay a moderate batch
NAME_LENGTH_MAX = 249  # a directory "<name>-<partition>" must fit a file name
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class _Refused(Exception):
    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def create_topics(
    image: MetadataImage, request: CreateTopics, *, config: ControllerConfig, rng: random.Random
) -> Outcome:
    records: list[MetadataRecord] = []
    created: list[CreatedTopic] = []
    times = Counter(topic.name for topic in request.topics)
    budget = PARTITIONS_MAX
    draft = image  # with the topics before this one, so that two colliding names in one request are seen
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise _Refused(ErrorCode.invalid_request, f"Topic {topic.name} is named twice in the request")
            _check_name(draft, topic.name)
            _check_configs(topic)
            placement = _placement(image, topic, config, rng, budget)
        except _Refused as refused:
            created.append(_not_created(topic, refused))
            continue
        budget -= len(placement)
        topic_id = UUID(int=rng.getrandbits(128), version=4)
        new = _topic_records(image, topic, topic_id, placement)
        draft = replay(draft, new, offset=draft.offset + 1, epoch=draft.epoch)
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
        error_message=str(refused),
        topic_id=None,
        partitions=-1,
        replication_factor=-1,
        configs={},
    )


def _check_name(image: MetadataImage, name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", "..") or len(name) > NAME_LENGTH_MAX:
        raise _Refused(
            ErrorCode.invalid_topic_exception,
            f"Topic name {name[: NAME_LENGTH_MAX + 1]!r} is illegal: 1 to {NAME_LENGTH_MAX} of a-z A-Z 0-9 . _ -",
        )
    if name in image.topics:
        raise _Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    # Metric names replace '.' by '_', so such topics would share theirs.
    twin = next((other for other in image.topics if other.replace(".", "_") == name.replace(".", "_")), None)
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
        raise _Refused(ErrorCode.policy_violation, f"More than {PARTITIONS_MAX} partitions in one request")
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
    live = sorted(leaders_allowed(image))
    fenced = sorted(set(image.brokers) - set(live))
    if partitions < 1:
        raise _Refused(ErrorCode.invalid_partitions, f"Number of partitions must be larger than 0, got {partitions}")
    if partitions > budget:
        raise _Refused(ErrorCode.policy_violation, f"More than {PARTITIONS_MAX} partitions in one request")
    if replication_factor < 1:
        raise _Refused(
            ErrorCode.invalid_replication_factor,
            f"Replication factor must be larger than 0, got {replication_factor}",
        )
    if not live:
        raise _Refused(ErrorCode.invalid_replication_factor, "All brokers are currently fenced or shutting down")
    if replication_factor > len(image.brokers):
        raise _Refused(
            ErrorCode.invalid_replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(image.brokers)} broker(s) are registered.",
        )
    return place_replicas(
        live=live, fenced=fenced, partitions=partitions, replication_factor=replication_factor, rng=rng
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
    may_lead = leaders_allowed(image)
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    for name, value in topic.configs.items():
        records.append(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value))
    for partition, replicas in enumerate(placement):
        isr = tuple(replica for replica in replicas if replica in may_lead)
        records.append(
            PartitionRecord(
                topic_id=topic_id,
                partition=partition,
                replicas=replicas,
                isr=isr,
                leader=isr[0] if isr else NO_LEADER,
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return tuple(records)


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


def alter_configs(image: MetadataImage, request: AlterConfigs, *, unclean: bool) -> Outcome:
    records: list[MetadataRecord] = []
    answers: list[AlteredConfig] = []
    for change in request.resources:
        try:
            _check_resource(image, change)
        except _Refused as refused:
            answers.append(_altered(change, refused.error_code, str(refused)))
            continue
        for name, value in change.changes.items():
            records.append(
                ConfigRecord(
                    resource_type=change.resource_type, resource_name=change.resource_name, name=name, value=value
                )
            )
        answers.append(_altered(change, ErrorCode.none, None))
    if any(isinstance(record, ConfigRecord) and record.name == UNCLEAN_ELECTION for record in records):
        draft = replay(image, tuple(records), offset=image.offset + 1, epoch=image.epoch)
        records += changes_for_offline(draft, leaders_allowed(draft), unclean_default=unclean)
    response = AlterConfigsResponse(error_code=ErrorCode.none, resources=tuple(answers))
    return Outcome(response=response, records=tuple(records))


def _altered(change: ConfigChange, error_code: int, message: str | None) -> AlteredConfig:
    return AlteredConfig(
        resource_type=change.resource_type,
        resource_name=change.resource_name,
        error_code=error_code,
        error_message=message,
    )


def _check_resource(image: MetadataImage, change: ConfigChange) -> None:
    if change.resource_type == TOPIC_RESOURCE:
        if change.resource_name not in image.topics:
            raise _Refused(ErrorCode.unknown_topic_or_partition, f"No topic '{change.resource_name}'")
        for name, value in change.changes.items():
            # Deleting needs a known name only.
            problem = topic_config_problem(name, value) if value is not None else topic_config_problem(name, "0")
            if problem is not None and (value is not None or problem.startswith("Unknown")):
                raise _Refused(ErrorCode.invalid_config, problem)
    elif change.resource_type == BROKER_RESOURCE:
        known = {"", *(str(broker_id) for broker_id in image.brokers)}
        if change.resource_name not in known:
            raise _Refused(ErrorCode.invalid_request, f"No broker '{change.resource_name}'")
        if change.changes.get(UNCLEAN_ELECTION) not in (None, "true", "false"):
            raise _Refused(ErrorCode.invalid_config, f"{UNCLEAN_ELECTION}: expected true or false")
    else:
        raise _Refused(ErrorCode.invalid_request, f"Configs of resource type {change.resource_type} are not kept")
