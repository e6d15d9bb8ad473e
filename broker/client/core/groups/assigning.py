"""The part of the classic protocol that assigns partitions: what a member tells about itself in a rebalance, and how it
reads the group's answers.

Owns: the assignors that are offered, the last assignment (a sticky assignor starts from it), and what a leader needs to
assign partitions to all members. It does not know the state of the membership. Shown by
tests/broker_client/test_client_classic_member.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import KafkaError
from broker.client.core.groups.assignors import ASSIGNORS_BY_NAME, RebalanceProtocol, rebalance_protocol
from broker.client.core.groups.encodings import Subscription, decode_assignment, encode_subscription
from broker.client.core.groups.events import NO_GENERATION, Joined, Partitions
from broker.client.core.groups.leading import Leading
from broker.wire.errors import ErrorCode, RemoteProtocolError


class Assigning:
    """Raises KafkaError for data that a group cannot work with. The member then fails."""

    def __init__(self, config: ConsumerConfig) -> None:
        names = config.partition_assignment_strategy
        self._assignors = [ASSIGNORS_BY_NAME[name] for name in names]
        self._rack = config.client_rack or None
        self._leading: Leading | None = None  # None: the leader is another member
        self._last_assigned: Partitions = frozenset()
        self._last_generation = NO_GENERATION
        self.is_eager = rebalance_protocol(names) is RebalanceProtocol.EAGER
        self.assignor = ""  # the assignor that the group chose
        # the assignments of all members, made by this member as their leader
        self.assignments: tuple[tuple[str, bytes], ...] = ()

    def given_up_before_join(self, owned: Partitions, topics: frozenset[str]) -> Partitions:
        return owned if self.is_eager else frozenset([each for each in owned if each.topic not in topics])

    def subscriptions(
        self, topics: frozenset[str], owned: Partitions, generation: int
    ) -> tuple[tuple[str, bytes], ...]:
        """(name, metadata) of each assignor that this member offers, the preferred one first."""
        return tuple(
            (
                assignor.name,
                encode_subscription(
                    Subscription(
                        topics=topics,
                        owned=owned,
                        generation=generation,
                        user_data=assignor.user_data(self._last_assigned, self._last_generation),
                        rack=self._rack,
                    )
                ),
            )
            for assignor in self._assignors
        )

    def joined(self, event: Joined, own_topics: frozenset[str]) -> frozenset[str] | None:
        """If this member is the leader, returns the topics of the group. Their partitions must be known before
        `assign`. Returns None if another member is the leader."""
        self.assignor = event.assignor
        self.assignments = ()
        self._leading = None
        if event.assignor not in ASSIGNORS_BY_NAME:
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol, f"the group chose {event.assignor!r}, which we do not offer"
            )
        if event.leader != event.member_id:
            return None
        try:
            self._leading = Leading(event.members, own_topics, keeps_assignment=event.skips_assignment)
        except RemoteProtocolError as error:
            raise KafkaError(ErrorCode.inconsistent_group_protocol, f"a member of the group sent {error}") from error
        return self._leading.topics

    def assign(self, counts: Mapping[str, int]) -> None:
        """The leader makes the assignments, from the number of partitions of each topic."""
        assert self._leading is not None
        self._leading.know(counts)
        self.assignments = self._leading.assignments(self.assignor)

    def take_changed(self, counts: Mapping[str, int]) -> list[str]:
        """For the leader: the topics whose number of partitions has changed since the assignment. Each change is
        returned once."""
        return [] if self._leading is None else self._leading.take_changed(counts)

    def synced(self, assignment: bytes, generation: int) -> Partitions:
        try:
            assigned = decode_assignment(assignment)
        except RemoteProtocolError as error:
            raise KafkaError(ErrorCode.inconsistent_group_protocol, f"the leader sent {error}") from error
        self._last_assigned, self._last_generation = assigned, generation
        return assigned

    def forget_members(self) -> None:
        """The membership has ended, and the leadership too."""
        self._leading = None
