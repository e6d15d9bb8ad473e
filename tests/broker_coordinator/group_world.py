"""Drives a group shard as its shell would: a log of what it appended, answers by token, a clock that is set by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from broker.coordinator.groups.classic_group import ClassicGroup
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.events import (
    CommitOffsets,
    ConsumerHeartbeat,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetToCommit,
    SyncGroup,
    Topic,
    TopicsChanged,
)
from broker.coordinator.groups.kinds import MakeGroups
from broker.coordinator.groups.shard import GroupShard
from broker.coordinator.runtime import Append, Loaded, LoadedMarker, LoadedRecord, Reply, Tick

R = TypeVar("R")
Entry = LoadedRecord | LoadedMarker

WALL_OFFSET_MS = 1_000_000
SESSION_MS = 10_000
REBALANCE_MS = 30_000
TOPICS = {
    "t": Topic(topic_id=UUID(int=1), partitions=4),
    "u": Topic(topic_id=UUID(int=2), partitions=3),
}


def compacted(log: Sequence[Entry]) -> list[Entry]:
    """The last record of each key. What producers with transactions wrote stays whole."""
    plain = [entry for entry in log if isinstance(entry, LoadedRecord) and not entry.is_transactional]
    last = {entry.key: entry for entry in plain}
    gone = {id(entry) for entry in plain if last[entry.key] is not entry}
    return [entry for entry in log if id(entry) not in gone]


class GroupWorld:
    def __init__(
        self,
        *,
        config: GroupConfig | None = None,
        topics: Mapping[str, Topic] | None = None,
        kinds: Sequence[MakeGroups] = (),
    ) -> None:
        self.config = config or GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0)
        self.topics, self._kinds = dict(TOPICS if topics is None else topics), kinds
        self.now_ms = 0
        self.log: list[LoadedRecord | LoadedMarker] = []
        self.answers: dict[int, Any] = {}
        self.asked: set[int] = set()
        self._appended = self._tokens = self._fail_overs = 0
        self.shard = self._new_shard(1)
        self._metadata_version = 0
        self.handle(Loaded(leader_epoch=0))
        self.topics_changed()

    def _new_shard(self, seed: int) -> GroupShard:
        return GroupShard(config=self.config, rng=random.Random(seed), wall_offset_ms=WALL_OFFSET_MS, kinds=self._kinds)

    def replayed(self, *, seed: int = 2) -> GroupShard:
        """A shard that knows the log only, as the cleaner left it."""
        whole, cleaned = self._new_shard(seed), self._new_shard(seed)
        for entry in self.log:
            whole.replay(entry)
        for entry in compacted(self.log):
            cleaned.replay(entry)
        assert cleaned.durable() == whole.durable()
        return cleaned

    def fail_over(self) -> None:
        """A new leader: what waited is never answered by it, what was appended is there."""
        self._fail_overs += 1
        self.shard, self._appended = self.replayed(seed=2 + self._fail_overs), 0  # another one makes up other ids
        self.asked = set(self.answers)
        self.handle(Loaded(leader_epoch=1))
        self.topics_changed()

    def topics_changed(self, deleted: frozenset[str] = frozenset()) -> None:
        """Tells the shard of `topics`."""
        self._metadata_version += 1
        version = self._metadata_version
        self.handle(TopicsChanged(topics=dict(self.topics), deleted=deleted, metadata_version=version))

    def handle(self, event: object) -> None:
        for action in self.shard.handle(event, self.now_ms):
            if isinstance(action, Append):
                self._appended += 1
                assert action.number == self._appended
                for record in action.records:
                    self.log.append(
                        LoadedRecord(
                            offset=len(self.log),
                            timestamp_ms=0,
                            key=record.key,
                            value=record.value,
                            producer_id=action.producer_id,
                            producer_epoch=action.producer_epoch,
                            is_transactional=action.is_transactional,
                        )
                    )
            else:
                assert isinstance(action, Reply)
                assert action.after is not None
                assert 0 <= action.after <= self._appended
                assert action.token in self.asked, "an answer without a question"
                assert action.token not in self.answers, "a second answer"
                self.answers[action.token] = action.response
        self.shard.check_invariants()

    def ask(self, event: Any) -> int:
        self.asked.add(event.token)
        self.handle(event)
        return int(event.token)

    def answer(self, token: int, kind: type[R]) -> R:
        result = self.answers[token]
        assert isinstance(result, kind)
        return result

    def is_answered(self, token: int) -> bool:
        return token in self.answers

    def pass_ms(self, duration_ms: int) -> None:
        """Ticks come when they are due."""
        end_ms = self.now_ms + duration_ms
        for _ in range(10_000):
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.handle(Tick())
        else:
            raise AssertionError("ticks without end")
        self.now_ms = end_ms

    # -- requests ----------------------------------------------------------------------------------------------------

    def token(self) -> int:
        self._tokens += 1
        return self._tokens

    def join(self, member_id: str = "", **changes: Any) -> int:
        values: dict[str, Any] = {
            "token": self.token(),
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "protocol_type": "consumer",
            "protocols": (("range", b"meta"),),
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "needs_known_member_id": False,
            "can_skip_assignment": True,
        }
        return self.ask(JoinGroup(**{**values, **changes}))

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes] | None = None, **changes: Any
    ) -> int:
        values: dict[str, Any] = {
            "token": self.token(),
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "generation": generation,
            "protocol_type": "consumer",
            "protocol": "range",
            "assignments": assignments or {},
        }
        return self.ask(SyncGroup(**{**values, **changes}))

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> Any:
        event = Heartbeat(
            token=self.token(), group_id="g", member_id=member_id, instance_id=instance_id, generation=generation
        )
        return self.answers[self.ask(event)]

    def leave(self, *members: tuple[str, str | None]) -> Any:
        return self.answers[self.ask(LeaveGroup(token=self.token(), group_id="g", members=members))]

    def commit(self, offset: int = 5, member_id: str = "", generation: int = -1, **changes: Any) -> Any:
        values: dict[str, Any] = {
            "token": self.token(),
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "generation": generation,
            "offsets": (OffsetToCommit(topic="t", partition=0, offset=offset, leader_epoch=1, metadata="m"),),
            "wall_ms": self.now_ms + WALL_OFFSET_MS,
        }
        return self.answers[self.ask(CommitOffsets(**{**values, **changes}))]

    def fetch(self, topics: Mapping[str, tuple[int, ...]] | None = None, **changes: Any) -> Any:
        values: dict[str, Any] = {
            "token": self.token(),
            "group_id": "g",
            "member_id": None,
            "member_epoch": -1,
            "topics": topics,
            "require_stable": False,
        }
        return self.answers[self.ask(FetchOffsets(**{**values, **changes}))]

    def beat(self, member_id: str, epoch: int, **changes: Any) -> Any:
        """ConsumerGroupHeartbeat; joins with topic `t` unless told otherwise."""
        values: dict[str, Any] = {
            "token": self.token(),
            "group_id": "g",
            "member_id": member_id,
            "member_epoch": epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout_ms": REBALANCE_MS if epoch == 0 else -1,
            "subscribed_topic_names": ("t",) if epoch == 0 else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "owned": {} if epoch == 0 else None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
        }
        return self.answers[self.ask(ConsumerHeartbeat(**{**values, **changes}))]


def classic_group(world: GroupWorld) -> ClassicGroup:
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def consumer_group(world: GroupWorld) -> ConsumerGroup:
    group = world.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group
