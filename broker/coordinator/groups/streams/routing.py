"""Where interactive queries of a streams group are answered: the partitions of each member with an endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.groups.streams.configured import endpoint_partitions
from broker.coordinator.groups.streams.events import EndpointPartitions, sets_of
from broker.coordinator.groups.streams.group import StreamsGroup, StreamsMember


def endpoints_told(
    group: StreamsGroup, member: StreamsMember, topic_partitions: Mapping[str, int]
) -> tuple[EndpointPartitions, ...]:
    """The endpoints of all members, that of `member` last. What a member has is kept until its tasks change."""
    others = [each for member_id, each in sorted(group.members.items()) if member_id != member.member_id]
    found = (_endpoint(group, each, topic_partitions) for each in (*others, member))
    return tuple(each for each in found if each is not None)


def _endpoint(
    group: StreamsGroup, member: StreamsMember, topic_partitions: Mapping[str, int]
) -> EndpointPartitions | None:
    endpoint, configured = member.value.user_endpoint, group.configured
    if endpoint is None:
        return None
    kept = group.endpoints.get(member.member_id)
    if kept is not None:
        return kept
    assigned = member.current.assigned
    if configured is None or configured.subtopologies is None:
        return EndpointPartitions(endpoint=endpoint, active=(), standby=())
    made = EndpointPartitions(
        endpoint=endpoint,
        active=endpoint_partitions(sets_of(assigned.active), configured, topic_partitions),
        standby=endpoint_partitions(assigned.standby, configured, topic_partitions),
    )
    group.endpoints[member.member_id] = made
    return made
