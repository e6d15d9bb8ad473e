"""Requests that move a group with members between the two group protocols, step by step. Run against any broker.

The answers are masked as those of group_script.py. A group's generation goes on as its epoch, and back. Where several
members have nothing, only counts of partitions are told, because who gets which is up to the assignor. The counts are
even: an odd partition goes to the first member in the order of hashes in Apache Kafka, and brokers make up some ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from group_script import ALL_OF_S, PATIENCE_MS, GroupScript

from broker.wire.apis import ApiKey

COOPERATIVE, EAGER = "cooperative-sticky", "range"


class ConversionScript(GroupScript):
    topic = "s"

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._are_counted = False

    def run(self) -> list[tuple[str, Any]]:
        self._prepare()
        self._there_and_back()
        self._cooperative()
        self._static_members_convert()
        self._members_that_change_protocol()
        self._not_upgraded()
        self._removed_by_an_admin()
        self._are_counted = True
        self._while_it_rebalances()
        self._before_the_first_generation()
        self._static_member_goes_back()
        self._refusals_in_a_mixed_group()
        self._waiting.shutdown()
        return self.answers

    # -- tools -------------------------------------------------------------------------------------------------------

    def _field(self, name: str, owner: Any) -> Any:
        value = getattr(owner, name)
        if (
            self._are_counted
            and name in ("partitions", "assignment", "member_assignment")
            and isinstance(value, tuple | bytes)
        ):
            return len(value)
        return self._masked(value)

    def classic_join(
        self, label: str, group: str, member: str = "", *, version: int = 9, owned: Sequence[int] = (), **changes: Any
    ) -> Any:
        name = changes.pop("name", EAGER)
        values = {"protocols": [{"name": name, "metadata": subscription(owned)}], **changes}
        return self.join(label, version, group, member, **values)

    def classic_group(self, group: str, **changes: Any) -> str:
        """A stable group of one member that has all partitions of `s`."""
        joined = self.classic_join("first", group, **changes)
        if changes.get("group_instance_id") is None:
            joined = self.classic_join("first, with its id", group, joined.member_id, **changes)
        member = str(joined.member_id)
        assignments = [{"member_id": member, "assignment": assignment(*ALL_OF_S)}]
        self.classic_sync("leader", group, member, joined.generation_id, assignments=assignments, **changes)
        return member

    def classic_sync(self, label: str, group: str, member: str, generation: int, **changes: Any) -> Any:
        values: dict[str, Any] = {"protocol_name": changes.pop("name", EAGER)}
        return self.sync(label, 5, group, member, generation, **values, **changes)

    def listed(self, label: str, group: str) -> None:
        answer = self.do_silently(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[])
        found = [
            (each.group_state, each.group_type, each.protocol_type) for each in answer.groups if each.group_id == group
        ]
        self.answers.append((label, found))

    def look(self, label: str, group: str) -> None:
        self.listed(f"{label}: listed", group)
        self.describe(f"{label}: as classic", 6, group)
        self.describe_consumers(f"{label}: as new", 1, group)
        self.fetch(f"{label}: offsets", 8, group)

    def gave_up(self, label: str, group: str, member: str, epoch: int, *partitions: int) -> Any:
        owned = [{"topic_id": self.topics["s"], "partitions": list(partitions)}] if partitions else []
        return self.beat(label, group, member, epoch, topic_partitions=owned)

    # -- the script --------------------------------------------------------------------------------------------------

    def _there_and_back(self) -> None:
        """An eager member, then one of the new protocol, then two; then back."""
        group = "c-eager"
        a = self.classic_group(group)
        self.commit("classic", 8, group, a, 1)
        self.look("classic", group)
        b = self.beat("b joins", group, "B", 0).member_epoch
        self.look("upgraded", group)
        self.commit("classic member, its generation", 8, group, a, 1)
        self.commit("classic member, version 9", 9, group, a, 1)
        self.commit("classic member, other generation", 8, group, a, b)
        self.commit("new member", 9, group, "B", b)
        self.commit("nobody", 8, group)
        self.heartbeat("told to join again", 4, group, a, 1)
        self.heartbeat("other generation", 4, group, a, b)
        self.classic_sync("old generation", group, a, 1)
        joined = self.classic_join("a joins again", group, a)
        self.look("a has joined again", group)
        self.classic_sync("a syncs", group, a, joined.generation_id)
        self.heartbeat("a lives", 4, group, a, joined.generation_id)
        told = self.beat("b gets its share", group, "B", b)
        self.look("settled", group)
        c = self.beat("c joins", group, "C", 0).member_epoch
        self.heartbeat("a must join again", 4, group, a, joined.generation_id)
        joined = self.classic_join("a joins a third time", group, a)
        self.classic_sync("a syncs again", group, a, joined.generation_id)
        kept = [list(each.partitions) for each in told.assignment.topic_partitions] if told.assignment else [[]]
        self.gave_up("b keeps", group, "B", b, *kept[0])
        self.beat("c lives", group, "C", c)
        self.look("three members", group)
        self.beat("c leaves", group, "C", -1)
        self.look("c has left", group)
        self.beat("b leaves", group, "B", -1)
        self.look("downgraded", group)
        self.heartbeat("after the downgrade", 4, group, a, joined.generation_id)
        self.heartbeat("after the downgrade, the group's", 4, group, a, joined.generation_id + 1)
        self.commit("after the downgrade", 8, group, a, joined.generation_id)
        joined = self.classic_join("a leads again", group, a)
        assignments = [{"member_id": a, "assignment": assignment(*ALL_OF_S)}]
        self.classic_sync("a assigns", group, a, joined.generation_id, assignments=assignments)
        self.look("classic again", group)
        self.leave("a leaves", 5, group, (a, None))
        self.look("empty", group)

    def _cooperative(self) -> None:
        """A member that keeps its partitions while it joins gives up only those that move."""
        group = "c-cooperative"
        a = self.classic_group(group, name=COOPERATIVE)
        b = self.beat("b joins", group, "B", 0).member_epoch
        self.heartbeat("told to join again", 4, group, a, 1)
        joined = self.classic_join("a joins, and owns all", group, a, owned=ALL_OF_S, name=COOPERATIVE)
        self.look("a must give up", group)
        self.heartbeat("before the sync", 4, group, a, joined.generation_id)
        self.classic_sync("a syncs", group, a, joined.generation_id, name=COOPERATIVE)
        self.beat("b waits", group, "B", b)
        self.classic_join("a still owns all", group, a, owned=ALL_OF_S, name=COOPERATIVE)
        held = self.answers_of_member(group, a)
        joined = self.classic_join("a gave up", group, a, owned=held, name=COOPERATIVE)
        self.classic_sync("a syncs again", group, a, joined.generation_id, name=COOPERATIVE)
        self.heartbeat("a lives", 4, group, a, joined.generation_id)
        self.beat("b gets its share", group, "B", b)
        self.look("settled", group)
        self.beat("b leaves", group, "B", -1)
        self.look("downgraded", group)
        self.leave("a leaves", 5, group, (a, None))

    def answers_of_member(self, group: str, member: str) -> tuple[int, ...]:
        """What the coordinator wants this member to have."""
        found = self.do_silently(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group]).groups[0]
        target = next(each.target_assignment for each in found.members if each.member_id == member)
        return tuple(index for each in target.topic_partitions for index in each.partitions)

    def _while_it_rebalances(self) -> None:
        group = "c-rebalancing"
        a = self.classic_group(group, group_instance_id="a")
        values = _join_values(group, group_instance_id="b")
        waiting = self.later(ApiKey.JOIN_GROUP, 9, **values)
        self.wait_until_it_rebalances(group)
        self.beat("new joins", group, "N", 0)
        self.got("b is told to join again", waiting)
        self.look("upgraded in a rebalance", group)
        self.heartbeat("a is told", 4, group, a, 1, group_instance_id="a")
        a2 = self.classic_join("a joins", group, a, group_instance_id="a")
        self.classic_sync("a syncs", group, a, a2.generation_id, group_instance_id="a")
        b = self.classic_join("b joins", group, group_instance_id="b")
        self.classic_sync("b syncs", group, b.member_id, b.generation_id, group_instance_id="b")
        self.look("three", group)
        self.leave("all leave", 5, group, (a, "a"), ("", "b"), ("N", None))
        self.look("empty", group)

    def _before_the_first_generation(self) -> None:
        group = "c-first"
        a = self.classic_join("a", group, group_instance_id="a").member_id
        self.look("completing", group)
        self.beat("new joins", group, "N", 0)
        self.look("upgraded before the first sync", group)
        self.classic_sync("a syncs too late", group, a, 1, group_instance_id="a")
        joined = self.classic_join("a joins", group, a, group_instance_id="a")
        self.classic_sync("a syncs", group, a, joined.generation_id, group_instance_id="a")
        self.leave("both", 5, group, (a, "a"), ("N", None))

    def _static_members_convert(self) -> None:
        group = "c-static"
        a = self.classic_group(group, group_instance_id="i")
        epoch = self.beat("the same instance, new protocol", group, "A2", 0, instance_id="i").member_epoch
        self.look("replaced", group)
        self.heartbeat("old id", 4, group, a, 1, group_instance_id="i")
        self.heartbeat("old id alone", 4, group, a, 1)
        self.classic_sync("old id", group, a, 1, group_instance_id="i")
        self.commit("old id", 8, group, a, 1, instance="i")
        self.classic_join("old id", group, a, group_instance_id="i")
        self.beat("new id lives", group, "A2", epoch, instance_id="i")
        self.leave("old id", 5, group, (a, "i"))
        self.beat("leaves", group, "A2", -1, instance_id="i")
        self.look("empty", group)

    def _static_member_goes_back(self) -> None:
        """The last member of the new protocol is replaced by a classic one with the same instance id."""
        group = "c-static-back"
        self.beat("static", group, "S", 0, instance_id="i")
        self.beat("away", group, "S", -2, instance_id="i")
        joined = self.classic_join("back as a classic member", group, group_instance_id="i")
        self.look("downgraded", group)
        self.classic_sync("syncs", group, joined.member_id, joined.generation_id, group_instance_id="i")
        self.heartbeat("lives", 4, group, joined.member_id, joined.generation_id, group_instance_id="i")
        self.leave("leaves", 5, group, (joined.member_id, "i"))
        group = "c-static-changed"
        self.beat("static", group, "S", 0, instance_id="i", subscribed_topic_names=["s", "u"])
        joined = self.classic_join("classic, fewer topics", group, group_instance_id="i")
        self.look("downgraded", group)
        self.classic_sync("syncs", group, joined.member_id, joined.generation_id, group_instance_id="i")
        self.beat("old id", group, "S", 1, instance_id="i")
        joined = self.classic_join("joins again", group, joined.member_id, group_instance_id="i")
        self.leave("leaves", 5, group, (joined.member_id, "i"))

    def _refusals_in_a_mixed_group(self) -> None:
        group = "c-mixed"
        self.beat("new", group, "N", 0)
        self.classic_join("id needed", group)
        a = self.classic_join("any id", group, "chosen").member_id
        for label, changes in (
            ("other type", {"protocol_type": "connect"}),
            ("other protocol", {"name": "zz"}),
            ("no protocol", {"protocols": []}),
            ("session too short", {"session_timeout": 10}),
            ("unknown instance", {"group_instance_id": "i", "member": "x"}),
            ("malformed", {"protocols": [{"name": EAGER, "metadata": b"\0"}]}),
        ):
            self.classic_join(label, group, changes.pop("member", "other"), **changes)
        self.look("mixed", group)
        self.classic_sync("stranger", group, "z", 1)
        self.classic_sync("new member", group, "N", 1)
        self.classic_sync("wrong generation", group, a, 77)
        generation = self._generation(group, a)
        self.classic_sync("wrong protocol", group, a, generation, name="zz")
        self.sync("wrong type", 5, group, a, generation, protocol_type="connect")
        self.sync("wrong instance", 5, group, a, generation, group_instance_id="i")
        for version in range(6):
            self.sync("every version", version, group, a, generation)
        self.heartbeat("stranger", 4, group, "z")
        self.heartbeat("new member", 4, group, "N", 1)
        self.heartbeat("wrong instance", 4, group, a, generation, group_instance_id="i")
        for version in range(5):
            self.heartbeat("every version", version, group, a, generation)
        for version in range(10):
            self.classic_join(f"version {version}", group, f"m-{version}", version=version)
        self.delete("with members", 2, group)
        self.delete_offsets("subscribed", group, "s", "u")
        self.fetch("classic member", 9, group, member_id=a, member_epoch=generation)
        self.fetch("classic member, other epoch", 9, group, member_id=a, member_epoch=generation + 50)
        self.leave("wrong instance", 5, group, (a, "i"))
        self.leave("stranger", 5, group, ("z", None))
        self.leave("all", 5, group, ("N", None), (a, None), *((f"m-{version}", None) for version in range(10)))
        self.look("empty", group)

    def _generation(self, group: str, member: str) -> int:
        found = self.do_silently(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group]).groups[0]
        return next(int(each.member_epoch) for each in found.members if each.member_id == member)

    def _members_that_change_protocol(self) -> None:
        group = "c-change"
        a = self.classic_group(group)
        self.beat("n joins", group, "N", 0)
        self.beat("a, new protocol, its id", group, a, 0)
        self.look("all new", group)
        self.classic_join("n, classic, its id", group, "N")
        self.look("n is classic", group)
        self.beat("a leaves", group, a, -1)
        self.look("downgraded", group)
        self.leave("n leaves", 5, group, ("N", None))

    def _not_upgraded(self) -> None:
        group = "c-connect"
        member = self.join("connect", 9, group, group_instance_id="i", protocol_type="connect").member_id
        self.beat("on a connect group", group, "N", 0)
        self.leave("connect", 5, group, (member, "i"))
        group = "c-malformed"
        changes = {"group_instance_id": "i", "protocols": [{"name": EAGER, "metadata": b"\0"}]}
        member = self.join("malformed", 9, group, **changes).member_id
        self.beat("on a malformed group", group, "N", 0)
        self.leave("malformed", 5, group, (member, "i"))
        group = "c-custom"
        member = self.classic_join("custom assignor", group, group_instance_id="i").member_id
        custom = assignment(*ALL_OF_S)[:-4] + b"\0\0\0\1x"
        assignments = [{"member_id": member, "assignment": custom}]
        self.classic_sync("custom assignor", group, member, 1, group_instance_id="i", assignments=assignments)
        self.beat("on a custom group", group, "N", 0)
        self.beat("unknown epoch", group, "N", 3)
        self.look("still classic", group)
        self.leave("custom", 5, group, (member, "i"))

    def _removed_by_an_admin(self) -> None:
        group = "c-admin"
        a = self.classic_group(group, group_instance_id="a")
        self.beat("static, new", group, "N", 0, instance_id="n")
        self.leave("the new one is removed", 5, group, ("", "n"))
        self.look("downgraded", group)
        self.leave("the last", 5, group, (a, "a"))


def subscription(owned: Sequence[int] = ()) -> bytes:
    """Of topic `s`, version 1: with what the member owns."""
    listed = b"\0\0\0\0" if not owned else b"\0\0\0\1" + _of_s(owned)
    return b"\0\1\0\0\0\1\0\1s\xff\xff\xff\xff" + listed


def assignment(*partitions: int) -> bytes:
    return b"\0\1\0\0\0\1" + _of_s(partitions) + b"\xff\xff\xff\xff"


def _of_s(partitions: Sequence[int]) -> bytes:
    return b"\0\1s" + len(partitions).to_bytes(4, "big") + b"".join(each.to_bytes(4, "big") for each in partitions)


def _join_values(group: str, **changes: Any) -> dict[str, Any]:
    values = {
        "group_id": group,
        "session_timeout": PATIENCE_MS,
        "rebalance_timeout": PATIENCE_MS,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": EAGER, "metadata": subscription()}],
        "reason": None,
    }
    return {**values, **changes}
