"""Changes that an admin makes to the offsets of a share group: new start offsets, and topics that the group forgets.

The share coordinators own the offsets. The group notes what has begun. The caller lets the share coordinators
initialize or delete the states, and then tells the group. Shown by
tests/broker_coordinator/test_coordinator_share_groups.py.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from broker.coordinator.groups.consumer_group import FIRST_EPOCH
from broker.coordinator.groups.records import Assignment
from broker.node.features.share_groups.groups.events import AlteredShares, AlterShares, DeletedShares, DeleteShares
from broker.node.features.share_groups.groups.group import ShareGroup, with_partitions, without_partitions
from broker.node.features.share_groups.groups.protocol import ShareDraft, ShareProtocol
from broker.node.features.share_groups.groups.records import GroupEpoch, Kind, States, TopicPartitions
from broker.wire.errors import ErrorCode

_NOT_EMPTY = "The group is not empty."
NO_OFFSETS = (ErrorCode.unknown_topic_or_partition, "There is no offset information to delete.")
UNKNOWN_TOPIC = (ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")


def alter(draft: ShareDraft, event: AlterShares, protocol: ShareProtocol, now_ms: int) -> AlteredShares:
    """Begins to set new start offsets. As in Kafka, a group that does not exist is created. Partitions that do not
    exist are left out."""
    group = draft.group
    if group.members:
        return AlteredShares(error_code=ErrorCode.non_empty_group, error_message=_NOT_EMPTY)
    offsets: dict[UUID, dict[int, int]] = {}
    topics: dict[UUID, TopicPartitions] = {}
    for name, asked in event.offsets.items():
        topic = protocol.topics.get(name)
        found = {} if topic is None else {index: at for index, at in asked.items() if 0 <= index < topic.partitions}
        if topic is not None and found:
            offsets[topic.topic_id] = found
            topics[topic.topic_id] = TopicPartitions(name=name, partitions=frozenset(found))
            group.begun_ms[topic.topic_id] = now_ms
    if topics:
        if group.epoch == FIRST_EPOCH:  # nobody joined: this makes the group
            draft.add(Kind.GROUP_EPOCH, GroupEpoch(epoch=FIRST_EPOCH, metadata_hash=0))
        # Partitions that have a state stay in `initialized`. So they keep it if the new state cannot be made.
        protocol.note_initializing(draft, without_partitions(topics, group.initialized()))
    return AlteredShares(error_code=ErrorCode.none, to_initialize=offsets, state_epoch=group.epoch)


def begin_deletion(draft: ShareDraft, event: DeleteShares, protocol: ShareProtocol) -> DeletedShares:
    """Begins to delete the states of topics. A topic whose deletion has already begun is deleted again, because the
    last attempt may have failed."""
    group = draft.group
    if group.members:
        return DeletedShares(error_code=ErrorCode.non_empty_group, error_message=_NOT_EMPTY)
    errors: dict[str, tuple[ErrorCode, str]] = {}
    partitions: dict[UUID, frozenset[int]] = {}
    for name in event.topics:
        topic = protocol.topics.get(name)
        if topic is None:
            errors[name] = UNKNOWN_TOPIC
        elif topic.topic_id in group.states.initialized:
            partitions[topic.topic_id] = group.states.initialized[topic.topic_id].partitions
        elif topic.topic_id in group.states.deleting:
            partitions[topic.topic_id] = frozenset(range(topic.partitions))
        else:
            errors[name] = NO_OFFSETS
    _note_deletion(draft, protocol, partitions)
    return DeletedShares(error_code=ErrorCode.none, to_delete=partitions, errors=errors)


def begin_deletion_of_all(draft: ShareDraft, protocol: ShareProtocol) -> Assignment:
    partitions = _all_states(draft.group, protocol)
    _note_deletion(draft, protocol, partitions)
    return partitions


def _all_states(group: ShareGroup, protocol: ShareProtocol) -> dict[UUID, frozenset[int]]:
    counts = {topic.topic_id: topic.partitions for topic in protocol.topics.values()}
    begun = with_partitions(group.states.initializing, group.states.initialized)
    found = {topic_id: topic.partitions for topic_id, topic in begun.items()}
    return {**found, **{key: frozenset(range(counts[key])) for key in group.states.deleting if key in counts}}


def _note_deletion(draft: ShareDraft, protocol: ShareProtocol, partitions: Assignment) -> None:
    states = draft.group.states
    names = {topic.topic_id: name for name, topic in protocol.topics.items()}
    after = States(
        initializing={key: each for key, each in states.initializing.items() if key not in partitions},
        initialized={key: each for key, each in states.initialized.items() if key not in partitions},
        deleting={**states.deleting, **{key: names[key] for key in partitions if key in names}},
    )
    if after != states:
        draft.add(Kind.STATES, after)


def deleted(draft: ShareDraft, topic_ids: frozenset[UUID]) -> None:
    states = draft.group.states
    after = replace(states, deleting={key: each for key, each in states.deleting.items() if key not in topic_ids})
    if after != states:
        draft.add(Kind.STATES, after)
