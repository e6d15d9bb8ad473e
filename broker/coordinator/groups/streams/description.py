"""What StreamsGroupDescribe tells about a streams group."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordinator.groups.streams.configured import ConfiguredTopology, InternalTopic
from broker.coordinator.groups.streams.events import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    sets_of,
)
from broker.coordinator.groups.streams.group import StreamsGroup, StreamsMember
from broker.coordinator.groups.streams.tasks import Tasks
from broker.coordinator.groups.streams.topology import TopicInfo, Topology


def described(group: StreamsGroup) -> DescribedStreamsGroup:
    topology, configured = group.topology, group.configured
    assert topology is not None
    is_ready = configured is not None and configured.is_ready
    return DescribedStreamsGroup(
        state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology_epoch=topology.epoch,
        subtopologies=_configured(configured) if configured is not None and is_ready else _stored(topology),
        members=tuple(
            _member(member, group.targets.get(member_id, Tasks()))
            for member_id, member in sorted(group.members.items())
        ),
    )


def _member(member: StreamsMember, target: Tasks) -> DescribedStreamsMember:
    value, assigned = member.value, member.current.assigned
    return DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.current.member_epoch,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=value.user_endpoint,
        client_tags=value.client_tags,
        assignment=Tasks(active=sets_of(assigned.active), standby=assigned.standby, warmup=assigned.warmup),
        target=target,
    )


def _configured(configured: ConfiguredTopology) -> tuple[DescribedSubtopology, ...]:
    """The internal topics with the numbers of partitions that the coordinator has decided."""
    return tuple(
        DescribedSubtopology(
            subtopology_id=subtopology_id,
            source_topics=tuple(sorted(each.source_topics)),
            repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
            state_changelog_topics=_by_name(each.state_changelog_topics.values()),
            repartition_source_topics=_by_name(each.repartition_source_topics.values()),
        )
        for subtopology_id, each in sorted((configured.subtopologies or {}).items())
    )


def _stored(topology: Topology) -> tuple[DescribedSubtopology, ...]:
    """The topology as a member has sent it."""
    return tuple(
        DescribedSubtopology(
            subtopology_id=each.subtopology_id,
            source_topics=tuple(sorted(each.source_topics)),
            repartition_sink_topics=tuple(sorted(each.repartition_sink_topics)),
            state_changelog_topics=_as_sent(each.state_changelog_topics),
            repartition_source_topics=_as_sent(each.repartition_source_topics),
        )
        for each in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
    )


def _as_sent(topics: Iterable[TopicInfo]) -> tuple[InternalTopic, ...]:
    return _by_name(
        InternalTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=topic.configs,
        )
        for topic in topics
    )


def _by_name(topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
    return tuple(sorted(topics, key=lambda topic: topic.name))
