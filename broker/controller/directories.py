"""Log directories of brokers and of replicas (KIP-858): which are valid, and where replicas lie. Pure functions.

A broker registers the ids of its log directories that work. A replica has the id of its directory, or None (Kafka's
UNASSIGNED) until its broker has told it. If a broker has a single directory, a new replica is in that one from the
beginning, so such a broker need not tell anything. AssignReplicasToDirs is Kafka's
ReplicationControlManager.handleAssignReplicasToDirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from broker.controller.brokers import check_epoch
from broker.controller.directory_types import (
    AssignedReplica,
    AssignReplicas,
    AssignReplicasResponse,
    ReplicaPlace,
)
from broker.controller.elections import able, change_partition, is_unclean_allowed, leaders_allowed
from broker.controller.eligible import min_isr_of
from broker.controller.image import NO_LEADER, MetadataImage, PartitionState
from broker.controller.outcome import Outcome, refusal
from broker.controller.records import PartitionChangeRecord
from broker.controller.replay import apply_change
from broker.wire.errors import ErrorCode


def assign_replicas(image: MetadataImage, request: AssignReplicas, *, unclean: bool) -> Outcome:
    error = check_epoch(image, request.broker_id, request.broker_epoch)
    if error != ErrorCode.none:
        return Outcome(response=refusal(request, error))
    records: list[PartitionChangeRecord] = []
    answers: list[AssignedReplica] = []
    decided: set[tuple[UUID, int]] = set()
    for place in request.places:
        error = _place_error(image, request.broker_id, place)
        if error == ErrorCode.none and place.topic_id is not None:
            key = (place.topic_id, place.partition)
            if key in decided:  # named twice: a replica lies in one directory
                error = ErrorCode.invalid_request
            else:
                decided.add(key)
                records += _assigned(image, request.broker_id, key, place.directory, unclean=unclean)
        answers.append(AssignedReplica(place=place, error_code=error))
    response = AssignReplicasResponse(error_code=ErrorCode.none, replicas=tuple(answers))
    return Outcome(response=response, records=tuple(records))


def _place_error(image: MetadataImage, broker_id: int, place: ReplicaPlace) -> int:
    topic = image.topic_by_id(place.topic_id)
    if topic is None:
        return ErrorCode.unknown_topic_id
    if not 0 <= place.partition < len(topic.partitions):
        return ErrorCode.unknown_topic_or_partition
    if broker_id not in topic.partitions[place.partition].replicas:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.none


def _assigned(
    image: MetadataImage, broker_id: int, key: tuple[UUID, int], directory: UUID | None, *, unclean: bool
) -> Iterable[PartitionChangeRecord]:
    """The record with the new directory. If that directory is offline, the replica also leaves the ISR. If it is online
    and the partition has no leader, the replica may become it."""
    topic_id, partition = key
    topic = image.topics[image.topic_names[topic_id]]
    state = topic.partitions[partition]
    if state.directory_of(broker_id) == directory:
        return
    directories = tuple(
        directory if replica == broker_id else state.directory_of(replica) for replica in state.replicas
    )
    record = PartitionChangeRecord(topic_id=topic_id, partition=partition, directories=directories)
    yield record
    state = apply_change(state, record)
    partitions = (*topic.partitions[:partition], state, *topic.partitions[partition + 1 :])
    image = replace(image, topics={**image.topics, topic.name: replace(topic, partitions=partitions)})
    is_offline = image.has_offline(broker_id, topic_id, partition)
    if not (is_offline and broker_id in state.isr) and state.leader != NO_LEADER:
        return
    isr = tuple(replica for replica in state.isr if replica != broker_id) if is_offline else state.isr
    change = change_partition(
        state,
        topic_id,
        partition,
        isr=isr,
        may_lead=able(image, leaders_allowed(image), topic_id, partition),
        unclean=is_unclean_allowed(image, topic.name, unclean),
        min_isr=min_isr_of(image, topic.name),
    )
    if change is not None:
        yield change


def default_directories(image: MetadataImage, replicas: tuple[int, ...]) -> tuple[UUID | None, ...]:
    """The directories of new replicas: those of brokers with a single one. () if no replica has one."""
    found = tuple(image.only_directory(replica) for replica in replicas)
    return found if any(each is not None for each in found) else ()


def with_directories(
    image: MetadataImage, state: PartitionState, record: PartitionChangeRecord
) -> PartitionChangeRecord:
    """The record of a reassignment with the directories of its replicas, if it changes the replicas. A replica that is
    new lies where its broker's replicas lie, if that broker has one log directory."""
    if record.replicas is None:
        return record
    found = tuple(
        state.directory_of(replica) if replica in state.replicas else image.only_directory(replica)
        for replica in record.replicas
    )
    return replace(record, directories=found) if any(each is not None for each in found) else record
