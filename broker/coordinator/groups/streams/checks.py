"""Which heartbeats of members a streams group refuses, with the messages of Apache Kafka."""

from __future__ import annotations

from broker.coordinator.groups.consumer_group import JOIN_EPOCH
from broker.coordinator.groups.draft import Refused
from broker.coordinator.groups.streams.configured import ConfiguredTopology
from broker.coordinator.groups.streams.events import StreamsHeartbeat, sets_of
from broker.coordinator.groups.streams.group import StreamsGroup, StreamsMember
from broker.coordinator.groups.streams.tasks import TaskMap
from broker.coordinator.groups.streams.topology import Topology
from broker.wire.errors import ErrorCode

_REJOIN = "The member must abandon all its partitions and rejoin."


def checked_leaver(group: StreamsGroup, member_id: str) -> StreamsMember:
    member = group.members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.unknown_member_id, text)
    return member


def checked_member(group: StreamsGroup, event: StreamsHeartbeat) -> StreamsMember:
    """Raises Refused if the sender is no member, or if its epoch is not the present one. The previous epoch is allowed
    if the answer with the present one was lost: then the member owns no more than it has."""
    member, epoch = checked_leaver(group, event.member_id), event.member_epoch
    current = member.current
    known = f"({epoch}) than the one known by the group coordinator ({current.member_epoch}). {_REJOIN}"
    if epoch > current.member_epoch:
        text = f"The streams group member has a greater member epoch {known}"
        raise Refused(ErrorCode.fenced_member_epoch, text)
    is_answer_lost = epoch == current.previous_member_epoch and _owns_no_more(member, event)
    if epoch < current.member_epoch and not is_answer_lost:
        text = f"The streams group member has a smaller member epoch {known}"
        raise Refused(ErrorCode.fenced_member_epoch, text)
    return member


def _owns_no_more(member: StreamsMember, event: StreamsHeartbeat) -> bool:
    owned, assigned = event.owned, member.current.assigned
    return owned is not None and (
        _is_within(owned.active, sets_of(assigned.active))
        and _is_within(owned.standby, assigned.standby)
        and _is_within(owned.warmup, assigned.warmup)
    )


def _is_within(owned: TaskMap, assigned: TaskMap) -> bool:
    nothing: frozenset[int] = frozenset()
    return all(indexes <= assigned.get(subtopology_id, nothing) for subtopology_id, indexes in owned.items())


def checked_topology(group: StreamsGroup, event: StreamsHeartbeat) -> Topology:
    """The topology of the group after this heartbeat. The first member brings it. It cannot change: a member with an
    older one is told so, and any other is refused."""
    known, brought = group.topology, event.topology
    if brought is None:
        if known is None:
            raise Refused(ErrorCode.unknown_server_error, "The topology is null and the group topology is also null.")
        return known
    if known is None or known.epoch > brought.epoch:
        return brought if known is None else known
    is_same = known.epoch == brought.epoch and _by_id(known) == _by_id(brought)
    if not is_same:
        raise Refused(ErrorCode.invalid_request, "Topology updates are not supported yet.")
    return known


def _by_id(topology: Topology) -> dict[str, object]:
    return {each.subtopology_id: each for each in topology.subtopologies}


def check_owned(configured: ConfiguredTopology, event: StreamsHeartbeat) -> None:
    """Raises Refused if the member says that it owns a task that does not exist."""
    subtopologies, owned = configured.subtopologies, event.owned
    if not configured.is_ready or subtopologies is None or owned is None or event.member_epoch == JOIN_EPOCH:
        return
    for tasks in (owned.active, owned.standby, owned.warmup):
        for subtopology_id, indexes in tasks.items():
            if subtopology_id not in subtopologies:
                text = f"Subtopology {subtopology_id} does not exist in the topology."
                raise Refused(ErrorCode.invalid_request, text)
            count = subtopologies[subtopology_id].tasks
            for index in sorted(indexes):
                if not 0 <= index < count:
                    text = (
                        f"Task {index} for subtopology {subtopology_id} is invalid. "
                        f"Number of tasks for this subtopology: {count}"
                    )
                    raise Refused(ErrorCode.invalid_request, text)
