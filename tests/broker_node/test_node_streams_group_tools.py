"""Kafka's tools print the same for both brokers: kafka-streams-groups of groups with and without members, kafka-configs
of a streams group, kafka-features with the level of streams.version, and which APIs are offered while it is off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from same_words import printed_by_both
from streams_script import BEAT, SETTINGS, heartbeat, joining, stateful
from test_node_admin_tools import Pair
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.compatibility.driver import Driver
from tests.compatibility.tools.run import prepare
from tests.patience import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
FEATURES, VERSIONS = "org.apache.kafka.tools.FeatureCommand", "org.apache.kafka.tools.BrokerApiVersionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUP, TOPIC, PREFIX = "app", "in", "app-counts"
OF_GROUP = ("--group", GROUP)
RESET = ("--reset-offsets", *OF_GROUP)
NOTHING: tuple[tuple[str, ...], ...] = (
    ("--list",),
    ("--list", "--state"),
    ("--list", "--state", "NotReady,Empty"),
    ("--list", "--state", "Nonsense"),
    ("--describe", "--group", "nope"),
    ("--describe", "--group", "nope", "--members"),
    ("--describe", "--group", "nope", "--state"),
    ("--describe", "--all-groups"),
    ("--delete", "--group", "nope"),
    ("--delete-offsets", "--group", "nope", "--input-topic", TOPIC),
    ("--reset-offsets", "--group", "nope", "--all-input-topics", "--to-earliest", "--dry-run"),
)
DESCRIBED: tuple[tuple[str, ...], ...] = (
    ("--list",),
    ("--list", "--state"),
    ("--list", "--state", "Stable"),
    ("--list", "--state", "Empty"),
    ("--describe", *OF_GROUP),
    ("--describe", *OF_GROUP, "--verbose"),
    ("--describe", *OF_GROUP, "--members"),
    ("--describe", *OF_GROUP, "--members", "--verbose"),
    ("--describe", *OF_GROUP, "--state"),
    ("--describe", *OF_GROUP, "--state", "--verbose"),
    ("--describe", *OF_GROUP, "--offsets"),
    ("--describe", *OF_GROUP, "--offsets", "--verbose"),
    ("--describe", "--all-groups", "--state"),
)
REFUSED_TO_MEMBERS: tuple[tuple[str, ...], ...] = (
    ("--delete", *OF_GROUP),
    ("--delete-offsets", *OF_GROUP, "--input-topic", TOPIC),
    (*RESET, "--all-input-topics", "--to-earliest", "--execute"),
)
CHANGES: tuple[tuple[str, ...], ...] = (
    (*RESET, "--all-input-topics", "--to-earliest", "--dry-run"),
    (*RESET, "--input-topic", TOPIC, "--to-latest", "--execute"),
    (*RESET, "--input-topic", f"{TOPIC}:1", "--to-earliest", "--execute"),
    (*RESET, "--input-topic", TOPIC, "--shift-by", "1", "--dry-run"),
    ("--describe", *OF_GROUP, "--offsets"),
    ("--delete-offsets", *OF_GROUP, "--input-topic", "nope"),
    ("--delete-offsets", *OF_GROUP, "--input-topic", TOPIC),
    ("--describe", *OF_GROUP, "--offsets"),
    ("--delete", *OF_GROUP, "--group", "nope"),
    ("--list",),
)
OWN_SETTINGS: tuple[tuple[str, ...], ...] = (
    ("--alter", "--entity-type", "groups", "--entity-name", GROUP, "--add-config", "streams.num.standby.replicas=1"),
    ("--alter", "--entity-type", "groups", "--entity-name", GROUP, "--add-config", "streams.num.standby.replicas=9"),
    ("--alter", "--entity-type", "groups", "--entity-name", GROUP, "--add-config", "streams.session.timeout.ms=1"),
    ("--describe", "--entity-type", "groups", "--entity-name", GROUP),
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory: Path = tmp_path_factory.mktemp("tools")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with (
        kafka_node(directory / "kafka", SETTINGS) as theirs,
        Cluster(directory / "ours", brokers=1, settings=SETTINGS) as cluster,
    ):
        ours = cluster.ports[1]["DIRECT"]
        for port in (theirs, ours):
            _prepare(port)
        driver = Driver(prepare(), f"127.0.0.1:{ours}", directory / "tools.log", {})
        try:
            yield Pair(driver, (theirs, ours), directory)
        finally:
            driver.close()


def _prepare(port: int) -> None:
    topic: dict[str, Any] = {
        "name": TOPIC, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": [],
    }  # fmt: skip
    made = ask(port, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=50_000, validate_only=False)
    assert made.topics[0].error_code is ErrorCode.none

    def has_coordinator() -> bool:
        answer = ask(port, ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[GROUP])
        if answer.coordinators[0].error_code is not ErrorCode.none:
            return False
        unknown = ask(port, BEAT, 0, **heartbeat(GROUP, "m1", 5))
        return bool(unknown.error_code is ErrorCode.group_id_not_found)

    wait_until(has_coordinator, "a group coordinator")


class Member:
    """Of the group, at one broker. It processes nothing."""

    def __init__(self, port: int) -> None:
        self._port, self._epoch, self._tasks = port, 0, 0

    def join(self) -> None:
        wait_until(lambda: self.beat() is ErrorCode.none and self._tasks == 4, "the member has its tasks")
        for number in range(2):
            self.commit(number, 3 + number)

    def beat(self) -> ErrorCode:
        values = heartbeat(GROUP, "m1", self._epoch)
        if not self._epoch:
            shape = stateful(PREFIX, TOPIC)
            values |= joining(
                shape, client_tags=[{"key": "zone", "value": "a"}], user_endpoint={"host": "h", "port": 9}
            )
        answer = ask(self._port, BEAT, 0, **values)
        if answer.error_code is ErrorCode.none:
            self._epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self._tasks = sum(len(each.partitions) for each in answer.active_tasks)
        code: ErrorCode = answer.error_code
        return code

    def commit(self, index: int, offset: int) -> None:
        one = {
            "partition_index": index, "committed_offset": offset, "committed_leader_epoch": 0,
            "committed_metadata": "",
        }  # fmt: skip
        answer = ask(
            self._port, ApiKey.OFFSET_COMMIT, 9, group_id=GROUP, generation_id_or_member_epoch=self._epoch,
            member_id="m1", group_instance_id=None, topics=[{"name": TOPIC, "partitions": [one]}],
        )  # fmt: skip
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none

    def leave(self) -> None:
        self._epoch = -1
        assert self.beat() is ErrorCode.none


def _differences(pair: Pair, tool: str, commands: tuple[tuple[str, ...], ...], members: tuple[Member, ...] = ()) -> str:
    found = []
    for command in commands:
        for member in members:
            assert member.beat() is ErrorCode.none
        whole = (tool, *command)
        theirs, ours = printed_by_both(command, pair.ports, lambda port, whole=whole: _printed(pair, port, whole))  # type: ignore[misc]
        if theirs != ours:
            found.append(f"{command}\n  kafka {theirs}\n  ours  {ours}")
    return "\n".join(found)


def _printed(pair: Pair, port: int, command: tuple[str, ...]) -> list[str]:
    return [re.sub(r"\(id: \d+ rack: \S+ isFenced: \S+\)", "(NODE)", line) for line in pair.printed(port, command)]


def test_kafka_streams_groups_prints_the_same_for_both(pair: Pair) -> None:
    assert not _differences(pair, TOOL, NOTHING)
    members = tuple(Member(port) for port in pair.ports)
    for member in members:
        member.join()
    assert not _differences(pair, TOOL, (*DESCRIBED, *REFUSED_TO_MEMBERS), members)
    assert not _differences(pair, CONFIGS, OWN_SETTINGS)
    for member in members:
        member.leave()
    assert not _differences(pair, TOOL, DESCRIBED)
    assert not _differences(pair, TOOL, CHANGES)


def test_the_feature_is_told_and_turned_off_and_on(pair: Pair) -> None:
    def features() -> list[list[str]]:
        told = [pair.printed(port, (FEATURES, "describe")) for port in pair.ports]
        return [[line for line in lines if "streams.version" in line] for lines in told]

    def offered() -> list[list[str]]:
        told = [pair.printed(port, (VERSIONS,)) for port in pair.ports]
        return [[line.strip(",") for line in lines if "StreamsGroup" in line] for lines in told]

    def are_refused() -> list[str]:
        shape = stateful(PREFIX, TOPIC)
        answers = [ask(port, BEAT, 0, **heartbeat("off", "m1", 0, **joining(shape))) for port in pair.ports]
        described = [
            ask(port, ApiKey.STREAMS_GROUP_DESCRIBE, 0, group_ids=["off"], include_authorized_operations=False)
            for port in pair.ports
        ]
        return [
            *(answer.error_code.name for answer in answers),
            *(answer.groups[0].error_code.name for answer in described),
        ]

    before = features(), offered()
    assert all(theirs == ours for theirs, ours in before), before
    assert not _differences(pair, FEATURES, (("downgrade", "--feature", "streams.version=0"),))
    wait_until(lambda: are_refused() == ["unsupported_version"] * 4, f"the feature is off: {are_refused()}")
    told = features(), offered()
    assert all(theirs == ours for theirs, ours in told), told
    assert not _differences(pair, FEATURES, (("upgrade", "--feature", "streams.version=1"),))
    wait_until(lambda: are_refused()[:2] == ["none", "none"], "the feature is on")
    assert (features(), offered()) == before
