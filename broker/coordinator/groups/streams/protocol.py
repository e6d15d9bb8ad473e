"""Streams groups (KIP-1071): what one StreamsGroupHeartbeat changes, and what happens when a member stays silent for
too long.

A member brings the topology of the application when it joins. The coordinator fits it to the topics of the cluster
(configured.py), and tells the caller which internal topics are missing. A change of members, topology, topics or
settings raises the group epoch. Then the tasks are assigned anew (assignor.py), and the heartbeats bring each member to
its own target, step by step (reconcile.py).
Shown by tests/broker_coordinator/test_coordinator_streams_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.coordinator.groups.assignment_interval import is_assignment_due
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import JOIN_EPOCH, metadata_hash
from broker.coordinator.groups.draft import Refused
from broker.coordinator.groups.events import Topic
from broker.coordinator.groups.streams.assignor import StreamsMemberSpec, assign
from broker.coordinator.groups.streams.checks import check_owned, checked_member, checked_topology
from broker.coordinator.groups.streams.configured import (
    BrokenTopologyError,
    ConfiguredTopology,
    InvalidTopologyError,
    configure,
)
from broker.coordinator.groups.streams.draft import StreamsDraft
from broker.coordinator.groups.streams.events import (
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsSettingsChanged,
    sets_of,
)
from broker.coordinator.groups.streams.group import StreamsGroup, StreamsMember
from broker.coordinator.groups.streams.reconcile import Current, FencedMemberError, MemberState, reconcile
from broker.coordinator.groups.streams.records import NO_TOPOLOGY_EPOCH, Kind, MemberValue, TargetEpoch
from broker.coordinator.groups.streams.routing import endpoints_told
from broker.coordinator.groups.streams.tasks import Tasks
from broker.coordinator.groups.streams.topology import Topology
from broker.wire.errors import ErrorCode

STANDBY_REPLICAS = "num.standby.replicas"
_INITIAL_DELAY = "Assignment delayed due to the configured initial rebalance delay."
_INTERVAL = "Assignment delayed due to the configured assignment interval."


class StreamsProtocol:
    """It changes groups through drafts. Its own state is what it was told about topics and settings."""

    def __init__(self, config: GroupConfig, *, wall_ms: Callable[[int], int]) -> None:
        self._config, self._wall_ms = config, wall_ms
        self.topics: Mapping[str, Topic] = {}
        self._partitions: dict[str, int] = {}
        self.settings = StreamsSettingsChanged()

    def topics_changed(self, topics: Mapping[str, Topic]) -> None:
        self.topics = topics
        self._partitions = {name: topic.partitions for name, topic in topics.items()}

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(self, draft: StreamsDraft, event: StreamsHeartbeat, now_ms: int) -> StreamsHeartbeatResult:
        """Handles the heartbeat of a member that joins or stays. Raises Refused before any record is added."""
        group, was_empty = draft.group, not draft.group.members
        value = self._checked_value(group, event)
        topology = checked_topology(group, event)
        hashed, configured = self._fitted(group, topology)
        check_owned(configured, event)
        self._check_state(group, event)
        is_changed = _write_facts(draft, event.member_id, value, topology)
        group.configured, group.is_metadata_stale = configured, False
        statuses = _stale_status(topology, value)
        self._raise_epoch(draft, hashed, is_needed=is_changed)
        delay_ms = self.settings.initial_delays_ms.get(
            group.group_id, self._config.group_streams_initial_rebalance_delay_ms
        )
        if was_empty and delay_ms > 0 and group.delay_deadline_ms is None:
            group.delay_deadline_ms = now_ms + delay_ms
        statuses += self._assign(draft, now_ms)
        member = group.members[event.member_id]
        before = member.current
        self._reconcile(draft, member, event.owned, now_ms)
        member.session_deadline_ms = now_ms + self._session_timeout_ms(group)
        if event.shutdown_application:
            request_shutdown(group, event.member_id)
        return self._told(group, member, before, event, statuses)

    def _session_timeout_ms(self, group: StreamsGroup) -> int:
        return self.settings.session_timeouts_ms.get(group.group_id, self._config.group_streams_session_timeout_ms)

    def _checked_value(self, group: StreamsGroup, event: StreamsHeartbeat) -> MemberValue:
        """The member's data after this heartbeat. Raises Refused if the sender may not send it."""
        if event.member_epoch != JOIN_EPOCH:
            known = checked_member(group, event).value
        else:
            limit = self._config.group_streams_max_size
            if len(group.members) >= limit:  # as in Kafka, this counts for a member that joins again too
                text = f"The streams group has reached its maximum capacity of {limit} members."
                raise Refused(ErrorCode.group_max_size_reached, text)
            member = group.members.get(event.member_id)
            known = MemberValue() if member is None else member.value
        timeout_ms, topology = event.rebalance_timeout_ms, event.topology
        return MemberValue(
            instance_id=None,
            rack_id=known.rack_id if event.rack_id is None else event.rack_id,
            client_id=event.client_id,
            client_host=event.client_host,
            rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topology_epoch=known.topology_epoch if topology is None else topology.epoch,
            process_id=known.process_id if event.process_id is None else event.process_id,
            user_endpoint=known.user_endpoint if event.user_endpoint is None else event.user_endpoint,
            client_tags=known.client_tags if event.client_tags is None else event.client_tags,
        )

    def _fitted(self, group: StreamsGroup, topology: Topology) -> tuple[int, ConfiguredTopology]:
        """The hash of the topics that the group uses, and its topology with the tasks for them."""
        if group.configured is not None and not group.is_metadata_stale:
            return group.value.metadata_hash, group.configured
        names = _required_topics(topology)
        topics = {name: self.topics[name] for name in names if name in self.topics}
        hashed = metadata_hash(topics) if topics else 0
        if group.configured is not None and hashed == group.value.metadata_hash:
            return hashed, group.configured
        try:
            return hashed, configure(topology, self._partitions)
        except InvalidTopologyError as error:
            raise Refused(ErrorCode.streams_invalid_topology, str(error)) from None
        except BrokenTopologyError as error:
            raise Refused(ErrorCode.unknown_server_error, str(error)) from None  # as Kafka answers

    def _check_state(self, group: StreamsGroup, event: StreamsHeartbeat) -> None:
        """A newer version may have left a state that is not known here. Raises Refused if the member must then join
        again."""
        member = group.members.get(event.member_id)
        if member is None or member.current.state is not MemberState.UNKNOWN:
            return
        try:
            _next_state(group, member, event.owned)
        except FencedMemberError as error:
            raise Refused(ErrorCode.fenced_member_epoch, str(error)) from None

    def _reconcile(self, draft: StreamsDraft, member: StreamsMember, owned: Tasks | None, now_ms: int) -> None:
        group = draft.group
        if member.is_reconciled_to(group.target_epoch):
            return
        after = _next_state(group, member, owned)
        if after == member.current:
            return
        draft.add(Kind.CURRENT_MEMBER, after, member.member_id)
        self._limit_revocation(member, now_ms)

    def _limit_revocation(self, member: StreamsMember, now_ms: int) -> None:
        is_revoking = member.current.state is MemberState.UNREVOKED_TASKS
        member.revoke_deadline_ms = now_ms + member.value.rebalance_timeout_ms if is_revoking else None

    def _told(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        before: Current,
        event: StreamsHeartbeat,
        statuses: list[tuple[StatusCode, str]],
    ) -> StreamsHeartbeatResult:
        assigned, assignment = member.current.assigned, None
        if event.member_epoch == JOIN_EPOCH or assigned != before.assigned:
            assignment = Tasks(active=sets_of(assigned.active), standby=assigned.standby, warmup=assigned.warmup)
            group.endpoints.pop(member.member_id, None)
            if member.value.user_endpoint is not None:
                group.endpoint_epoch += 1
        configured = group.configured
        assert configured is not None
        if configured.problem is not None:
            statuses.append((StatusCode(configured.problem.code), configured.problem.message))
        if group.shutdown_member_id is not None:
            text = (
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a shutdown "
                "for the entire application."
            )
            statuses.append((StatusCode.SHUTDOWN_APPLICATION, text))
        is_news = group.endpoint_epoch != event.endpoint_epoch
        return StreamsHeartbeatResult(
            error_code=ErrorCode.none,
            member_id=member.member_id,
            member_epoch=member.current.member_epoch,
            is_heartbeat=True,
            statuses=tuple(statuses),
            assignment=assignment,
            endpoint_epoch=group.endpoint_epoch,
            endpoints=endpoints_told(group, member, self._partitions) if is_news else None,
            topics_to_create={} if configured.problem is None else configured.topics_to_create,
        )

    # -- the group ---------------------------------------------------------------------------------------------------

    def _raise_epoch(self, draft: StreamsDraft, hashed: int, *, is_needed: bool) -> None:
        """Raises the group epoch if the members, the topics, their fit or the settings of assignments have changed."""
        group, configured = draft.group, draft.group.configured
        assert configured is not None
        after = replace(
            group.value,
            metadata_hash=hashed,
            validated_topology_epoch=configured.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH,
            assignment_configs={STANDBY_REPLICAS: str(self._standby_replicas(group))},
        )
        if is_needed or after != group.value:
            draft.add(Kind.GROUP, replace(after, epoch=group.epoch + 1))

    def _standby_replicas(self, group: StreamsGroup) -> int:
        return self.settings.standby_replicas.get(group.group_id, self._config.group_streams_num_standby_replicas)

    def _assign(self, draft: StreamsDraft, now_ms: int) -> list[tuple[StatusCode, str]]:
        """Computes the target assignment of the group's epoch, if it is due. Until then the one before stays, and the
        status says why."""
        group, wall_ms = draft.group, self._wall_ms(now_ms)
        if group.delay_deadline_ms is not None:
            return [(StatusCode.ASSIGNMENT_DELAYED, _INITIAL_DELAY)]
        if group.target_epoch >= group.epoch:
            return []
        default_ms = self.settings.assignment_interval_ms
        if default_ms is None:
            default_ms = self._config.group_streams_assignment_interval_ms
        interval_ms = self.settings.assignment_intervals_ms.get(group.group_id, default_ms)
        if not is_assignment_due(last_ms=group.assigned_ms, interval_ms=interval_ms, wall_ms=wall_ms):
            return [(StatusCode.ASSIGNMENT_DELAYED, _INTERVAL)]
        for member_id, target in sorted(_targets(group).items(), key=lambda item: item[0]):
            if group.targets.get(member_id) != target:
                draft.add(Kind.TARGET_MEMBER, target, member_id)
        draft.add(Kind.TARGET_EPOCH, TargetEpoch(epoch=group.epoch, timestamp_ms=wall_ms))
        return []

    def remove(self, draft: StreamsDraft, member_id: str) -> None:
        """Removes a member that left or was silent for too long. The tasks are assigned anew at the next heartbeat."""
        draft.add(Kind.CURRENT_MEMBER, None, member_id)
        draft.add(Kind.TARGET_MEMBER, None, member_id)
        draft.add(Kind.MEMBER, None, member_id)
        draft.add(Kind.GROUP, replace(draft.group.value, epoch=draft.group.epoch + 1))

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, draft: StreamsDraft, now_ms: int) -> None:
        """Ends the initial delay if it is over, and removes late members, each with an epoch of its own."""
        group = draft.group
        if group.delay_deadline_ms is not None and group.delay_deadline_ms <= now_ms:
            group.delay_deadline_ms = None
            if group.members and group.configured is not None:
                self._assign(draft, now_ms)
        late = [member_id for member_id, each in group.members.items() if each.next_deadline_ms() <= now_ms]
        for member_id in late:
            self.remove(draft, member_id)

    def loaded(self, group: StreamsGroup, now_ms: int) -> None:
        for member in group.members.values():
            member.session_deadline_ms = now_ms + self._session_timeout_ms(group)
            self._limit_revocation(member, now_ms)


