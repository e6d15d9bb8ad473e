"""A rebalance of a classic group: which members it waits for, when it ends, and the answers to the waiting members.

It begins with a change of members. A JoinGroup waits until all members have joined or the rebalance timeout has passed
(KIP-62). In the first rebalance it also waits for the initial delay (KIP-134). classic.py decides which request begins
a rebalance.
Shown by tests/broker_coordinator/test_coordinator_classic.py and test_coordinator_model.py.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinator.groups.classic_group import ClassicGroup, ClassicMember, State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import JoinResult, SyncResult
from broker.coordinator.groups.record_codec import encode
from broker.coordinator.outbox import Outbox
from broker.wire.errors import ErrorCode


class Rebalances:
    """It changes groups and has no state of its own. `wall_ms(now_ms)` is the wall clock."""

    def __init__(self, *, config: GroupConfig, outbox: Outbox, wall_ms: Callable[[int], int]) -> None:
        self._config, self._outbox, self._wall_ms = config, outbox, wall_ms

    def reply(self, group: ClassicGroup, token: int, response: object) -> None:
        self._outbox.reply(token, response, after=group.last_append)

    def write(self, group: ClassicGroup) -> None:
        group.last_append = self._outbox.append([encode(group.record())])

    def joined(self, group: ClassicGroup, member: ClassicMember) -> JoinResult:
        return JoinResult(
            error_code=ErrorCode.none,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=group.joined_metadata() if group.is_leader(member.member_id) else (),
        )

    def begin(self, group: ClassicGroup, now_ms: int) -> None:
        """Begins a rebalance, unless one is under way. Ends it if all members have joined."""
        if not group.is_in(State.PREPARING):
            if group.is_in(State.COMPLETING):
                for member in group.members.values():
                    member.assignment = b""
                    self.answer_sync(group, member, SyncResult(error_code=ErrorCode.rebalance_in_progress))
            is_first = group.is_in(State.EMPTY)
            group.state = State.PREPARING
            group.sync_deadline_ms = None
            group.unsynced.clear()
            timeout_ms = group.rebalance_timeout_ms()
            if is_first:
                delay_ms = min(self._config.group_initial_rebalance_delay_ms, timeout_ms)
                group.initial_delay_left_ms, group.has_newcomer = timeout_ms - delay_ms, False
                group.join_deadline_ms = now_ms + delay_ms
            else:
                group.join_deadline_ms = now_ms + timeout_ms
        self.complete_if_all_joined(group, now_ms)

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> None:
        is_delayed = group.initial_delay_left_ms is not None and (group.join_deadline_ms or 0) > now_ms
        if group.is_in(State.PREPARING) and group.all_joined() and not is_delayed:
            self._complete_join(group, now_ms)

    def join_due(self, group: ClassicGroup, now_ms: int) -> None:
        left_ms = group.initial_delay_left_ms
        if left_ms and group.has_newcomer:  # the group is still growing, so further members get time to join (KIP-134)
            delay_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
            group.initial_delay_left_ms, group.has_newcomer = left_ms - delay_ms, False
            group.join_deadline_ms = now_ms + delay_ms
            return
        self._complete_join(group, now_ms)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> None:
        for member in list(group.members.values()):
            if member.join_token is None and member.instance_id is None:
                # it did not join again in time; a static member is kept until its session times out
                group.remove(member)
        group.initial_delay_left_ms = None
        joined = [member for member in group.members.values() if member.join_token is not None]
        if group.members and not joined:
            # Only absent static members are left. Wait until one joins or their sessions time out.
            group.join_deadline_ms = now_ms + max(1, group.rebalance_timeout_ms())
            return
        group.join_deadline_ms = None
        group.generation += 1
        if not group.members:
            self._become_empty(group, now_ms)
            return
        if group.leader is None or group.members[group.leader].join_token is None:
            group.leader = joined[0].member_id
        group.protocol = group.select_protocol()
        group.state = State.COMPLETING
        group.unsynced = set(group.members)
        group.sync_deadline_ms = now_ms + group.rebalance_timeout_ms()
        for member in group.members.values():
            token, member.join_token = member.join_token, None
            if token is not None:
                member.is_new = False
                self.restart_session(member, now_ms)
                self.reply(group, token, self.joined(group, member))

    def _become_empty(self, group: ClassicGroup, now_ms: int) -> None:
        group.state = State.EMPTY
        group.state_timestamp_ms = self._wall_ms(now_ms)
        group.protocol = group.leader = None
        group.sync_deadline_ms = group.join_deadline_ms = group.initial_delay_left_ms = None
        group.unsynced.clear()
        self.write(group)

    def answer_sync(self, group: ClassicGroup, member: ClassicMember, result: SyncResult) -> None:
        token, member.sync_token = member.sync_token, None
        if token is not None:
            self.reply(group, token, result)

    def restart_session(self, member: ClassicMember, now_ms: int) -> None:
        if not member.is_new:
            member.session_deadline_ms = now_ms + member.session_timeout_ms

    def release(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> None:
        """Answers the waiting requests of this member with an error."""
        token, member.join_token = member.join_token, None
        if token is not None:
            self.reply(group, token, JoinResult(error_code=error, member_id=member.member_id))
        self.answer_sync(group, member, SyncResult(error_code=error))
