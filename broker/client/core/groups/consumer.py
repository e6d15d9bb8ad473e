"""A member under the new protocol (KIP-848): one request, ConsumerGroupHeartbeat, and a broker that assigns.

The member gives up partitions, takes partitions, and then acknowledges the assignment. Owns, beside what each member
that sends heartbeats has: what the broker was told and what it must be told again. Shown by
tests/broker_client/test_client_consumer_member.py.
"""

from __future__ import annotations

import random
from uuid import UUID

from broker.client.core.config import ConsumerConfig
from broker.client.core.groups.events import ConsumerHeartbeatAnswered, SendConsumerHeartbeat, TopicsKnown
from broker.client.core.groups.heartbeats import JOIN_EPOCH, LEAVE_EPOCH, HeartbeatMember, Target

STATIC_LEAVE_EPOCH = -2  # A static member that will come back leaves with it.


class ConsumerMember(HeartbeatMember):
    request = "ConsumerGroupHeartbeat"

    def __init__(self, config: ConsumerConfig, rng: random.Random) -> None:
        super().__init__(config, rng)
        self._is_static = config.group_instance_id != ""
        self._told_owned: Target | None = None  # None: the broker must be told
        self._ids: dict[str, UUID] = {}
        self._is_full = True

    def _tell_everything(self) -> None:
        self._is_full = True

    def _join(self, now_ms: int) -> None:
        self._told_owned = None
        super()._join(now_ms)

    def _farewell(self, leaves_group: bool | None) -> SendConsumerHeartbeat | None:
        if self._is_static and leaves_group is False:
            return None
        epoch = STATIC_LEAVE_EPOCH if self._is_static and not leaves_group else LEAVE_EPOCH
        return SendConsumerHeartbeat(
            member_id=self.member_id, member_epoch=epoch, topics=None, owned=None, is_full=False
        )

    def _accept(self, answer: ConsumerHeartbeatAnswered) -> None:
        if answer.member_id:
            self.member_id = answer.member_id
        if answer.assignment is not None and answer.assignment != self._target:
            self._target = answer.assignment
            self._told_owned = None

    def _must_acknowledge(self) -> bool:
        return self._told_owned != self._target

    def _on_topics(self, event: TopicsKnown) -> None:
        super()._on_topics(event)
        self._ids |= {name: UUID(info.topic_id) for name, info in event.topics.items() if info.topic_id}

    def _heartbeat(self, epoch: int) -> SendConsumerHeartbeat:
        is_full = self._is_full or epoch == JOIN_EPOCH
        topics = self._topics if is_full or self._told_topics != self._topics else None
        owned_ids = frozenset((self._ids[each.topic], each.partition) for each in self.owned)
        owned = None
        if epoch == JOIN_EPOCH:
            owned = frozenset[tuple[UUID, int]]()
        elif self._target is not None and owned_ids == self._target and (is_full or self._told_owned != owned_ids):
            owned = self._told_owned = owned_ids
        elif is_full:
            owned = owned_ids
        self._told_topics = self._topics
        self._is_full = False
        return SendConsumerHeartbeat(
            member_id=self.member_id, member_epoch=epoch, topics=topics, owned=owned, is_full=is_full
        )
