"""One script of group requests of every version, valid and invalid, and its answers. Varying values are masked.

Run against any broker: ids that a broker makes up become `#`, times and texts are left out, arrays are sorted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from typing import Any
from uuid import UUID

from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

NOWHERE = UUID(int=5)
PATIENCE_MS = 300_000  # so that no member is put out while a busy host takes its time
ALL_OF_S = tuple(range(6))  # partitions: two or three members share them evenly
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"  # of topic `t`, version 0
_OWN = ""  # stands for the topic of the script
_LEFT_OUT = frozenset({"throttle_time", "error_message", "authorized_operations", "client_host", "port"})
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|^[A-Za-z0-9_-]{22}$")


class GroupScript:
    topic = "t"  # of what a request names no topic for

    def __init__(self, port: int) -> None:
        self.answers: list[tuple[str, Any]] = []
        self._port = port
        self._waiting = ThreadPoolExecutor(4)
        self.topics: dict[str, UUID] = {}

    def run(self) -> list[tuple[str, Any]]:
        self._prepare()
        self._unknown_groups()
        self._offsets_without_members()
        for version in range(10):
            self._one_member(version)
        self._static_members()
        self._two_members()
        self._consumer_refusals()
        self._consumer_reconciles()
        self._consumer_static()
        self._changing_protocols()
        self._coordinators()
        self._waiting.shutdown()
        return self.answers

    # -- tools -------------------------------------------------------------------------------------------------------

    def do(self, label: str, key: ApiKey, version: int, /, **values: Any) -> Any:
        answer = ask(self._port, key, version, **values)
        self.answers.append((f"{label} {key.name} v{version}", self._masked(answer)))
        return answer

    def do_silently(self, key: ApiKey, version: int, /, **values: Any) -> Any:
        """For the script itself: the answer is not compared."""
        return ask(self._port, key, version, **values)

    def later(self, key: ApiKey, version: int, /, **values: Any) -> Future[Any]:
        """It is answered when others have done their part, so the script goes on meanwhile."""
        return self._waiting.submit(ask, self._port, key, version, **values)

    def wait_until_it_rebalances(self, group: str) -> None:
        """Until the broker has a join that it does not answer yet."""

        def does() -> bool:
            (found,) = self.do_silently(ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
            return bool(found.group_state == "PreparingRebalance")

        wait_until(does, f"{group} rebalances")

    def got(self, label: str, future: Future[Any]) -> Any:
        answer = future.result(60)
        self.answers.append((label, self._masked(answer)))
        return answer

    def _masked(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return value.name
        if is_dataclass(value):
            return {each.name: self._field(each.name, value) for each in fields(value) if each.name not in _LEFT_OUT}
        if isinstance(value, tuple):
            return sorted((self._masked(each) for each in value), key=str)
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, UUID) or (isinstance(value, str) and _MADE_UP.search(value)):
            return "#"
        return value

    def _field(self, name: str, owner: Any) -> Any:
        return self._masked(getattr(owner, name))

    def join(self, label: str, version: int, group: str, member: str = "", **changes: Any) -> Any:
        return self.do(label, ApiKey.JOIN_GROUP, version, **_join(group, member, **changes))

    def sync(self, label: str, version: int, group: str, member: str, generation: int = 1, **changes: Any) -> Any:
        return self.do(label, ApiKey.SYNC_GROUP, version, **_sync(group, member, generation, **changes))

    def heartbeat(self, label: str, version: int, group: str, member: str, generation: int = 1, **changes: Any) -> Any:
        values = {"group_instance_id": None, **changes}
        return self.do(
            label, ApiKey.HEARTBEAT, version, group_id=group, generation_id=generation, member_id=member, **values
        )

    def leave(self, label: str, version: int, group: str, *members: tuple[str, str | None]) -> Any:
        listed = [{"member_id": name, "group_instance_id": instance, "reason": "r"} for name, instance in members]
        return self.do(label, ApiKey.LEAVE_GROUP, version, group_id=group, member_id=members[0][0], members=listed)

    def commit(
        self, label: str, version: int, group: str, member: str = "", generation: int = -1, **changes: Any
    ) -> Any:
        return self.do(
            label, ApiKey.OFFSET_COMMIT, version, **self._commit(version, group, member, generation, **changes)
        )

    def _commit(self, version: int, group: str, member: str, generation: int, **changes: Any) -> dict[str, Any]:
        values = {"topic": self.topic, "partition": 0, "offset": 5, "metadata": "x", "instance": None, **changes}
        topic = {"topic_id": self.topics.get(values["topic"], NOWHERE)} if version >= 10 else {"name": values["topic"]}
        partition = {
            "partition_index": values["partition"],
            "committed_offset": values["offset"],
            "committed_leader_epoch": 0,
            "committed_metadata": values["metadata"],
        }
        return {
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "group_instance_id": values["instance"],
            "topics": [{**topic, "partitions": [partition]}],
        }

    def fetch(
        self, label: str, version: int, group: str, topics: Sequence[str] | None = (_OWN,), **changes: Any
    ) -> Any:
        asked = None
        if topics is not None:
            asked = [
                {**({"topic_id": self.topics.get(name, NOWHERE)} if version >= 10 else {"name": name}),
                 "partition_indexes": [0, 1]}
                for name in (self.topic if each == _OWN else each for each in topics)
            ]  # fmt: skip
        if version < 8:
            return self.do(label, ApiKey.OFFSET_FETCH, version, group_id=group, topics=asked)
        one = {"group_id": group, "topics": asked, "member_id": None, "member_epoch": -1, **changes}
        return self.do(label, ApiKey.OFFSET_FETCH, version, groups=[one])

    def describe(self, label: str, version: int, *groups: str) -> Any:
        return self.do(label, ApiKey.DESCRIBE_GROUPS, version, groups=groups)

    def describe_consumers(self, label: str, version: int, *groups: str) -> Any:
        return self.do(label, ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=groups)

    def delete(self, label: str, version: int, *groups: str) -> Any:
        return self.do(label, ApiKey.DELETE_GROUPS, version, groups_names=groups)

    def delete_offsets(self, label: str, group: str, *topics: str) -> Any:
        listed = [{"name": name, "partitions": [{"partition_index": 0}]} for name in topics]
        return self.do(label, ApiKey.OFFSET_DELETE, 0, group_id=group, topics=listed)

    def beat(self, label: str, group: str, member: str, epoch: int, version: int = 1, **changes: Any) -> Any:
        first = {"rebalance_timeout": PATIENCE_MS, "subscribed_topic_names": [self.topic], "topic_partitions": []}
        none = {"instance_id": None, "rack_id": None, "server_assignor": None, "subscribed_topic_regex": None}
        other = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        values = {**none, **(first if epoch == 0 else other), **changes}
        return self.do(
            label,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            version,
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            **values,
        )

    # -- the script --------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        wanted = [
            {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
            for name, count in (("t", 3), ("u", 2), ("s", len(ALL_OF_S)))
        ]
        ask(self._port, ApiKey.CREATE_TOPICS, 7, topics=wanted, timeout=10_000, validate_only=False)
        wait_until(self._is_ready, "coordinators", 60)
        found = ask(self._port, ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False)
        self.topics = {topic.name: topic.topic_id for topic in found.topics}

    def _is_ready(self) -> bool:
        groups = [f"g{number}" for number in range(20)]  # of every partition of __consumer_offsets
        found = ask(self._port, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=groups)
        if any(each.error_code is not ErrorCode.none for each in found.coordinators):
            return False
        deleted = ask(self._port, ApiKey.DELETE_GROUPS, 2, groups_names=groups)
        return all(each.error_code is ErrorCode.group_id_not_found for each in deleted.results)

    def _unknown_groups(self) -> None:
        for version in range(5):
            self.heartbeat("unknown group", version, "none", "m")
        self.heartbeat("no group id", 4, "", "m")
        for version in range(6):
            self.leave("unknown group", version, "none", ("m", None), ("", "i"))
            self.sync("unknown group", version, "none", "m")
        self.sync("without protocol", 5, "none", "m", protocol_type=None, protocol_name=None)
        for version in range(7):
            self.describe("unknown groups", version, "none", "")
        self.delete("unknown groups", 2, "none", "")
        self.delete_offsets("unknown group", "none", "t")
        for version in range(1, 11):
            self.fetch("unknown group", version, "none")
        for version in (5, 8, 10):
            self.fetch("everything of an unknown group", version, "none", None)
            self.fetch("nothing", version, "none", ())
        for version in (8, 10):
            self.fetch("unknown topic", version, "none", ("nope",))
            self.commit("unknown topic", version, "none", topic="nope")
        self.commit("generation of an unknown group", 8, "none", "m", 3)
        self.commit("unknown partition", 8, "none", partition=77)

    def _offsets_without_members(self) -> None:
        for version in range(2, 11):
            self.commit("simple", version, "simple", offset=version)
        self.commit("large metadata", 8, "simple", metadata="x" * 4_097)
        self.commit("negative offset", 8, "simple", offset=-5, partition=1)
        for version in range(1, 11):
            self.fetch("simple", version, "simple")
        for version in (8, 10):
            self.fetch("everything", version, "simple", None)
        self.describe("only offsets", 6, "simple")
        self.describe_consumers("only offsets", 1, "simple", "none")
        self._listed("first group")
        self.delete_offsets("simple", "simple", "t", "nope")
        self.delete("simple", 2, "simple")
        self.delete("gone", 0, "simple")
        self.fetch("gone", 8, "simple", None)

    def _listed(self, label: str) -> None:
        for version in range(6):
            self.do(label, ApiKey.LIST_GROUPS, version, states_filter=[], types_filter=[])
        self.do(f"{label}, filtered", ApiKey.LIST_GROUPS, 5, states_filter=["EMPTY"], types_filter=["Classic"])
        self.do(f"{label}, others", ApiKey.LIST_GROUPS, 5, states_filter=["stable"], types_filter=["consumer"])

    def _one_member(self, version: int) -> None:
        group, sync_version, heartbeat_version = f"one-{version}", min(version, 5), min(version, 4)
        joined = self.join("first", version, group)
        if joined.error_code is ErrorCode.member_id_required:
            joined = self.join("with the id", version, group, joined.member_id)
        member = joined.member_id
        self.sync("leader", sync_version, group, member, assignments=[{"member_id": member, "assignment": b"A"}])
        self.sync("again", sync_version, group, member)
        self.heartbeat("member", heartbeat_version, group, member)
        self.describe("one member", min(version, 6), group)
        if version == 9:
            self._refusals(group, member)
        self.leave("twice", min(version, 5), group, (member, None), (member, None))
        self.describe("left", min(version, 6), group)

    def _refusals(self, group: str, member: str) -> None:
        self.sync("wrong generation", 5, group, member, 9)
        self.sync("wrong protocol", 5, group, member, protocol_name="zz")
        self.sync("wrong instance", 5, group, member, group_instance_id="u")
        self.heartbeat("wrong generation", 4, group, member, 4)
        self.heartbeat("wrong instance", 4, group, member, group_instance_id="u")
        for label, name, generation, instance in (
            ("member", member, 1, None),
            ("wrong generation", member, 2, None),
            ("stranger", "m", 1, None),
            ("nobody", "", -1, None),
            ("no generation", member, -1, None),
            ("wrong instance", member, 1, "u"),
        ):
            self.commit(label, 8, group, name, generation, instance=instance)
        self.delete_offsets("subscribed", group, "t", "u")
        self.delete("with members", 2, group)
        for label, changes in (
            ("other type", {"protocol_type": "connect"}),
            ("other protocol", {"protocols": [{"name": "zz", "metadata": b""}]}),
            ("session too short", {"session_timeout": 10}),
            ("unknown member", {"member_id": "zzz"}),
        ):
            self.join(label, 9, group, **changes)
        self.join("no group id", 9, "")
        self.beat("on a classic group", group, "M", 0)
        self.describe_consumers("classic group, and no id", 1, group, "")

    def _static_members(self) -> None:
        two = [{"name": "p", "metadata": b"1"}, {"name": "q", "metadata": b"2"}]
        values: dict[str, Any] = {"group_instance_id": "i", "protocol_type": "connect", "protocols": two}
        old = self.join("static", 9, "static", **values).member_id
        self.sync("static", 5, "static", old, group_instance_id="i", protocol_type="connect", protocol_name="p")
        self.delete_offsets("not a consumer group", "static", "t")
        self.join("static is back", 9, "static", **values)
        self.heartbeat("old id", 4, "static", old, group_instance_id="i")
        self.heartbeat("old id alone", 4, "static", old)
        self.leave("old id", 5, "static", (old, "i"))
        self.join("static is back", 8, "static", **values)
        changed = [{"name": "p", "metadata": b"9"}, {"name": "q", "metadata": b"2"}]
        self.join("other metadata", 9, "static", **{**values, "protocols": changed})
        self.join("other protocol", 9, "static", **{**values, "protocols": changed[1:]})
        self.describe("static", 6, "static")
        self.leave("by instance", 5, "static", ("", "i"), ("", "nobody"))

    def _two_members(self) -> None:
        a = self.join("a", 9, "two", group_instance_id="a").member_id
        waiting = self.later(ApiKey.JOIN_GROUP, 9, **_join("two", "", group_instance_id="b"))
        self.wait_until_it_rebalances("two")
        self.sync("preparing", 5, "two", a, group_instance_id="a")
        self.heartbeat("preparing", 4, "two", a, group_instance_id="a")
        self.commit("preparing", 8, "two", a, 1, instance="a")
        self.describe("preparing", 6, "two")
        again = self.later(ApiKey.JOIN_GROUP, 9, **_join("two", a, group_instance_id="a"))
        self.got("a joined", again)
        b = self.got("b joined", waiting).member_id
        self.describe("completing", 6, "two")
        self.heartbeat("completing", 4, "two", a, 2, group_instance_id="a")
        self.commit("completing", 8, "two", a, 2, instance="a")
        self.join("completing", 9, "two", a, group_instance_id="a")
        waiting = self.later(ApiKey.SYNC_GROUP, 5, **_sync("two", b, 2, group_instance_id="b"))
        assignments = [{"member_id": b, "assignment": b"B"}]
        self.sync("leader", 5, "two", a, 2, group_instance_id="a", assignments=assignments)
        self.got("b synced", waiting)
        self.join("follower, stable", 9, "two", b, group_instance_id="b")
        self.describe("stable", 6, "two")
        self.leave("one wrong", 5, "two", (a, "a"), (b, "a"))
        self.leave("last", 5, "two", (b, "b"))
        self.delete("empty", 2, "two")

    def _consumer_refusals(self) -> None:
        owned = [{"topic_id": self.topics["t"], "partitions": [0]}]
        for label, member, epoch, changes in (
            ("no member id", "", 0, {}),
            ("no timeout", "m", 0, {"rebalance_timeout": -1}),
            ("no partitions", "m", 0, {"topic_partitions": None}),
            ("owned at joining", "m", 0, {"topic_partitions": owned}),
            ("no subscription", "m", 0, {"subscribed_topic_names": None}),
            ("epoch -3", "m", -3, {}),
            ("-2 without instance", "m", -2, {}),
            ("unknown assignor", "m", 0, {"server_assignor": "none"}),
            ("empty instance", "m", 0, {"instance_id": ""}),
            ("empty rack", "m", 0, {"rack_id": ""}),
            ("bad regex", "m", 0, {"subscribed_topic_names": None, "subscribed_topic_regex": "("}),
            ("unknown group", "m", 3, {}),
            ("leave an unknown group", "m", -1, {}),
        ):
            self.beat(label, "refused", member, epoch, **changes)
        self.beat("no group id", "", "m", 0)

    def _consumer_reconciles(self) -> None:
        a = self.beat("a joins", "new", "A", 0).member_epoch
        self.beat("a", "new", "A", a)
        self.beat("wrong epoch", "new", "A", 77)
        self.beat("unknown member", "new", "Z", 3)
        self.beat("a again", "new", "A", 0)
        b = self.beat("b joins", "new", "B", 0).member_epoch
        told = self.beat("a must give up", "new", "A", a)
        self.describe_consumers("reconciling", 1, "new")
        kept = [{"topic_id": each.topic_id, "partitions": each.partitions} for each in told.assignment.topic_partitions]
        self.beat("a gave up", "new", "A", a, topic_partitions=kept)
        self.beat("b gets", "new", "B", b)
        self.beat("a, answer lost", "new", "A", a, topic_partitions=kept)
        self.describe_consumers("stable", 0, "new")
        for label, version, member, epoch in (
            ("member", 9, "A", b),
            ("old epoch", 9, "A", a),
            ("old version", 8, "A", b),
            ("unknown member", 9, "Z", b),
            ("nobody", 9, "", -1),
            ("epoch ahead", 9, "A", b + 7),
        ):
            self.commit(label, version, "new", member, epoch)
        for label, member_id, epoch in (("member", "A", b), ("old epoch", "A", a), ("unknown member", "Z", b)):
            self.fetch(label, 9, "new", member_id=member_id, member_epoch=epoch)
        self.delete_offsets("consumer group", "new", "t", "u")
        self.delete("with members", 2, "new")
        self.join("on a consumer group", 9, "new", group_instance_id="i", protocol_type="connect")
        self.heartbeat("on a consumer group", 4, "new", "A")
        self.describe("consumer group", 6, "new")
        self.leave("stranger", 5, "new", ("Z", None))
        self.beat("b subscribes to more", "new", "B", b, subscribed_topic_names=["t", "u"])
        self.beat("a leaves", "new", "A", -1)
        self.beat("a leaves again", "new", "A", -1)
        self.beat("b", "new", "B", b + 1)
        self.leave("by an admin", 5, "new", ("B", None))
        self.describe_consumers("empty", 1, "new")
        self.commit("empty", 9, "new")
        self.delete("empty", 2, "new")
        self.beat("id made by the broker", "new", "", 0, version=0)

    def _consumer_static(self) -> None:
        epoch = self.beat("static", "still", "S1", 0, instance_id="i").member_epoch
        self.beat("instance in use", "still", "S2", 0, instance_id="i")
        self.beat("wrong instance", "still", "S1", epoch, instance_id="u")
        self.beat("wrong member", "still", "S2", epoch, instance_id="i")
        self.beat("no instance", "still", "S1", epoch)
        self.beat("away", "still", "S1", -2, instance_id="i")
        self.describe_consumers("away", 1, "still")
        self.beat("while away", "still", "S1", epoch, instance_id="i")
        self.beat("back", "still", "S3", 0, instance_id="i")
        self.describe_consumers("back", 1, "still")
        self.beat("old id", "still", "S1", epoch, instance_id="i")
        self.beat("old id leaves", "still", "S1", -1, instance_id="i")
        self.beat("leaves", "still", "S3", -1, instance_id="i")

    def _changing_protocols(self) -> None:
        epoch = self.beat("first new", "both", "X", 0).member_epoch
        self.commit("new", 9, "both", "X", epoch)
        self.beat("leaves", "both", "X", -1)
        member = self.join("then classic", 9, "both", group_instance_id="k").member_id
        self.fetch("offsets stay", 8, "both")
        self.leave("classic", 5, "both", (member, "k"))
        self.beat("new again", "both", "X", 0)
        self._listed("last")

    def _coordinators(self) -> None:
        for version in range(7):
            self.do("group", ApiKey.FIND_COORDINATOR, version, key="k", key_type=0, coordinator_keys=["k", ""])
        self.do("unknown type", ApiKey.FIND_COORDINATOR, 4, key_type=9, coordinator_keys=["k"])
        self.do("unknown type", ApiKey.FIND_COORDINATOR, 2, key_type=9, key="k")


def _join(group: str, member: str, **changes: Any) -> dict[str, Any]:
    values = {
        "group_id": group,
        "session_timeout": PATIENCE_MS,
        "rebalance_timeout": PATIENCE_MS,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        "reason": None,
    }
    return {**values, **changes}


def _sync(group: str, member: str, generation: int, **changes: Any) -> dict[str, Any]:
    values = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    }
    return {**values, **changes}
