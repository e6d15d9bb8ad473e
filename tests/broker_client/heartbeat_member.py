"""A member of a group whose brokers assign by heartbeats (KIP-848, KIP-932): its core, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from broker.client.core.batch import TopicPartition
from broker.client.core.groups.consumer import ConsumerMember
from broker.client.core.groups.events import (
    Action,
    ConsumerHeartbeatAnswered,
    CoordinatorReady,
    Event,
    Step,
    StepDone,
    Subscribe,
    Tick,
    TopicInfo,
    TopicsKnown,
)
from broker.client.core.groups.share import ShareMember
from broker.wire.errors import ErrorCode

A = UUID(int=7)
A0, A1, A2 = [TopicPartition("a", index) for index in range(3)]
KNOWN = TopicsKnown(topics={"a": TopicInfo(partitions=3, topic_id=str(A))}, is_answer=True)
SETTINGS = {
    "bootstrap.servers": "h:1",
    "group.id": "g",
    "max.poll.interval.ms": 60_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 100,
}
Core = TypeVar("Core", ConsumerMember, ShareMember)


@dataclass(slots=True)
class World(Generic[Core]):
    core: Core
    now_ms: int = 1000

    def give(self, event: Event) -> list[Action]:
        actions = self.core.handle(event, self.now_ms)
        self.core.check_invariants()
        return actions

    def wait(self, wait_ms: int, *, is_polling: bool = True) -> list[Action]:
        self.now_ms += wait_ms
        return self.give(Tick(polled_ms=self.now_ms if is_polling else 1000))

    def carry_out(self) -> tuple[Step, list[Action]]:
        step = self.core.begin_step()
        self.core.check_invariants()
        return step, self.give(StepDone())

    def joins(self) -> Action:
        assert self.give(CoordinatorReady()) == []
        [first] = self.give(Subscribe(topics=frozenset({"a"})))
        return first

    def owns(self, *partitions: int) -> None:
        self.joins()
        self.give(KNOWN)
        self.give(answer(1, *partitions))
        self.carry_out()
        self.give(answer(1))
        assert self.core.owned == {TopicPartition("a", index) for index in partitions}


def answer(epoch: int, *partitions: int, error: ErrorCode = ErrorCode.none) -> ConsumerHeartbeatAnswered:
    """Without partitions: the assignment as before."""
    assignment = frozenset((A, index) for index in partitions) if partitions else None
    return ConsumerHeartbeatAnswered(error=error, member_epoch=epoch, interval_ms=1000, assignment=assignment)
