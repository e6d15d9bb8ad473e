"""kafka-share-groups prints the same for both brokers: of groups with and without members, and of what is wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from same_words import printed_by_both
from share_helper import LONG_MS, send
from share_helper import prepare as prepare_group
from test_node_admin_tools import Pair
from wire_helper import TIMEOUT_S, ask_over

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
ALONE = {"share.coordinator.state.topic.replication.factor": 1, "share.coordinator.state.topic.min.isr": 1}
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": 4,
    "offsets.topic.num.partitions": 4,
    "group.share.session.timeout.ms": LONG_MS,  # a member sends a heartbeat before each command only
    "group.share.max.session.timeout.ms": LONG_MS,
}
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUP, TOPIC, MEMBER = "g", "t", "AAAAAAAAAAAAAAAAAAAAAQ"
RESET = ("--reset-offsets", "--group", GROUP)
# Of a group that does not exist, or whatever else is asked wrongly.
NOTHING: tuple[tuple[str, ...], ...] = (
    ("--list",),
    ("--list", "--state"),
    ("--list", "--state", "Stable,Empty"),
    ("--list", "--state", "Nonsense"),
    ("--describe", "--group", "nope"),
    ("--describe", "--group", "nope", "--members"),
    ("--describe", "--group", "nope", "--state"),
    ("--describe", "--group", "nope", "--offsets"),
    ("--describe", "--all-groups"),
    ("--delete", "--group", "nope"),
    ("--delete-offsets", "--group", "nope", "--topic", TOPIC),
    ("--reset-offsets", "--group", "nope", "--topic", TOPIC, "--to-earliest", "--dry-run"),
    ("--reset-offsets", "--group", "nope", "--all-topics", "--to-earliest", "--execute"),
    ("--reset-offsets", "--group", "nope", "--topic", TOPIC),
)
DESCRIBED: tuple[tuple[str, ...], ...] = (
    ("--list",),
    ("--list", "--state"),
    ("--list", "--state", "Stable"),
    ("--list", "--state", "Empty"),
    ("--describe", "--group", GROUP),
    ("--describe", "--group", GROUP, "--verbose"),
    ("--describe", "--group", GROUP, "--members"),
    ("--describe", "--group", GROUP, "--members", "--verbose"),
    ("--describe", "--group", GROUP, "--state"),
    ("--describe", "--group", GROUP, "--offsets"),
    ("--describe", "--group", GROUP, "--offsets", "--verbose"),
    ("--describe", "--all-groups", "--state"),
)
REFUSED_TO_MEMBERS: tuple[tuple[str, ...], ...] = (
    ("--delete", "--group", GROUP),
    ("--delete-offsets", "--group", GROUP, "--topic", TOPIC),
    (*RESET, "--topic", TOPIC, "--to-earliest", "--execute"),
)
CHANGES: tuple[tuple[str, ...], ...] = (
    (*RESET, "--topic", TOPIC, "--to-latest", "--dry-run"),
    (*RESET, "--topic", TOPIC, "--to-latest"),
    (*RESET, "--topic", TOPIC, "--to-latest", "--execute"),
    ("--describe", "--group", GROUP, "--offsets", "--verbose"),
    (*RESET, "--topic", f"{TOPIC}:1", "--to-earliest", "--execute"),
    ("--describe", "--group", GROUP),
    (*RESET, "--all-topics", "--to-datetime", "2099-01-01T00:00:00.000", "--execute"),
    (*RESET, "--all-topics", "--to-datetime", "2001-01-01T00:00:00.000", "--execute"),
    ("--describe", "--group", GROUP, "--offsets"),
    (*RESET, "--topic", "nope", "--to-earliest", "--execute"),
    (*RESET, "--topic", f"{TOPIC}:7", "--to-earliest", "--execute"),
    (*RESET, "--topic", TOPIC, "--to-datetime", "yesterday", "--execute"),
    ("--delete-offsets", "--group", GROUP, "--topic", "nope"),
    ("--delete-offsets", "--group", GROUP, "--topic", TOPIC),
    ("--describe", "--group", GROUP, "--offsets"),
    ("--delete-offsets", "--group", GROUP, "--topic", TOPIC),
    ("--delete", "--group", GROUP, "--group", "nope"),
    ("--list",),
)


class Member:
    """Of the group, at one broker. It reads nothing."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._epoch = 0
        self._partitions = 0

    def join(self) -> None:
        wait_until(lambda: self.beat() is ErrorCode.none and self._partitions == 2, "the member has its partitions")

    def beat(self) -> ErrorCode:
        names = None if self._epoch else [TOPIC]
        values: dict[str, Any] = {"group_id": GROUP, "member_id": MEMBER, "rack_id": None}
        answer = ask_over(
            self._connection,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            **values,
            member_epoch=self._epoch,
            subscribed_topic_names=names,
        )
        if answer.error_code is ErrorCode.none:
            self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._partitions = sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)
        code: ErrorCode = answer.error_code
        return code

    def leave(self) -> None:
        self._epoch = -1
        assert self.beat() is ErrorCode.none

    def close(self) -> None:
        self._connection.close()


def _has_coordinator(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        answer = ask_over(connection, ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[GROUP])
    return answer.coordinators[0].error_code is ErrorCode.none


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory: Path = tmp_path_factory.mktemp("tools")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with (
        kafka_node(directory / "kafka", {**SETTINGS, **ALONE}) as theirs,
        Cluster(directory / "ours", brokers=1, settings=SETTINGS) as cluster,
    ):
        ours = cluster.ports[1]["DIRECT"]
        for port in (theirs, ours):
            prepare_group(f"127.0.0.1:{port}", TOPIC, GROUP, partitions=2)
            send(f"127.0.0.1:{port}", TOPIC, range(20), partitions=2)
            wait_until(lambda port=port: _has_coordinator(port), "a group coordinator")
        driver = Driver(prepare(), f"127.0.0.1:{ours}", directory / "tools.log", {})
        try:
            yield Pair(driver, (theirs, ours), directory)
        finally:
            driver.close()


def _differences(pair: Pair, commands: tuple[tuple[str, ...], ...], members: tuple[Member, ...] = ()) -> str:
    found = []
    for command in commands:
        for member in members:
            assert member.beat() is ErrorCode.none
        whole = (TOOL, *command)
        theirs, ours = printed_by_both(command, pair.ports, lambda port, whole=whole: pair.printed(port, whole))  # type: ignore[misc]
        if theirs != ours:
            found.append(f"{command}\n  kafka {theirs}\n  ours  {ours}")
    return "\n".join(found)


def test_the_tool_prints_the_same_for_both(pair: Pair) -> None:
    assert not _differences(pair, NOTHING)
    members = tuple(Member(port) for port in pair.ports)
    try:
        for member in members:
            member.join()
        assert not _differences(pair, (*DESCRIBED, *REFUSED_TO_MEMBERS), members)
        for member in members:
            member.leave()
    finally:
        for member in members:
            member.close()
    assert not _differences(pair, DESCRIBED)
    assert not _differences(pair, CHANGES)
