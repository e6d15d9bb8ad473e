"""Members of the classic protocol in a group of the new one (KIP-848, online upgrade): JoinGroup, SyncGroup, Heartbeat.

Such a member uses the consumer's embedded protocol. The coordinator assigns for it: a join is answered at once with the
member's epoch as generation, and no member is the leader. When the group has a new epoch, the answer to a heartbeat
tells the member to join again. The member lists the partitions that it owns in its subscription. Shown by
tests/broker_coordinator/test_coordinator_conversion.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer import Change, ConsumerProtocol
from broker.coordinator.groups.consumer_group import ConsumerGroup, ConsumerMember
from broker.coordinator.groups.draft import Draft, Refused
from broker.coordinator.groups.embedded import (
    PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    encode_assignment,
    version_of,
)
from broker.coordinator.groups.events import (
    UNKNOWN_MEMBER,
    Heartbeat,
    JoinGroup,
    JoinResult,
    SyncGroup,
    SyncResult,
)
from broker.coordinator.groups.reconcile import MemberState, places, subtract
from broker.coordinator.groups.records import Assignment, ClassicMetadata, MemberValue
from broker.coordinator.schema import SchemaError
from broker.wire.errors import ErrorCode


class ClassicMembers:
    """It changes groups through drafts and has no state of its own."""

    def __init__(self, *, config: GroupConfig, consumer: ConsumerProtocol, new_id: Callable[[], str]) -> None:
        self._config, self._consumer, self._new_id = config, consumer, new_id

    # -- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(self, draft: Draft, event: JoinGroup, now_ms: int, *, is_last_replaced: bool) -> JoinResult:
        """Raises Refused before any record is added. `is_last_replaced` says that this static member turns the group
        into a classic one. A changed subscription is then left to the rebalance of the classic group."""
        group = draft.group
        member_id = event.member_id or self._new_id()
        self._check_join(group, member_id, event)
        if event.member_id == UNKNOWN_MEMBER and event.instance_id is None and event.needs_known_member_id:
            return JoinResult(error_code=ErrorCode.member_id_required, member_id=member_id)
        subscription = _subscription(event)
        if event.instance_id is None and member_id not in group.members and subscription.owned:
            # The member was removed, and others may have its partitions. Apache Kafka treats it as a new member here.
            # Such a member continues to read all its old partitions until it has synced.
            raise Refused(ErrorCode.unknown_member_id, f"member {member_id} is no longer in the group")
        value = _value(group, member_id, event, subscription)
        self._consumer.admit(draft, member_id, event.instance_id)
        change = self._consumer.subscribe(draft, member_id, value)
        if not (is_last_replaced and change is not Change.NONE):
            self._consumer.raise_epoch(draft, is_needed=change is Change.KNOWN)
            self._consumer.assign(draft, now_ms)
            self._consumer.reconcile(draft, member_id, self._ids(subscription.owned), change)
        member = group.members[member_id]
        member.session_deadline_ms = now_ms + event.session_timeout_ms
        member.sync_deadline_ms = now_ms + event.rebalance_timeout_ms
        member.join_deadline_ms = member.revoke_deadline_ms = None
        return JoinResult(
            error_code=ErrorCode.none,
            member_id=member_id,
            generation=member.current.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol=_protocol_of(member),
        )

    def _check_join(self, group: ConsumerGroup, member_id: str, event: JoinGroup) -> None:
        limit = self._config.group_consumer_max_size
        if member_id not in group.members and len(group.members) >= limit:
            raise Refused(ErrorCode.group_max_size_reached, f"the group has its maximum of {limit} members")
        if event.protocol_type != PROTOCOL_TYPE or not group.has_common_protocol([name for name, _ in event.protocols]):
            raise Refused(ErrorCode.inconsistent_group_protocol, "no protocol that all classic members support")
        if event.instance_id is not None and event.member_id != UNKNOWN_MEMBER:
            _checked_static(group, event.member_id, event.instance_id)

    def _ids(self, owned: Mapping[str, frozenset[int]]) -> Assignment:
        topics = self._consumer.subscriptions.topics
        found: dict[UUID, frozenset[int]] = {
            topics[name].topic_id: partitions for name, partitions in owned.items() if name in topics and partitions
        }
        return found

    # -- SyncGroup, Heartbeat ----------------------------------------------------------------------------------------

    def sync(self, group: ConsumerGroup, event: SyncGroup, now_ms: int) -> SyncResult:
        """Raises Refused."""
        member = _checked(group, event.member_id, event.instance_id, event.generation)
        if event.protocol_type not in (None, PROTOCOL_TYPE) or event.protocol not in (None, _protocol_of(member)):
            raise Refused(ErrorCode.inconsistent_group_protocol, "not the protocol of this member")
        # A member that gives up partitions has already joined. This answer tells it which partitions it keeps. It joins
        # again without the rest.
        is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS
        if member.current.member_epoch < group.target_epoch and not is_revoking:
            _expect_join(member, now_ms)
            raise Refused(ErrorCode.rebalance_in_progress, "the group has moved on: join again")
        classic = _classic_of(member)
        member.sync_deadline_ms = None
        member.session_deadline_ms = now_ms + classic.session_timeout_ms
        version = version_of(classic.protocols[0][1])
        return SyncResult(
            error_code=ErrorCode.none,
            protocol_type=event.protocol_type,
            protocol=event.protocol,
            assignment=encode_assignment(member.current.assigned, self._consumer.subscriptions.names, version=version),
        )

    def heartbeat(self, group: ConsumerGroup, event: Heartbeat, now_ms: int) -> ErrorCode:
        """Raises Refused."""
        member = _checked(group, event.member_id, event.instance_id, event.generation)
        member.session_deadline_ms = now_ms + _classic_of(member).session_timeout_ms
        # A join computes an assignment that is due. Members of the new protocol do it too, but there may be none.
        if not _must_join(group, member) and not self._consumer.is_assignment_due(group, now_ms):
            return ErrorCode.none
        _expect_join(member, now_ms)
        return ErrorCode.rebalance_in_progress


def _must_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    current = member.current
    if current.member_epoch < group.target_epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    wanted = subtract(group.targets.get(member.member_id, {}), current.assigned)
    # all of them must be free, so that one join is enough
    return all(group.is_free(*place) for place in places(wanted))


def _expect_join(member: ConsumerMember, now_ms: int) -> None:
    if member.join_deadline_ms is None:
        member.join_deadline_ms = now_ms + member.value.rebalance_timeout_ms


def _subscription(event: JoinGroup) -> Subscription:
    try:
        return decode_subscription(event.protocols[0][1])
    except SchemaError as error:
        raise Refused(ErrorCode.unknown_server_error, f"malformed embedded consumer protocol: {error}") from error


def _value(group: ConsumerGroup, member_id: str, event: JoinGroup, subscription: Subscription) -> MemberValue:
    """The member's data after this join. If it was a member of the new protocol before, it keeps its rack and server
    assignor."""
    known = group.members.get(member_id)
    if known is None and event.instance_id is not None:
        known = group.members.get(group.static_members.get(event.instance_id, ""))
    instance_id, rack_id = event.instance_id, subscription.rack_id
    return MemberValue(
        instance_id=known.value.instance_id if known is not None and instance_id is None else instance_id,
        rack_id=known.value.rack_id if known is not None and rack_id is None else rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex=None,  # clients of the classic protocol resolve their patterns themselves
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        server_assignor=None if known is None else known.value.server_assignor,
        classic=ClassicMetadata(session_timeout_ms=event.session_timeout_ms, protocols=event.protocols),
    )


def _checked(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """The classic member that sent the request. Raises Refused if the sender is no classic member."""
    if instance_id is not None:
        _checked_static(group, member_id, instance_id)
    member = group.members.get(member_id)
    if member is None or member.value.classic is None:
        raise Refused(ErrorCode.unknown_member_id, f"member {member_id} is no classic member of the group")
    if generation != member.current.member_epoch:
        raise Refused(
            ErrorCode.illegal_generation, f"member {member_id} is at {member.current.member_epoch}, not {generation}"
        )
    return member


def _checked_static(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise Refused(ErrorCode.unknown_member_id, f"instance id {instance_id} is not in the group")
    if holder != member_id:
        raise Refused(ErrorCode.fenced_instance_id, f"instance id {instance_id} belongs to {holder}")


def _classic_of(member: ConsumerMember) -> ClassicMetadata:
    assert member.value.classic is not None
    return member.value.classic


def _protocol_of(member: ConsumerMember) -> str:
    return _classic_of(member).protocols[0][0]
