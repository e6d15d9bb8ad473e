"""The same requests of administration to a real Apache Kafka and to our broker get the same answers.

Features here (UpdateFeatures, ApiVersions, what `group.version` turns off). The tools that send such requests are in
test_node_admin_tools.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from wire_helper import ask

from broker.controller.features import FEATURES
from broker.wire.apis import ApiKey
from harness.clusters.kafka.jars import has_jars, jar_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
Request = tuple[ApiKey, int, dict[str, Any]]
UPGRADE, SAFE, UNSAFE = 1, 2, 3


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(Apache Kafka's, ours)"""
    directory = tmp_path_factory.mktemp("admin")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with kafka_node(directory / "kafka", {}) as theirs, Cluster(directory / "ours", brokers=1) as cluster:
        yield theirs, cluster.ports[1]["DIRECT"]


def compare(ports: tuple[int, int], requests: list[Request]) -> list[Any]:
    """Our answers, once they are found equal to Apache Kafka's."""
    answers = []
    for key, version, values in requests:
        theirs, ours = (_without_ports(ask(port, key, version, **values), ports) for port in ports)
        assert theirs == ours, f"{key.name} {version} {values}\n  kafka {theirs}\n  ours  {ours}"
        answers.append(ask(ports[1], key, version, **values))
    return answers


def _without_ports(answer: object, ports: tuple[int, int]) -> str:
    text = re.sub(r"broker\.wire\.\S+|kio\.\S+", "", repr(answer))
    for port in ports:
        text = text.replace(str(port), "PORT")
    return text


def updates(version: int, *changes: tuple[str, int, int], validate_only: bool = False) -> Request:
    wanted = [{"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level, kind in changes]
    return (
        ApiKey.UPDATE_FEATURES,
        version,
        {
            "timeout": 10_000,
            "validate_only": validate_only,
            "feature_updates": wanted,
        },
    )


def finalized(port: int) -> dict[str, int]:
    answer = ask(port, ApiKey.API_VERSIONS, 4, client_software_name="test", client_software_version="1")
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert all(each.min_version_level == each.max_version_level for each in answer.finalized_features)
    return {name: level for name, level in levels.items() if name in FEATURES}


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_told_alike(ports: tuple[int, int], version: int) -> None:
    found = []
    for port in ports:
        answer = ask(port, ApiKey.API_VERSIONS, version, client_software_name="test", client_software_version="1")
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        found.append({name: levels for name, levels in supported.items() if name in FEATURES})
        assert answer.finalized_features_epoch >= 0
    assert found[0] == found[1]
    assert finalized(ports[0]) == finalized(ports[1])


def test_levels_are_changed_and_refused_alike(ports: tuple[int, int]) -> None:
    name, group, metadata = "transaction.version", "group.version", "metadata.version"
    tried = [
        ((name, 1, UPGRADE),),
        ((name, 1, 0),),
        ((name, 1, 4),),
        ((name, -1, SAFE),),
        ((name, 3, UPGRADE),),
        ((name, 2, SAFE),),
        ((name, 2, UPGRADE),),
        (("nope", 1, UPGRADE),),
        (("nope", 0, UPGRADE),),
        (("", 1, UPGRADE),),
        ((metadata, 6, UPGRADE),),
        ((metadata, 29, UPGRADE),),
        ((metadata, 29, SAFE),),
        ((metadata, 29, UNSAFE),),
        ((metadata, 30, UNSAFE),),
        ((group, 1, UPGRADE), (group, 2, UPGRADE)),
        ((group, 2, UPGRADE), (group, 1, UPGRADE)),
        ((name, 1, SAFE), (group, 2, UPGRADE)),
        (),
    ]
    for version in (1, 2):
        compare(ports, [updates(version, *changes, validate_only=True) for changes in tried])
    compare(ports, [updates(0, (name, 1, UPGRADE)), updates(0, (name, 2, UPGRADE)), updates(0, (name, 9, UPGRADE))])
    assert finalized(ports[0]) == finalized(ports[1]) == {name: 2, group: 1, metadata: 30}
    for level, kind in ((1, SAFE), (0, UNSAFE), (1, UPGRADE), (2, UPGRADE)):
        assert _answers_none(ports, updates(2, (name, level, kind)))
        assert finalized(ports[0]) == finalized(ports[1])
        assert finalized(ports[1]).get(name, 0) == level


def _answers_none(ports: tuple[int, int], request: Request) -> bool:
    key, version, values = request
    return all(not ask(port, key, version, **values).error_code for port in ports)


def test_without_its_feature_the_consumer_protocol_is_refused_alike(ports: tuple[int, int]) -> None:
    joining = {
        "group_id": "g",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    asked: list[Request] = [
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["g", ""], "include_authorized_operations": False}),
    ]
    assert _answers_none(ports, updates(2, ("group.version", 0, SAFE)))
    try:
        refused, described = compare(ports, asked)
        assert refused.error_code.name == "unsupported_version"
        assert {each.error_code.name for each in described.groups} == {"unsupported_version"}
    finally:
        assert _answers_none(ports, updates(2, ("group.version", 1, UPGRADE)))
    answer = ask(ports[1], ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **joining)
    assert answer.error_code.name != "unsupported_version"
