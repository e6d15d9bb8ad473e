"""A group shard with a clock and a log of its own, asked about streams groups."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import Topic, TopicsChanged
from broker.coordinator.groups.shard import GroupShard
from broker.coordinator.groups.streams.events import DescribeStreamsGroup, StreamsHeartbeat, StreamsHeartbeatResult
from broker.coordinator.groups.streams.tasks import Tasks
from broker.coordinator.groups.streams.topology import Subtopology, TopicInfo, Topology
from broker.coordinator.runtime import Append, Loaded, LoadedRecord, Reply, Tick
from broker.wire.errors import ErrorCode

IN, OTHER = (Topic(topic_id=UUID(int=1), partitions=2), Topic(topic_id=UUID(int=2), partitions=3))
TOPICS = {"in": IN, "other": OTHER}
PLAIN = Topology(epoch=0, subtopologies=(Subtopology(subtopology_id="0", source_topics=("in",)),))
CHANGELOG = TopicInfo(name="g-changelog", configs=(("cleanup.policy", "compact"),))
STATEFUL = Topology(
    epoch=0,
    subtopologies=(Subtopology(subtopology_id="0", source_topics=("in",), state_changelog_topics=(CHANGELOG,)),),
)
ALL = Tasks(active={"0": frozenset({0, 1})})
AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
SESSION_MS, REVOKE_MS = 45_000, 20_000


class World:
    def __init__(self, **config: Any) -> None:
        self.config, self.now_ms, self.token = GroupConfig(**{**AT_ONCE, **config}), 1_000, 0
        self.log: list[LoadedRecord] = []
        self.topics: Mapping[str, Topic] = TOPICS
        self.shard = self._new_shard()
        self._load(0)

    def _new_shard(self) -> GroupShard:
        return GroupShard(config=self.config, rng=random.Random(1), wall_offset_ms=0)

    def _load(self, epoch: int) -> None:
        self.submit(Loaded(leader_epoch=epoch))
        self.submit(TopicsChanged(topics=self.topics))

    def fail_over(self, *, is_compacted: bool = False) -> None:
        """Another coordinator reads the log. `is_compacted`: only the last record of each key is left."""
        last = {record.key: record for record in self.log}
        kept = [record for record in self.log if last[record.key] is record] if is_compacted else self.log
        other = self._new_shard()
        for record in kept:
            other.replay(record)
        assert other.durable() == self.shard.durable()
        self.shard = other
        self._load(1)

    def set_topics(self, **topics: Topic) -> None:
        self.topics = {name.replace("_", "-"): topic for name, topic in topics.items()}
        self.submit(TopicsChanged(topics=self.topics))

    def submit(self, event: object) -> list[Any]:
        answers = []
        for action in self.shard.handle(event, self.now_ms):
            if isinstance(action, Append):
                for record in action.records:
                    offset = len(self.log)
                    self.log.append(LoadedRecord(offset=offset, timestamp_ms=0, key=record.key, value=record.value))
            elif isinstance(action, Reply):
                answers.append(action.response)
        self.shard.check_invariants()
        return answers

    def ask(self, kind: type, group_id: str = "g", **values: Any) -> Any:
        self.token += 1
        (answer,) = self.submit(kind(token=self.token, group_id=group_id, **values))
        return answer

    def beat(self, member: str, epoch: int, *, group_id: str = "g", **changes: Any) -> StreamsHeartbeatResult:
        values: dict[str, Any] = {
            "endpoint_epoch": 0, "rack_id": None, "rebalance_timeout_ms": -1, "topology": None, "owned": None,
            "process_id": None, "user_endpoint": None, "client_tags": None, "shutdown_application": False,
            "client_id": "c", "client_host": "/h", **changes,
        }  # fmt: skip
        answer = self.ask(StreamsHeartbeat, group_id, member_id=member, member_epoch=epoch, **values)
        assert isinstance(answer, StreamsHeartbeatResult)
        return answer

    def join(self, member: str, topology: Topology = PLAIN, **changes: Any) -> StreamsHeartbeatResult:
        values = {"process_id": f"process of {member}", "owned": Tasks(), "client_tags": {}, **changes}
        answer = self.beat(member, 0, topology=topology, rebalance_timeout_ms=REVOKE_MS, **values)
        assert answer.error_code is ErrorCode.none, answer
        return answer

    def two_members(self) -> tuple[StreamsHeartbeatResult, StreamsHeartbeatResult]:
        """`a` and `b` have one task each."""
        first = self.join("a")
        self.join("b")
        told = self.beat("a", first.member_epoch, owned=ALL)
        assert told.assignment is not None
        first = self.beat("a", told.member_epoch, owned=told.assignment)
        return first, self.beat("b", first.member_epoch)

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self.submit(Tick())

    def describe(self, group_id: str = "g") -> Any:
        return self.ask(DescribeStreamsGroup, group_id)


def grown(topic: Topic, partitions: int) -> Topic:
    return replace(topic, partitions=partitions)
