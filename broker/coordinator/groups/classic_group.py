"""One group of the classic protocol: its members, state and generation. The rules for joining are in classic.py.

States: Empty -> PreparingRebalance (members join) -> CompletingRebalance (the leader assigns) -> Stable. Every change
leads back to PreparingRebalance. After a fail-over the group is read from its record. It contains the members and
assignments of the last generation that became stable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from broker.coordinator.groups.events import DescribedGroup, DescribedMember
from broker.coordinator.groups.records import ClassicGroupKey, ClassicGroupValue, ClassicMemberValue, Record
from broker.coordinator.schema import Reader, SchemaError

CONSUMER_PROTOCOL_TYPE = "consumer"


class State(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # Only the group changes the protocols of its members.
    assignment: bytes = b""
    join_token: int | None = None  # set while its JoinGroup waits
    sync_token: int | None = None  # set while its SyncGroup waits
    session_deadline_ms: int = 0
    is_new: bool = False  # its first JoinGroup waits: it cannot heartbeat yet

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def is_waiting(self) -> bool:
        """Whether the member waits for an answer of the coordinator. Such a member counts as alive. A new member does
        not, so that its first JoinGroup cannot keep it alive for ever."""
        return (self.join_token is not None and not self.is_new) or self.sync_token is not None


class ClassicGroup:
    def __init__(self, group_id: str, *, state_timestamp_ms: int) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        # wall clock, when the group last became Empty or ceased to be Empty
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type: str | None = None  # None: the group has never had members, only offsets
        self.protocol: str | None = None
        self.leader: str | None = None  # invariant: it is a member, unless the group has none or prepares a rebalance
        self.members: dict[str, ClassicMember] = {}  # in the order of joining
        self.static_members: dict[str, str] = {}  # instance id -> member id
        # invariant: by name, how many members support the protocol; a member may name it twice, but is counted once
        self._supporters: Counter[str] = Counter()
        # member ids that were given out and have not joined yet (KIP-394) -> deadline
        self.pending: dict[str, int] = {}
        self.unsynced: set[str] = set()  # ids of the members that have not yet synced in this generation
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        # not None during the first rebalance, which waits for late members: how long its delay may still be prolonged
        self.initial_delay_left_ms: int | None = None
        self.has_newcomer = False  # a member joined during the initial delay
        self.last_append = 0  # answers about this group wait until this append is durable
        self.recorded: ClassicGroupValue | None = None  # the last record of the group in the log

    # -- reading -----------------------------------------------------------------------------------------------------

    def is_in(self, *states: State) -> bool:
        return self.state in states

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def all_joined(self) -> bool:
        return not self.pending and all(member.join_token is not None for member in self.members.values())

    def next_deadline_ms(self) -> int | None:
        deadlines = [member.session_deadline_ms for member in self.members.values() if not member.is_waiting()]
        deadlines += self.pending.values()
        deadlines += [each for each in (self.join_deadline_ms, self.sync_deadline_ms) if each is not None]
        return min(deadlines, default=None)

    def is_common(self, protocol: str) -> bool:
        """Whether every member supports the protocol."""
        return self._supporters[protocol] == len(self.members)

    def is_compatible(self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        if self.state is State.EMPTY or not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(self.is_common(name) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all members support. If two have equally many votes,
        the one that got a vote first wins."""
        votes = Counter(
            next(name for name, _ in member.protocols if self.is_common(name)) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined_metadata(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """The members' metadata, which the leader needs for the assignment."""
        return tuple(
            (member.member_id, member.instance_id, member.metadata(self.protocol)) for member in self.members.values()
        )

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics of a consumer group. None if they cannot be known: the protocol type is another one, or there is
        no generation yet."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            try:
                reader = Reader(member.metadata(self.protocol))
                topics.update(reader.array(reader.string))
            except SchemaError:
                return None
        return frozenset(topics)

    def described(self) -> DescribedGroup:
        has_protocol = self.is_in(State.STABLE)
        members = tuple(
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(self.protocol) if has_protocol else b"",
                assignment=member.assignment,
            )
            for member in self.members.values()
        )
        return DescribedGroup(
            state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol=(self.protocol or "") if has_protocol else "",
            members=members,
        )

    # -- members -----------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        if not self.members:
            self.protocol_type = None
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        self._count(member.protocols, -1)
        self.unsynced.discard(member.member_id)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def set_protocols(self, member: ClassicMember, protocols: tuple[tuple[str, bytes], ...]) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def _count(self, protocols: tuple[tuple[str, bytes], ...], change: int) -> None:
        for name in {name for name, _ in protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    # -- the record --------------------------------------------------------------------------------------------------

    def value(self) -> ClassicGroupValue:
        """The group as the value of its record."""
        members = tuple(
            ClassicMemberValue(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(self.protocol),
                assignment=member.assignment,
            )
            for member in self.members.values()
        )
        return ClassicGroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=members,
        )

    def record(self) -> Record:
        """The record of the group's present state. The caller writes it at once."""
        self.recorded = self.value()
        return ClassicGroupKey(group_id=self.group_id), self.recorded

    @classmethod
    def from_record(cls, group_id: str, value: ClassicGroupValue) -> ClassicGroup:
        group = cls(group_id, state_timestamp_ms=value.state_timestamp_ms)
        group.recorded = value
        for each in value.members:
            group.add(
                ClassicMember(
                    member_id=each.member_id,
                    instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    session_timeout_ms=each.session_timeout_ms,
                    protocols=((value.protocol or "", each.subscription),),
                    assignment=each.assignment,
                )
            )
        group.state = State.STABLE if value.members else State.EMPTY
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol, group.leader = value.protocol, value.leader
        return group

    def check_invariants(self) -> None:
        if self.state in (State.COMPLETING, State.STABLE):
            assert self.members
            assert self.leader in self.members
            assert self.protocol is not None
            assert self.is_common(self.protocol)
        if self.state is State.STABLE:
            assert self.recorded == self.value(), "a stable group is what a new coordinator would load"
        if self.state is State.EMPTY:
            assert not self.members
            assert self.join_deadline_ms is None
        assert (self.join_deadline_ms is not None) == (self.state is State.PREPARING)
        for member in self.members.values():
            assert member.join_token is None or self.state is State.PREPARING
            assert member.sync_token is None or self.state is State.COMPLETING
        supported = [name for member in self.members.values() for name in {name for name, _ in member.protocols}]
        assert self._supporters == Counter(supported)
        assert set(self.static_members.values()) <= set(self.members)
        assert self.unsynced <= set(self.members)
        assert not set(self.pending) & set(self.members)
