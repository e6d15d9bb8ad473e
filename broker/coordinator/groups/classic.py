"""The classic group protocol: how a group changes when a member joins, syncs, sends a heartbeat, leaves, or stays
silent for too long.

classic_rebalance.py decides how long a JoinGroup waits. A SyncGroup waits until the leader has sent the assignments.
The rules are those of Kafka, with KIP-345 (static members), KIP-394 (an id before the first join) and KIP-814 (a static
leader that comes back makes no new assignment).
Shown by tests/broker_coordinator/test_coordinator_classic.py and test_coordinator_model.py.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.groups.classic_group import ClassicGroup, ClassicMember, State
from broker.coordinator.groups.classic_rebalance import Rebalances
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    UNKNOWN_MEMBER,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    SyncGroup,
    SyncResult,
)
from broker.coordinator.outbox import Outbox
from broker.wire.errors import ErrorCode

# if a client is gone after its first JoinGroup, it blocks the rebalance for at most this time
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
# Member ids of a group that were given out and not used. A client asks for one and joins with it at once, so there are
# few. Beyond this the oldest id lapses. Its owner is told so (UNKNOWN_MEMBER_ID), and asks for another one.
PENDING_MAX = 1_000


class ClassicProtocol:
    """It changes groups and has no state of its own. `wall_ms(now_ms)` is the wall clock."""

    def __init__(
        self, *, config: GroupConfig, outbox: Outbox, new_id: Callable[[], str], wall_ms: Callable[[int], int]
    ) -> None:
        self._config, self._new_id, self._wall_ms = config, new_id, wall_ms
        self._rebalances = Rebalances(config=config, outbox=outbox, wall_ms=wall_ms)

    # -- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(self, group: ClassicGroup, event: JoinGroup, now_ms: int) -> None:
        error = self._join_problem(group, event)
        if error is not ErrorCode.none:
            self._rebalances.reply(group, event.token, JoinResult(error_code=error, member_id=event.member_id))
        elif event.member_id == UNKNOWN_MEMBER:
            self._join_unknown(group, event, now_ms)
        else:
            self._join_known(group, event, now_ms)

    def _join_problem(self, group: ClassicGroup, event: JoinGroup) -> ErrorCode:
        if not group.is_compatible(event.protocol_type, event.protocols):
            return ErrorCode.inconsistent_group_protocol
        if event.member_id in group.members or event.instance_id in group.static_members:
            return ErrorCode.none
        return ErrorCode.group_max_size_reached if len(group.members) >= self._config.group_max_size else ErrorCode.none

    def _join_unknown(self, group: ClassicGroup, event: JoinGroup, now_ms: int) -> None:
        if event.instance_id is not None:
            member_id = f"{event.instance_id}-{self._new_id()}"
            old = group.static_members.get(event.instance_id)
            if old is not None:
                self._replace_static(group, group.members[old], member_id, event, now_ms)
                return
        else:
            member_id = f"{event.client_id}-{self._new_id()}"
            if event.needs_known_member_id:
                if len(group.pending) >= PENDING_MAX:
                    del group.pending[next(iter(group.pending))]
                group.pending[member_id] = now_ms + event.session_timeout_ms
                result = JoinResult(error_code=ErrorCode.member_id_required, member_id=member_id)
                self._rebalances.reply(group, event.token, result)
                return
        self._add_then_rebalance(group, member_id, event, now_ms)

    def _join_known(self, group: ClassicGroup, event: JoinGroup, now_ms: int) -> None:
        if event.member_id in group.pending and event.instance_id is None:
            self._add_then_rebalance(group, event.member_id, event, now_ms)
            return
        error = _identity_problem(group, event.member_id, event.instance_id)
        if error is not ErrorCode.none:
            self._rebalances.reply(group, event.token, JoinResult(error_code=error, member_id=event.member_id))
            return
        member = group.members[event.member_id]
        has_changed = member.protocols != event.protocols
        is_answer_lost = group.is_in(State.COMPLETING) and not has_changed
        # If the leader joins again, it wants a rebalance, because it has seen that the partitions of a topic changed.
        is_settled = group.is_in(State.STABLE) and not has_changed and not group.is_leader(event.member_id)
        if is_answer_lost or is_settled:
            self._rebalances.restart_session(member, now_ms)
            self._rebalances.reply(group, event.token, self._rebalances.joined(group, member))
            return
        self._update(group, member, event)
        self._rebalances.begin(group, now_ms)

    def _add_then_rebalance(self, group: ClassicGroup, member_id: str, event: JoinGroup, now_ms: int) -> None:
        member = ClassicMember(
            member_id=member_id,
            instance_id=event.instance_id,
            client_id=event.client_id,
            client_host=event.client_host,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            session_timeout_ms=event.session_timeout_ms,
            protocols=event.protocols,
            join_token=event.token,
            session_deadline_ms=now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS,
            is_new=True,
        )
        group.add(member)
        group.protocol_type = event.protocol_type
        group.has_newcomer = True
        self._rebalances.begin(group, now_ms)

    def _update(self, group: ClassicGroup, member: ClassicMember, event: JoinGroup) -> None:
        # The member may have an earlier request that still waits, because the client sent a second one.
        self._rebalances.release(group, member, ErrorCode.rebalance_in_progress)
        group.set_protocols(member, event.protocols)
        member.session_timeout_ms, member.rebalance_timeout_ms = event.session_timeout_ms, event.rebalance_timeout_ms
        member.client_id, member.client_host = event.client_id, event.client_host
        member.join_token = event.token

    def _replace_static(
        self, group: ClassicGroup, old: ClassicMember, member_id: str, event: JoinGroup, now_ms: int
    ) -> None:
        """A static member is back with a new id. The old id is fenced (KIP-345)."""
        was_leader = group.is_leader(old.member_id)
        self._rebalances.release(group, old, ErrorCode.fenced_instance_id)
        was_unsynced = old.member_id in group.unsynced
        # It gets the same place in the dict, because assignors see the members in this order.
        old_id, old.member_id = old.member_id, member_id
        group.members = {member.member_id: member for member in group.members.values()}
        group.static_members[str(old.instance_id)] = member_id
        group.unsynced.discard(old_id)
        if was_unsynced:
            group.unsynced.add(member_id)
        if was_leader:
            group.leader = member_id
        member = old
        if group.is_in(State.STABLE):
            old_protocols = member.protocols
            group.set_protocols(member, event.protocols)
            if group.select_protocol() == group.protocol:
                self._rebalances.restart_session(member, now_ms)
                member.session_timeout_ms = event.session_timeout_ms
                member.rebalance_timeout_ms = event.rebalance_timeout_ms
                self._rebalances.write(group)
                self._rebalances.reply(group, event.token, self._static_back(group, member, old_id, event))
                return
            group.set_protocols(member, old_protocols)
        self._update(group, member, event)
        self._rebalances.restart_session(member, now_ms)
        self._rebalances.begin(group, now_ms)

    def _static_back(self, group: ClassicGroup, member: ClassicMember, old_id: str, event: JoinGroup) -> JoinResult:
        is_leader = group.is_leader(member.member_id)
        # A client that does not know "skip assignment" must not learn that it is the leader. Otherwise it would assign
        # again.
        leader = old_id if is_leader and not event.can_skip_assignment else group.leader
        is_skipping = is_leader and event.can_skip_assignment
        return JoinResult(
            error_code=ErrorCode.none,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=leader or "",
            skip_assignment=is_skipping,
            members=group.joined_metadata() if is_skipping else (),
        )

    # -- SyncGroup ---------------------------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, event: SyncGroup, now_ms: int) -> None:
        error = self._sync_problem(group, event)
        if error is not ErrorCode.none:
            self._rebalances.reply(group, event.token, SyncResult(error_code=error))
            return
        member = group.members[event.member_id]
        group.unsynced.discard(member.member_id)
        if group.is_in(State.STABLE):
            self._rebalances.restart_session(member, now_ms)
            self._rebalances.reply(group, event.token, self._synced(group, member))
            return
        self._rebalances.answer_sync(group, member, SyncResult(error_code=ErrorCode.rebalance_in_progress))
        member.sync_token = event.token
        if group.is_leader(member.member_id):
            for each in group.members.values():
                each.assignment = event.assignments.get(each.member_id, b"")
            group.state = State.STABLE
            group.state_timestamp_ms = self._wall_ms(now_ms)
            self._rebalances.write(group)
            for each in group.members.values():
                if each.sync_token is not None:
                    self._rebalances.restart_session(each, now_ms)
                    self._rebalances.answer_sync(group, each, self._synced(group, each))
        if not group.unsynced:
            group.sync_deadline_ms = None

    def _sync_problem(self, group: ClassicGroup, event: SyncGroup) -> ErrorCode:
        error = _identity_problem(group, event.member_id, event.instance_id)
        if error is not ErrorCode.none:
            return error
        if event.generation != group.generation:
            return ErrorCode.illegal_generation
        if event.protocol_type is not None and event.protocol_type != group.protocol_type:
            return ErrorCode.inconsistent_group_protocol
        if event.protocol is not None and group.protocol is not None and event.protocol != group.protocol:
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.rebalance_in_progress if group.is_in(State.PREPARING) else ErrorCode.none

    def _synced(self, group: ClassicGroup, member: ClassicMember) -> SyncResult:
        return SyncResult(
            error_code=ErrorCode.none,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            assignment=member.assignment,
        )

    # -- Heartbeat, LeaveGroup -----------------------------------------------------------------------------------------

    def heartbeat(self, group: ClassicGroup, event: Heartbeat, now_ms: int) -> None:
        error = _identity_problem(group, event.member_id, event.instance_id)
        if error is ErrorCode.none and event.generation != group.generation:
            error = ErrorCode.illegal_generation
        if error is ErrorCode.none:
            self._rebalances.restart_session(group.members[event.member_id], now_ms)
            if group.is_in(State.PREPARING):
                error = ErrorCode.rebalance_in_progress
        self._rebalances.reply(group, event.token, error)

    def touch(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        """Restarts the member's session, because a commit shows that the member is alive."""
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.restart_session(member, now_ms)

    def leave(self, group: ClassicGroup, event: LeaveGroup, now_ms: int) -> None:
        results = []
        for member_id, instance_id in event.members:
            results.append((member_id, instance_id, self._leave_one(group, member_id, instance_id)))
        if any(error is ErrorCode.none for _, _, error in results):
            self._members_left(group, now_ms)
        self._rebalances.reply(group, event.token, LeaveResult(error_code=ErrorCode.none, members=tuple(results)))

    def _leave_one(self, group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        if member_id == UNKNOWN_MEMBER and instance_id is not None:  # an admin removes a static member
            member_id = group.static_members.get(instance_id, UNKNOWN_MEMBER)
        if group.pending.pop(member_id, None) is not None:
            return ErrorCode.none
        error = _identity_problem(group, member_id, instance_id)
        if error is ErrorCode.none:
            self._remove(group, group.members[member_id])
        return error

    def _remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        self._rebalances.release(group, member, ErrorCode.unknown_member_id)
        group.remove(member)

    def _members_left(self, group: ClassicGroup, now_ms: int) -> None:
        if group.is_in(State.STABLE, State.COMPLETING):
            self._rebalances.begin(group, now_ms)
        elif group.is_in(State.PREPARING):
            self._rebalances.complete_if_all_joined(group, now_ms)

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, group: ClassicGroup, now_ms: int) -> None:
        """Handles every deadline of the group that has passed."""
        has_left = False
        for member_id, deadline_ms in list(group.pending.items()):
            if deadline_ms <= now_ms:
                del group.pending[member_id]
                has_left = True
        for member in list(group.members.values()):
            if not member.is_waiting() and member.session_deadline_ms <= now_ms:
                self._remove(group, member)
                has_left = True
        if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
            group.sync_deadline_ms = None
            for member_id in sorted(group.unsynced):
                self._remove(group, group.members[member_id])
                has_left = True
        if has_left:
            self._members_left(group, now_ms)
        if group.join_deadline_ms is not None and group.join_deadline_ms <= now_ms:
            self._rebalances.join_due(group, now_ms)

    def loaded(self, group: ClassicGroup, now_ms: int) -> None:
        """A new coordinator gives every member a whole session timeout to find it."""
        for member in group.members.values():
            self._rebalances.restart_session(member, now_ms)


def _identity_problem(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """The error if the sender is not a member of the group. For a static member, only the latest member id of its
    instance id is valid."""
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            return ErrorCode.unknown_member_id
        if known != member_id:
            return ErrorCode.fenced_instance_id
    return ErrorCode.none if member_id in group.members else ErrorCode.unknown_member_id