def _write_facts(draft: StreamsDraft, member_id: str, value: MemberValue, topology: Topology) -> bool:
    """Writes what the member told, as far as it is new. Returns whether the member or its data is new."""
    member = draft.group.members.get(member_id)
    is_changed = member is None or member.value != value
    if is_changed:
        draft.add(Kind.MEMBER, value, member_id)
    if draft.group.topology is None:
        draft.add(Kind.TOPOLOGY, topology)
    return is_changed


def _stale_status(topology: Topology, value: MemberValue) -> list[tuple[StatusCode, str]]:
    if value.topology_epoch >= topology.epoch:
        return []
    text = f"The member's topology epoch {value.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    return [(StatusCode.STALE_TOPOLOGY, text)]


def _required_topics(topology: Topology) -> set[str]:
    names: set[str] = set()
    for each in topology.subtopologies:
        names.update(each.source_topics)
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    return names


def _next_state(group: StreamsGroup, member: StreamsMember, owned: Tasks | None) -> Current:
    return reconcile(
        member.current,
        target=group.targets.get(member.member_id, Tasks()),
        target_epoch=group.target_epoch,
        process_id=member.value.process_id,
        owned=owned,
        holders=group.holders(),
    )


def _targets(group: StreamsGroup) -> dict[str, Tasks]:
    """The tasks of each member. While the topics do not fit, nobody has any."""
    configured = group.configured
    assert configured is not None
    if not configured.is_ready:
        return dict.fromkeys(group.members, Tasks())
    specs = [
        StreamsMemberSpec(
            member_id=member_id,
            process_id=member.value.process_id,
            instance_id=member.value.instance_id,
            rack_id=member.value.rack_id,
            client_tags=member.value.client_tags,
            present=group.targets.get(member_id, Tasks()),
        )
        for member_id, member in sorted(group.members.items())
    ]
    standby_replicas = int(group.value.assignment_configs.get(STANDBY_REPLICAS, "0"))
    return assign(specs, configured, standby_replicas=standby_replicas)


def request_shutdown(group: StreamsGroup, member_id: str) -> None:
    """All members are told to end. The first member that asked is named, until the group is empty."""
    if group.shutdown_member_id is None:
        group.shutdown_member_id = member_id
