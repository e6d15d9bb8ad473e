"""One script of requests to streams groups (KIP-1071), valid and invalid, and its answers with all their texts.

Run against any broker. Members are plain requests: nothing is processed. Left out is what differs on purpose: an
OffsetFetch with an epoch and without a member id gets UNKNOWN_SERVER_ERROR of Apache Kafka, and UNKNOWN_MEMBER_ID here.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from streams_requests import (
    consumer_beat,
    heartbeat,
    info,
    joining,
    plain,
    share_beat,
    stateful,
    subtopology,
    tasks,
    topology,
)
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

BEAT, DESCRIBE = ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE
MISSING_INTERNAL_TOPICS = 3
LONG_MS = 600_000  # so that nothing ends while a busy host takes its time
SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    "group.streams.max.size": 3,
    "group.streams.max.assignment.interval.ms": LONG_MS,
    **{
        f"group.{kind}.{bound}session.timeout.ms": LONG_MS for kind in ("streams", "consumer") for bound in ("", "max.")
    },
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "auto.create.topics.enable": "false",
}
_GROUP_CONFIG = 32


class StreamsScript:
    def __init__(self, port: int) -> None:
        self.answers: list[tuple[str, Any]] = []
        self._port = port

    def run(self) -> list[tuple[str, Any]]:
        self._prepare()
        self._wrong_fields()
        self._unknown_groups()
        self._topics_that_come_later()
        self._two_members()
        self._standbys()
        self._wrong_topologies()
        self._endpoints()
        self._shutdown()
        self._delays()
        self._offsets()
        self._other_protocols()
        self._full_groups()
        self._deletion()
        return self.answers

    # -- tools -------------------------------------------------------------------------------------------------------

    def do(self, label: str, key: ApiKey, version: int, /, **values: Any) -> Any:
        answer = ask(self._port, key, version, **values)
        self.answers.append((f"{label} {key.name} v{version}", plain(answer)))
        return answer

    def _prepare(self) -> None:
        for name, partitions in (("in", 2), ("other", 3)):
            self.create(name, partitions)
        groups = [f"g{number}" for number in range(8)]
        ready = (ErrorCode.none, ErrorCode.group_id_not_found)

        def is_ready() -> bool:
            found = ask(self._port, ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=groups).coordinators
            if any(each.error_code is not ErrorCode.none for each in found):
                return False
            described = ask(self._port, DESCRIBE, 0, group_ids=groups, include_authorized_operations=False)
            return all(group.error_code in ready for group in described.groups)

        wait_until(is_ready, "a group coordinator", 60)

    def create(self, name: str, partitions: int) -> None:
        topic = {
            "name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": [],
        }  # fmt: skip
        made = ask(self._port, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=50_000, validate_only=False)
        assert made.topics[0].error_code is ErrorCode.none

    def configure(self, group: str, **values: str) -> None:
        configs = [
            {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in values.items()
        ]
        resource = {"resource_type": _GROUP_CONFIG, "resource_name": group, "configs": configs}
        done = ask(self._port, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert done.responses[0].error_code is ErrorCode.none, done
        wanted = {each["name"]: each["value"] for each in configs}
        wait_until(lambda: wanted.items() <= self._configured(group).items(), f"the settings of {group}")

    def _configured(self, group: str) -> dict[str, str]:
        """As the broker knows it, which hears of a change a moment after the controller has answered."""
        resource = {"resource_type": _GROUP_CONFIG, "resource_name": group, "configuration_keys": None}
        answer = ask(self._port, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=False)
        return {each.name: each.value for each in answer.results[0].configs}

    def beat(self, label: str, group: str, member: str = "m1", epoch: int = 0, **changes: Any) -> Any:
        return self.do(label, BEAT, 0, **heartbeat(group, member, epoch, **changes))

    def join(self, label: str, group: str, member: str = "m1", *, shape: dict[str, Any], **changes: Any) -> Any:
        return self.beat(label, group, member, 0, **joining(shape, **changes))

    def describe(self, label: str, *groups: str) -> None:
        self.do(label, DESCRIBE, 0, group_ids=list(groups), include_authorized_operations=True)

    def settle(self, label: str, group: str, member: str, epoch: int) -> Any:
        """Heartbeats until internal topics are there. Only the last answer is compared."""
        last: list[Any] = []

        def has_topics() -> bool:
            number = last[-1].member_epoch if last else epoch
            last.append(ask(self._port, BEAT, 0, **heartbeat(group, member, number)))
            assert last[-1].error_code is ErrorCode.none, last[-1]
            codes = [each.status_code for each in last[-1].status]
            return MISSING_INTERNAL_TOPICS not in codes and last[-1].active_tasks is not None

        wait_until(has_topics, "the internal topics", 60)
        self.answers.append((label, plain(last[-1])))
        return last[-1]

    # -- what is refused ---------------------------------------------------------------------------------------------

    def _wrong_fields(self) -> None:
        shape = topology(subtopology("0", "in"))
        first = joining(shape)
        offsets = [{"subtopology_id": "0", "partition": 0, "offset": 1}]
        wrong: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
            ("no member id", "", 0, first),
            ("blank member id", " ", 0, first),
            ("static member", "m", 0, {**first, "instance_id": "i"}),
            ("task offsets", "m", 0, {**first, "task_offsets": offsets}),
            ("task end offsets", "m", 0, {**first, "task_end_offsets": []}),
            ("warm-up tasks", "m", 3, {"active_tasks": [], "standby_tasks": [], "warmup_tasks": tasks(_0=[0])}),
            ("empty rack", "m", 0, {**first, "rack_id": ""}),
            ("no rebalance timeout", "m", 0, {**first, "rebalance_timeout": -1}),
            ("active tasks null", "m", 0, {**first, "active_tasks": None}),
            ("active tasks", "m", 0, {**first, "active_tasks": tasks(_0=[0])}),
            ("standby tasks", "m", 0, {**first, "standby_tasks": tasks(_0=[0])}),
            ("warm-up tasks null", "m", 0, {**first, "warmup_tasks": None}),
            ("no topology", "m", 0, {**first, "topology": None}),
            ("epoch -2", "m", -2, {}),
            ("epoch -3", "m", -3, {}),
            ("only active tasks", "m", 1, {"active_tasks": []}),
            ("a topology later", "m", 1, {"topology": shape}),
            ("a pattern", "m", 0, joining(topology(subtopology("0", source_topic_regex=["a.*"])))),
            ("internal topic", "m", 0, joining(topology(subtopology("0", "in", "__consumer_offsets")))),
            ("names of topics", "m", 0, joining(topology(subtopology("0", "a b", "in", "c/d")))),
            (
                "changelog with partitions",
                "m",
                0,
                joining(topology(subtopology("0", "in", state_changelog_topics=[info("log", 4)]))),
            ),
        )
        for label, member, epoch, values in wrong:
            self.beat(label, "wrong", member, epoch, **values)
        self.beat("no group id", "", "m", 0, **first)
        self.beat("leaves nothing", "wrong", "m", -1)

    def _unknown_groups(self) -> None:
        self.beat("unknown", "nope", "m", 5)
        self.beat("unknown leaves", "nope", "m", -1)
        self.describe("unknown", "nope", "")
        self._describe_as_others("nope")

    # -- topics ------------------------------------------------------------------------------------------------------

    def _topics_that_come_later(self) -> None:
        shape = topology(subtopology("0", "late", "in"))
        joined = self.join("no source", "late", shape=shape)
        self.describe("not ready", "late")
        self.do("listed", ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["streams"])
        self.beat("still no source", "late", epoch=joined.member_epoch)
        self.create("late", 3)
        got = self.settle("its source comes", "late", "m1", joined.member_epoch)
        self.describe("ready", "late")
        self.beat("leaves", "late", epoch=-1)
        assert got.member_epoch > joined.member_epoch
        self.describe("empty", "late")

    # -- members -----------------------------------------------------------------------------------------------------

    def _two_members(self) -> None:
        group, shape = "two", stateful("two", "other")
        joined = self.join("first", group, shape=shape, rack_id="r", client_tags=[{"key": "zone", "value": "a"}])
        self.describe("internal topics are missing", group)
        first = self.settle("first has all", group, "m1", joined.member_epoch)
        self.describe("internal topics are there", group)
        self._describe_topics("two-repartition", "two-changelog")
        epoch = first.member_epoch
        everything = {"active_tasks": tasks(_0=[0, 1, 2], _1=[0, 1, 2]), "standby_tasks": [], "warmup_tasks": []}
        self.beat("nothing new", group, epoch=epoch, **everything)
        self.beat("greater epoch", group, epoch=epoch + 1)
        self.beat("smaller epoch", group, epoch=epoch - 2)
        self.beat("previous epoch, nothing told", group, epoch=joined.member_epoch)
        self.beat("previous epoch", group, epoch=joined.member_epoch, **everything)
        self.beat("unknown member", group, "nobody", epoch)
        self.beat("unknown subtopology", group, epoch=epoch, **{**everything, "active_tasks": tasks(_7=[0])})
        self.beat("unknown task", group, epoch=epoch, **{**everything, "active_tasks": tasks(_1=[0, 3])})
        second = self.join("second", group, "m2", shape=shape, process_id="p2")
        self.describe("second waits", group)
        told = self.beat("first must revoke", group, epoch=epoch, **everything)
        self.describe("first revokes", group)
        left = [
            {"subtopology_id": each.subtopology_id, "partitions": list(each.partitions)} for each in told.active_tasks
        ]
        first = self.beat("revoked", group, epoch=told.member_epoch, **{**everything, "active_tasks": left})
        second = self.beat("second gets the rest", group, "m2", second.member_epoch)
        self.describe("both", group)
        self.join("first joins again", group, shape=shape)
        self.beat("second leaves", group, "m2", -1)
        self.beat("first again", group, epoch=first.member_epoch)
        self.describe("one left", group)
        self.join("negative topology", group, "m3", shape={**shape, "epoch": -1})
        self.join("other topology", group, "m3", shape=topology(subtopology("0", "in")))
        self.join("newer topology", group, "m3", shape={**shape, "epoch": 1})
        self.describe("after refusals", group)

    def _describe_topics(self, *names: str) -> None:
        answer = ask(self._port, ApiKey.METADATA, 12, topics=[{"name": name} for name in names])
        found = sorted((each.name, each.error_code.name, len(each.partitions)) for each in answer.topics)
        self.answers.append(("internal topics", found))
        resources = [
            {"resource_type": 2, "resource_name": name, "configuration_keys": ["cleanup.policy"]} for name in names
        ]
        configs = ask(self._port, ApiKey.DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=False)
        self.answers.append(("their settings", sorted((r.resource_name, r.configs[0].value) for r in configs.results)))

    def _standbys(self) -> None:
        group, shape = "standby", stateful("standby", "in")
        self.configure(group, streams_num_standby_replicas="1")
        joined = self.join("alone", group, shape=shape)
        first = self.settle("alone has all", group, "m1", joined.member_epoch)
        second = self.join("another process", group, "m2", shape=shape, process_id="p2")
        everything = {"active_tasks": tasks(_0=[0, 1], _1=[0, 1]), "standby_tasks": [], "warmup_tasks": []}
        told = self.beat("revokes", group, epoch=first.member_epoch, **everything)
        left = [
            {"subtopology_id": each.subtopology_id, "partitions": list(each.partitions)} for each in told.active_tasks
        ]
        first = self.beat("revoked", group, epoch=told.member_epoch, **{**everything, "active_tasks": left})
        second = self.beat("takes over", group, "m2", second.member_epoch)
        self.beat("first sees", group, epoch=first.member_epoch)
        self.describe("with standbys", group)
        self.configure(group, streams_num_standby_replicas="0", streams_heartbeat_interval_ms="6000")
        self._settings_seen(group, first.member_epoch)
        self.describe("without standbys", group)
        assert second.error_code is ErrorCode.none

    def _settings_seen(self, group: str, epoch: int) -> None:
        last: list[Any] = []

        def are_seen() -> bool:
            number = last[-1].member_epoch if last else epoch
            last.append(ask(self._port, BEAT, 0, **heartbeat(group, "m1", number)))
            return last[-1].standby_tasks is not None  # it has to give up a standby task

        wait_until(are_seen, "the group's settings", 60)
        self.answers.append(("new settings", plain(last[-1])))

    def _wrong_topologies(self) -> None:
        pair = {"source_topics": [0, 1], "source_topic_regex": [], "repartition_source_topics": []}
        self.join(
            "not copartitioned", "uneven", shape=topology(subtopology("0", "in", "other", copartition_groups=[pair]))
        )
        self.describe("not copartitioned", "uneven")
        self.join("no source at all", "sourceless", shape=topology(subtopology("0")))
        self.describe("no source at all", "sourceless")
        loop = subtopology("0", repartition_sink_topics=["loop"], repartition_source_topics=[info("loop")])
        self.join("a loop", "loop", shape=topology(loop))
        self.describe("a loop", "loop")
        self.join("newer topology first", "stale", shape=topology(subtopology("0", "in"), epoch=2))
        self.join("older topology", "stale", "m2", shape=topology(subtopology("0", "in"), epoch=1))
        self.join("no subtopology", "bare", shape=topology())
        self.describe("no subtopology", "bare")

    def _endpoints(self) -> None:
        group, shape = "endpoints", topology(subtopology("0", "in", "other"))
        one = self.join("first", group, shape=shape, user_endpoint={"host": "a", "port": 40_000})
        one = self.beat("first again", group, epoch=one.member_epoch, endpoint_information_epoch=0)
        two = self.join("second", group, "m2", shape=shape, user_endpoint={"host": "b", "port": 7}, process_id="p2")
        everything = {"active_tasks": tasks(_0=[0, 1, 2]), "standby_tasks": [], "warmup_tasks": []}
        told = self.beat("revokes", group, epoch=one.member_epoch, **everything)
        left = [
            {"subtopology_id": each.subtopology_id, "partitions": list(each.partitions)} for each in told.active_tasks
        ]
        self.beat("revoked", group, epoch=told.member_epoch, **{**everything, "active_tasks": left})
        two = self.beat("takes over", group, "m2", two.member_epoch, endpoint_information_epoch=1)
        self.beat("knows", group, "m2", two.member_epoch, endpoint_information_epoch=two.endpoint_information_epoch)
        self.describe("endpoints", group)

    def _shutdown(self) -> None:
        group, shape = "shutdown", topology(subtopology("0", "in"))
        one = self.join("first", group, shape=shape)
        one = self.beat("asks", group, epoch=one.member_epoch, shutdown_application=True)
        self.join("second is told", group, "m2", shape=shape)
        self.beat("leaves and asks", group, "m2", -1, shutdown_application=True)
        self.beat("is told", group, epoch=one.member_epoch)
        self.beat("leaves", group, epoch=-1)
        self.join("a new life", group, shape=shape)

    def _delays(self) -> None:
        group, shape = "delayed", topology(subtopology("0", "in"))
        self.configure(group, streams_initial_rebalance_delay_ms=str(LONG_MS))
        joined = self.join("first", group, shape=shape)
        self.beat("waits", group, epoch=joined.member_epoch)
        self.describe("waits", group)
        group = "interval"
        self.configure(group, streams_initial_rebalance_delay_ms="1500", streams_assignment_interval_ms=str(LONG_MS))
        joined = self.join("first", group, shape=shape)
        self._settings_seen_by_tasks(group, joined.member_epoch)
        self.describe("has waited", group)
        self.join("second waits for the interval", group, "m2", shape=shape)
        self.describe("second", group)

    def _settings_seen_by_tasks(self, group: str, epoch: int) -> None:
        last: list[Any] = []

        def has_tasks() -> bool:
            number = last[-1].member_epoch if last else epoch
            last.append(ask(self._port, BEAT, 0, **heartbeat(group, "m1", number)))
            return bool(last[-1].active_tasks)

        wait_until(has_tasks, "tasks after the delay", 60)
        self.answers.append(("has tasks", plain(last[-1])))

    # -- offsets -----------------------------------------------------------------------------------------------------

    def _offsets(self) -> None:
        group, shape = "offsets", topology(subtopology("0", "in"), subtopology("1", "other"))
        self._commit("without a group", "offsets-none", "m1", 3)
        joined = self.join("first", group, shape=shape)
        epoch = joined.member_epoch
        for version in (8, 9, 10):
            self._commit("member", group, "m1", epoch, version)
        self._commit("greater epoch", group, "m1", epoch + 1)
        self._commit("no member", group, "", -1)
        self._commit("unknown member", group, "nobody", epoch)
        self._fetch("member", group, "m1", epoch)
        self._fetch("admin", group, None, -1)
        self._fetch("empty id", group, "", -1)
        self._fetch("stale", group, "m1", epoch - 1)
        self._fetch("unknown", group, "nobody", epoch)
        second = self.join("second", group, "m2", shape=shape, process_id="p2")
        everything = {"active_tasks": tasks(_0=[0, 1], _1=[0, 1, 2]), "standby_tasks": [], "warmup_tasks": []}
        told = self.beat("revokes", group, epoch=epoch, **everything)
        self._commit("while it revokes", group, "m1", epoch)
        left = [
            {"subtopology_id": each.subtopology_id, "partitions": list(each.partitions)} for each in told.active_tasks
        ]
        told = self.beat("revoked", group, epoch=told.member_epoch, **{**everything, "active_tasks": left})
        for index in (0, 1):
            self._commit(f"an earlier epoch, {index}", group, "m1", epoch, partition=index)
        self._commit("a topic of no subtopology", group, "m1", epoch, topic="late")
        self._commit("its own epoch, any topic", group, "m1", told.member_epoch, topic="late")
        self.beat("second", group, "m2", second.member_epoch)
        self._delete_offset("read by the group", group, "in")
        self._delete_offset("read by nobody", group, "late")
        for member in ("m1", "m2"):
            self.beat("leaves", group, member, -1)
        self._commit("into the empty group", group, "", -1)
        self._commit("a member of the empty group", group, "m1", 3)
        self._fetch("empty", group, None, -1)
        self._delete_offset("of the empty group", group, "in")
        self.do("listed", ApiKey.LIST_GROUPS, 5, states_filter=["Empty"], types_filter=["Streams"])

    def _topic_ids(self) -> dict[str, UUID]:
        answer = ask(self._port, ApiKey.METADATA, 12, topics=[{"name": name} for name in ("in", "other", "late")])
        return {each.name: each.topic_id for each in answer.topics}

    def _commit(
        self, label: str, group: str, member: str, epoch: int, version: int = 9, topic: str = "in", partition: int = 0
    ) -> None:
        about = {"topic_id": self._topic_ids()[topic]} if version >= 10 else {"name": topic}
        one = {
            "partition_index": partition,
            "committed_offset": 5,
            "committed_leader_epoch": 0,
            "committed_metadata": "x",
        }
        answer = ask(
            self._port, ApiKey.OFFSET_COMMIT, version,
            group_id=group, generation_id_or_member_epoch=epoch, member_id=member, group_instance_id=None,
            topics=[{**about, "partitions": [one]}],
        )  # fmt: skip
        codes = [part.error_code.name for each in answer.topics for part in each.partitions]
        self.answers.append((f"commit: {label}, version {version}", codes))

    def _fetch(self, label: str, group: str, member: str | None, epoch: int) -> None:
        asked = {
            "group_id": group, "member_id": member, "member_epoch": epoch,
            "topics": [{"name": "in", "partition_indexes": [0]}],
        }  # fmt: skip
        self.do(label, ApiKey.OFFSET_FETCH, 9, groups=[asked], require_stable=False)

    def _delete_offset(self, label: str, group: str, topic: str) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        self.do(label, ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)

    # -- other kinds of groups ---------------------------------------------------------------------------------------

    def _other_protocols(self) -> None:
        shape = topology(subtopology("0", "in"))
        joined = self.join("a streams group", "kinds", shape=shape)
        self._ask_as_others("kinds")
        self.beat("still there", "kinds", epoch=joined.member_epoch)
        self.beat("leaves", "kinds", epoch=-1)
        self._ask_as_others("kinds")
        self.join("beside a classic group", "kinds", shape=shape)
        consumer = ask(self._port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_beat("consumers"))
        assert consumer.error_code is ErrorCode.none
        self.join("a consumer group", "consumers", shape=shape)
        self.beat("a consumer group", "consumers", "m1", 3)
        self.beat("a consumer group", "consumers", "m1", -1)
        self.describe("a consumer group", "consumers")
        ask(self._port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **{**consumer_beat("consumers"), "member_epoch": -1})
        self.join("an empty consumer group", "consumers", shape=shape)
        self._commit("alone", "simple", "", -1)
        self._describe_as_others("simple")
        self.describe("only offsets", "simple")
        self.beat("only offsets", "simple", "m1", 3)
        self.join("only offsets", "simple", shape=shape)
        self._fetch("kept", "simple", None, -1)
        self.do("described", ApiKey.DESCRIBE_GROUPS, 6, groups=["simple"], include_authorized_operations=False)
        self.do("share", ApiKey.SHARE_GROUP_HEARTBEAT, 1, **share_beat("simple"))

    def _ask_as_others(self, group: str) -> None:
        join = {
            "group_id": group, "session_timeout": LONG_MS, "rebalance_timeout": LONG_MS, "member_id": "",
            "group_instance_id": None, "protocol_type": "consumer", "reason": None,
            "protocols": [{"name": "range", "metadata": b""}],
        }  # fmt: skip
        self.do("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_beat(group))
        self.do("share", ApiKey.SHARE_GROUP_HEARTBEAT, 1, **share_beat(group))
        self.do("sync", ApiKey.SYNC_GROUP, 5, group_id=group, generation_id=1, member_id="m1", group_instance_id=None,
                protocol_type="consumer", protocol_name="range", assignments=[])  # fmt: skip
        self.do("heartbeat", ApiKey.HEARTBEAT, 4, group_id=group, generation_id=1, member_id="m1",
                group_instance_id=None)  # fmt: skip
        leaver = {"member_id": "m1", "group_instance_id": None, "reason": None}
        self.do("leave", ApiKey.LEAVE_GROUP, 5, group_id=group, members=[leaver])
        self._describe_as_others(group)
        self.do("join with an id", ApiKey.JOIN_GROUP, 9, **{**join, "member_id": "m1"})
        answer = ask(self._port, ApiKey.JOIN_GROUP, 9, **join)
        self.answers.append(("join", answer.error_code.name))

    def _describe_as_others(self, group: str) -> None:
        self.do("classic", ApiKey.DESCRIBE_GROUPS, 6, groups=[group], include_authorized_operations=False)
        for key in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE):
            self.do(f"as another kind, {group}", key, 1, group_ids=[group], include_authorized_operations=False)

    def _full_groups(self) -> None:
        shape = topology(subtopology("0", "in"))
        for member in ("m1", "m2", "m3", "m4", "m3"):
            self.join(f"full: {member}", "full", member, shape=shape)

    def _deletion(self) -> None:
        groups = ["two", "late", "offsets", "nope", "uneven"]
        self.do("delete", ApiKey.DELETE_GROUPS, 2, groups_names=groups)
        self.describe("deleted", *groups)
        self.do("listed", ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["streams"])
        self._fetch("offsets are gone too", "offsets", None, -1)
