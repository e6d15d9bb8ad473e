"""Heartbeats of members that subscribe by pattern (KIP-848), and what they are told. Run against any broker.

A pattern is resolved after the heartbeat that brings it. So the script goes on with heartbeats until the member's epoch
rises. How many these are is not compared.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from group_script import GroupScript
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until


class PatternScript(GroupScript):
    def run(self) -> list[tuple[str, Any]]:
        self._prepare()
        self._names: dict[UUID, str] = {topic_id: name for name, topic_id in self.topics.items()}
        self._one_pattern()
        self._names_and_a_pattern()
        self._nothing_to_read()
        self._another_pattern()
        self._a_new_topic()
        self._another_assignor()
        self._waiting.shutdown()
        return self.answers

    # -- tools -------------------------------------------------------------------------------------------------------

    def told(self, label: str, group: str, member: str, epoch: int, **changes: Any) -> int:
        """Sends a heartbeat, and notes the answer. Returns the member's epoch."""
        answer = self._heartbeat(group, member, epoch, **changes)
        self.answers.append((label, self._summary(answer)))
        return int(answer.member_epoch)

    def until_it_rises(self, label: str, group: str, member: str, epoch: int, **changes: Any) -> int:
        """Sends heartbeats until the member has a later epoch. Notes that answer only, and what the group is like."""

        def risen() -> Any:
            answer = self._heartbeat(group, member, epoch, **changes)
            return answer if answer.member_epoch != epoch else None

        answer = wait_until(risen, f"{label}: a later epoch", 60)
        self.answers.append((label, self._summary(answer)))
        self.described(label, group)
        return int(answer.member_epoch)

    def _heartbeat(self, group: str, member: str, epoch: int, **changes: Any) -> Any:
        first = {"rebalance_timeout": 300_000, "subscribed_topic_names": None, "topic_partitions": []}
        other = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        none = {"instance_id": None, "rack_id": None, "server_assignor": None, "subscribed_topic_regex": None}
        return ask(
            self._port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=group, member_id=member, member_epoch=epoch,
            **{**none, **(first if epoch == 0 else other), **changes},
        )  # fmt: skip

    def _summary(self, answer: Any) -> Any:
        given = None
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            given = sorted((self._names.get(each.topic_id, "?"), sorted(each.partitions)) for each in parts)
        return ErrorCode(answer.error_code).name, answer.member_epoch, given

    def described(self, label: str, group: str) -> None:
        answer = ask(
            self._port, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group], include_authorized_operations=False
        )
        (found,) = answer.groups
        members = [
            (each.member_id, each.member_epoch, each.subscribed_topic_names, each.subscribed_topic_regex)
            for each in found.members
        ]
        told = (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name, sorted(members))
        self.answers.append((f"{label}: described", told))

    # -- the script --------------------------------------------------------------------------------------------------

    def _one_pattern(self) -> None:
        self.told("first", "p1", "a", 0, subscribed_topic_regex="[tu]")
        epoch = self.until_it_rises("resolved", "p1", "a", 1)
        self.told("the same pattern, resolved", "p1", "b", 0, subscribed_topic_regex="[tu]")
        self.described("two members", "p1")
        self.told("wrong", "p1", "c", 0, subscribed_topic_regex="(")
        self.told("leaves", "p1", "b", -1)
        self.described("one has left", "p1")
        epoch = self.until_it_rises("alone again", "p1", "a", epoch)
        self.told("the other leaves", "p1", "a", -1)
        self.described("nobody", "p1")
        self.told("again", "p1", "a", 0, subscribed_topic_regex="[tu]")

    def _names_and_a_pattern(self) -> None:
        epoch = self.told("both", "p2", "a", 0, subscribed_topic_names=["s"], subscribed_topic_regex="t")
        epoch = self.until_it_rises("both, resolved", "p2", "a", epoch)
        owned = [{"topic_id": self.topics["s"], "partitions": list(range(6))}]
        epoch = self.told(
            "without the pattern", "p2", "a", epoch, subscribed_topic_regex="", topic_partitions=owned,
        )  # fmt: skip
        self.described("without the pattern", "p2")

    def _nothing_to_read(self) -> None:
        self.told("matches nothing", "p3", "a", 0, subscribed_topic_regex="no-such.*")
        self.told("matches nothing, later", "p3", "a", 1)
        self.told("no names", "p3", "b", 0, subscribed_topic_names=[])
        self.described("nothing to read", "p3")

    def _another_pattern(self) -> None:
        self.told("t", "p4", "a", 0, subscribed_topic_regex="t")
        epoch = self.until_it_rises("t, resolved", "p4", "a", 1)
        owned = [{"topic_id": self.topics["t"], "partitions": [0, 1, 2]}]
        epoch = self.told("u", "p4", "a", epoch, subscribed_topic_regex="u", topic_partitions=owned)
        self.told("still owns t", "p4", "a", epoch)
        self.until_it_rises("u, resolved", "p4", "a", epoch, topic_partitions=[])

    def _a_new_topic(self) -> None:
        self.told("new.*", "p5", "a", 0, subscribed_topic_regex="new.*|t")
        epoch = self.until_it_rises("new.*, resolved", "p5", "a", 1)
        wanted = [{"name": "new-1", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
        ask(self._port, ApiKey.CREATE_TOPICS, 7, topics=wanted, timeout=10_000, validate_only=False)
        self.until_it_rises("new topic", "p5", "a", epoch)

    def _another_assignor(self) -> None:
        epoch = self.told("uniform", "p6", "a", 0, subscribed_topic_names=["t"], server_assignor="uniform")
        self.told("range", "p6", "a", epoch, server_assignor="range")
        self.described("range", "p6")
