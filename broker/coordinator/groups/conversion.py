"""A group with members changes its protocol (KIP-848, online upgrade and downgrade): which groups may change, and what
is written.

A classic group of consumers becomes a group of the new protocol when a member of that protocol joins. It becomes a
classic one again when the last such member is gone and classic members are left. `group.consumer.migration.policy`
allows each direction. Each change is one batch: tombstones of the old group, then the records of the new one. The
members keep their ids and their assignments. The generation becomes the epoch, and the epoch the generation. The module
is pure.
Shown by tests/broker_coordinator/test_coordinator_conversion.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from broker.coordinator.groups.classic_group import ClassicGroup, ClassicMember, State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup, ConsumerMember, metadata_hash
from broker.coordinator.groups.draft import Refused, current_record
from broker.coordinator.groups.embedded import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from broker.coordinator.groups.events import Topic
from broker.coordinator.groups.reconcile import Current, MemberState, places
from broker.coordinator.groups.records import (
    Assignment,
    ClassicMetadata,
    CurrentMemberKey,
    GroupEpochKey,
    GroupEpochValue,
    MemberKey,
    MemberValue,
    Partition,
    PatternKey,
    Record,
    TargetEpochKey,
    TargetEpochValue,
    TargetMemberKey,
    TargetMemberValue,
)
from broker.coordinator.schema import SchemaError
from broker.wire.errors import ErrorCode

# -- to the new protocol -----------------------------------------------------------------------------------------------


def upgrade_records(group: ClassicGroup, topics: Mapping[str, Topic], config: GroupConfig) -> list[Record]:
    """The records that turn this classic group into a group of the new protocol. Raises Refused if the group must stay
    classic.

    Whatever the group waited for is cancelled: its members are told to join again. A member that has never synced has
    no partitions yet.
    """
    _check_upgrade(group, config)
    try:
        return list(_upgrade_records(group, topics))
    except SchemaError as error:
        raise _not_upgraded(group, f"the embedded consumer protocol is malformed: {error}") from error


def _check_upgrade(group: ClassicGroup, config: GroupConfig) -> None:
    if not config.is_upgrade_on:
        raise _not_upgraded(group, "online upgrade is disabled")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _not_upgraded(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > config.group_consumer_max_size:
        raise _not_upgraded(group, "the group size exceeds the consumer group maximum size")


def _not_upgraded(group: ClassicGroup, reason: str) -> Refused:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return Refused(ErrorCode.group_id_not_found, message)


def _upgrade_records(group: ClassicGroup, topics: Mapping[str, Topic]) -> Iterator[Record]:
    group_id, generation = group.group_id, group.generation
    taken: set[Partition] = set()
    names: set[str] = set()
    for member in group.members.values():
        value, assigned = _as_consumer(group, member, topics, taken)
        names.update(value.subscribed_topic_names)
        yield MemberKey(group_id=group_id, member_id=member.member_id), value
        yield TargetMemberKey(group_id=group_id, member_id=member.member_id), TargetMemberValue(partitions=assigned)
        current = Current(
            member_epoch=generation,
            previous_member_epoch=generation,
            state=MemberState.STABLE,
            assigned=assigned,
            epochs=dict.fromkeys(places(assigned), generation),
        )
        yield current_record(group_id, member.member_id, current)
    # A rebalance that was under way never ends, so the members have the assignments from before it, or none. With an
    # unknown hash the next heartbeat asks for an assignment. The member that brought the upgrade asks for one by its
    # new subscription only, and a static one may have that of the member that it replaces.
    is_assigned = group.state is State.STABLE
    hashed = metadata_hash({name: topics[name] for name in names if name in topics}) if is_assigned else 0
    yield GroupEpochKey(group_id=group_id), GroupEpochValue(epoch=generation, metadata_hash=hashed)
    yield TargetEpochKey(group_id=group_id), TargetEpochValue(assignment_epoch=generation)


def _as_consumer(
    group: ClassicGroup, member: ClassicMember, topics: Mapping[str, Topic], taken: set[Partition]
) -> tuple[MemberValue, Assignment]:
    subscription = decode_subscription(member.protocols[0][1])
    by_name, extra = decode_assignment(member.assignment)
    if extra:  # the user data would be lost, and the member's assignor may need it
        raise _not_upgraded(group, "an unsupported custom assignor is in use")
    value = MemberValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicMetadata(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
    )
    return value, _with_one_owner(by_name, topics, taken)


def _with_one_owner(
    by_name: Mapping[str, frozenset[int]], topics: Mapping[str, Topic], taken: set[Partition]
) -> Assignment:
    """Keeps only partitions that exist and that no other member has. A client's assignor may have given one partition
    to two members."""
    assigned: dict[UUID, frozenset[int]] = {}
    for name, partitions in by_name.items():
        topic = topics.get(name)
        if topic is None:
            continue
        kept = frozenset(
            index for index in partitions if 0 <= index < topic.partitions and (topic.topic_id, index) not in taken
        )
        if kept:
            assigned[topic.topic_id] = kept
            taken.update((topic.topic_id, index) for index in kept)
    return assigned


# -- to the classic protocol -------------------------------------------------------------------------------------------


def is_downgrade_due(group: ConsumerGroup, leaving: Collection[str], config: GroupConfig) -> bool:
    """Whether only classic members are left after `leaving` have left, and the group may become a classic one."""
    left = [member for member_id, member in group.members.items() if member_id not in leaving]
    if not config.is_downgrade_on or not left or len(left) > config.group_max_size:
        return False
    return all(member.value.classic is not None for member in left)


def is_last_replaced(group: ConsumerGroup, instance_id: str | None, config: GroupConfig) -> bool:
    """Whether a classic member with this instance id replaces the last member of the new protocol."""
    holder = None if instance_id is None else group.static_members.get(instance_id)
    if holder is None or not config.is_downgrade_on or len(group.members) > config.group_max_size:
        return False
    others = [member for member_id, member in group.members.items() if member_id != holder]
    return group.members[holder].value.classic is None and all(member.value.classic is not None for member in others)


def as_classic_group(group: ConsumerGroup, names: Mapping[UUID, str], *, state_timestamp_ms: int) -> ClassicGroup:
    """The classic group with these members, who are all classic. It is stable, and their targets are its assignments.

    The members may still have other partitions, and none of them has been the leader. So the caller begins a rebalance,
    unless every member has exactly its target.
    """
    classic = ClassicGroup(group.group_id, state_timestamp_ms=state_timestamp_ms)
    for member in group.members.values():
        classic.add(_as_classic(member))
    classic.protocol_type = PROTOCOL_TYPE
    classic.generation = group.epoch
    classic.protocol = classic.select_protocol()
    classic.state = State.STABLE
    for each in classic.members.values():
        version = version_of(each.metadata(classic.protocol))
        each.assignment = encode_assignment(group.targets.get(each.member_id, {}), names, version=version)
    return classic


def _as_classic(member: ConsumerMember) -> ClassicMember:
    value, classic = member.value, member.value.classic
    assert classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=value.instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=classic.protocols,
    )


# -- both --------------------------------------------------------------------------------------------------------------


def tombstones(group: ConsumerGroup) -> Iterator[Record]:
    """Tombstones for all records of a group of the new protocol."""
    group_id = group.group_id
    for member_id in sorted(group.members.keys() | group.targets.keys()):
        yield CurrentMemberKey(group_id=group_id, member_id=member_id), None
        yield TargetMemberKey(group_id=group_id, member_id=member_id), None
        yield MemberKey(group_id=group_id, member_id=member_id), None
    for pattern in sorted(group.resolved):
        yield PatternKey(group_id=group_id, pattern=pattern), None
    yield TargetEpochKey(group_id=group_id), None
    yield GroupEpochKey(group_id=group_id), None
