"""The same requests of administration to a real Apache Kafka and to our broker get the same answers.

Features (UpdateFeatures, ApiVersions, what `group.version` turns off), and settings of groups, of subscriptions of
clients' metrics, and of brokers under unknown names. The tools that send such requests are in test_node_admin_tools.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from wire_helper import ask

from broker.controller import eligible
from broker.controller.features import FEATURES
from broker.wire.apis import ApiKey
from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.patience import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
Request = tuple[ApiKey, int, dict[str, Any]]
UPGRADE, SAFE, UNSAFE = 1, 2, 3
STATIC, DEFAULT = 4, 5  # sources of a setting
AS_BY_DEFAULT = {"log.cleaner.backoff.ms": 15_000}  # in the properties file


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(Apache Kafka's, ours)"""
    directory = tmp_path_factory.mktemp("admin")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with (
        kafka_node(directory / "kafka", AS_BY_DEFAULT) as theirs,
        Cluster(directory / "ours", brokers=1, settings=AS_BY_DEFAULT) as cluster,
    ):
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


def _await_levels(ports: tuple[int, int], levels: dict[str, int]) -> None:
    """The controller has answered. A broker tells it once it has read the metadata log. Level 0 is not told."""
    told = {name: level for name, level in levels.items() if level}
    for port in ports:
        wait_until(lambda port=port: finalized(port) == told, f"port {port} tells {told}")  # type: ignore[misc]


def test_levels_are_changed_and_refused_alike(ports: tuple[int, int]) -> None:
    name, group, metadata = "transaction.version", "group.version", "metadata.version"
    share = "share.version"
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
        ((share, 0, UPGRADE),),
        ((share, 0, SAFE),),
        ((share, 2, UPGRADE),),
        (),
    ]
    for version in (1, 2):
        compare(ports, [updates(version, *changes, validate_only=True) for changes in tried])
    compare(ports, [updates(0, (name, 1, UPGRADE)), updates(0, (name, 2, UPGRADE)), updates(0, (name, 9, UPGRADE))])
    first = {name: 2, group: 1, metadata: 30, share: 1, eligible.FEATURE: 1}
    wait_until(lambda: finalized(ports[0]) == finalized(ports[1]) == first, "both tell the levels of a new cluster")
    for level, kind in ((1, SAFE), (0, UNSAFE), (1, UPGRADE), (2, UPGRADE)):
        assert _answers_none(ports, updates(2, (name, level, kind)))
        _await_levels(ports, {**first, name: level})
    for level, kind in ((0, SAFE), (1, UPGRADE)):
        assert _answers_none(ports, updates(2, (share, level, kind)))
        _await_levels(ports, {**first, share: level})


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
        wait_until(lambda: all("group.version" not in finalized(port) for port in ports), "both brokers know")
        refused, described = compare(ports, asked)
        assert refused.error_code.name == "unsupported_version"
        assert {each.error_code.name for each in described.groups} == {"unsupported_version"}
    finally:
        assert _answers_none(ports, updates(2, ("group.version", 1, UPGRADE)))
    answer = ask(ports[1], ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **joining)
    assert answer.error_code.name != "unsupported_version"


def altered(kind: int, name: str, *operations: tuple[str, int, str | None], validate_only: bool = True) -> Request:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in operations]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"validate_only": validate_only, "resources": [resource]}


def described(port: int, kind: int, name: str, *, with_synonyms: bool = True) -> list[Any]:
    """The settings that were set at run time, or all of a group but those of streams groups (KIP-1071); sorted."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    answer = ask(port, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=with_synonyms)
    (result,) = answer.results
    assert result.error_code.name == "none", result
    told = [each for each in result.configs if kind != BROKER or each.config_source in DYNAMIC]
    return sorted(repr(each) for each in told if not each.name.startswith(("min.insync.replicas", "streams.")))


def is_told_alike(ports: tuple[int, int], kind: int, name: str) -> bool:
    """Apache Kafka's broker hears of a change after the controller has answered; ours has heard of it then."""
    theirs, ours = (described(port, kind, name) for port in ports)
    return theirs == ours


def set_alike(ports: tuple[int, int], request: Request) -> None:
    compare(ports, [request])


TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
DYNAMIC = (2, 3)
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
WRONG_IN_A_GROUP = [
    (SESSION, "44999"),
    (SESSION, "60001"),
    (SESSION, "0"),
    (SESSION, "x"),
    (SESSION, "2147483648"),
    (INTERVAL, "1"),
    (INTERVAL, "60000"),
    ("nonsense", "1"),
    ("consumer.assignment.interval.ms", "-5"),
    ("consumer.assignment.interval.ms", "99999999"),
    ("share.auto.offset.reset", "Earliest"),
    ("share.isolation.level", "x"),
    ("share.renew.acknowledge.enable", "yes"),
    ("share.record.lock.duration.ms", "1"),
    ("share.delivery.count.limit", "100"),
]
RIGHT_IN_A_GROUP = [
    ("share.auto.offset.reset", "by_duration:PT1H"),
    ("share.renew.acknowledge.enable", "TRUE"),
    ("consumer.assignment.interval.ms", "0"),
]
WRONG_IN_A_BROKER = [
    ("log.cleaner.backoff.ms", "x"),
    ("log.cleaner.backoff.ms", "-1"),
    ("max.connections", "-1"),
    ("log.cleanup.policy", "nope"),
    ("compression.type", "x"),
    ("log.retention.ms", "x"),
    ("unclean.leader.election.enable", "maybe"),
    ("log.cleaner.min.cleanable.ratio", "2"),
    ("message.max.bytes", "-1"),
    ("log.message.timestamp.type", "x"),
    ("node.id", "7"),
    ("num.partitions", "7"),
    ("min.insync.replicas", "0"),
]
CERTIFICATE = "listener.name.direct.ssl.keystore.location"
WRONG_IN_A_TOPIC = [
    ("retention.ms", "x"),
    ("retention.ms", "-2"),
    ("retention.ms", "99999999999999999999"),
    ("cleanup.policy", "nope"),
    ("compression.type", "x"),
    ("min.insync.replicas", "0"),
    ("min.cleanable.dirty.ratio", "2"),
    ("min.cleanable.dirty.ratio", "x"),
    ("message.timestamp.type", "x"),
    ("nope", "x"),
    ("compression.gzip.level", "0"),
    ("flush.messages", "0"),
]


def test_values_are_refused_for_the_same_reasons(ports: tuple[int, int]) -> None:
    for kind, name, values in (
        (GROUP, "g", [*WRONG_IN_A_GROUP, *RIGHT_IN_A_GROUP]),
        (BROKER, "1", WRONG_IN_A_BROKER),
        (BROKER, "", [(CERTIFICATE, "x")]),
        (TOPIC, "t", WRONG_IN_A_TOPIC),
    ):
        compare(ports, [altered(kind, name, (key, SET, value)) for key, value in values])
    compare(ports, [altered(GROUP, "", (SESSION, SET, "50000")), altered(GROUP, "g", (SESSION, APPEND, "1"))])
    compare(ports, [altered(BROKER, "1", ("nonsense", APPEND, "1")), altered(BROKER, "1", ("nonsense", DELETE, None))])


def test_lists_of_brokers_are_changed_alike(ports: tuple[int, int]) -> None:
    tried = [("log.cleanup.policy", APPEND, "compact"), ("log.cleanup.policy", APPEND, "nope")]
    tried += [("log.cleaner.backoff.ms", APPEND, "1"), ("max.connections", SUBTRACT, "1")]
    for name in ("1", ""):
        compare(ports, [altered(BROKER, name, each) for each in tried])


def test_settings_of_groups_are_kept_told_and_listed_alike(ports: tuple[int, int]) -> None:
    listed = (ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [GROUP]})
    set_alike(ports, altered(GROUP, "own", (SESSION, SET, "50000"), (INTERVAL, SET, "6000"), validate_only=False))
    for name in ("own", "other"):
        wait_until(lambda name=name: is_told_alike(ports, GROUP, name), f"both tell the same of {name}")  # type: ignore[misc]

    def found(port: int) -> set[tuple[int, str]]:
        told = ask(port, *listed[:2], **listed[2]).config_resources
        return {(each.resource_type, each.resource_name) for each in told}

    for port in ports:
        wait_until(lambda port=port: found(port) == {(GROUP, "own")}, "it is listed")
    gone = ((key, DELETE, None) for key in (SESSION, INTERVAL, "nonsense"))
    set_alike(ports, altered(GROUP, "own", *gone, validate_only=False))
    for port in ports:
        wait_until(lambda port=port: not ask(port, *listed[:2], **listed[2]).config_resources, "nothing is listed")


def test_a_heartbeat_is_answered_with_the_interval_of_its_group(ports: tuple[int, int]) -> None:
    for port in ports:
        joining = {
            "group_id": "slow",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "member_epoch": 0,
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        }
        wait_until(
            lambda port=port: (
                not ask(port, ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=["slow"])
                .coordinators[0]
                .error_code
            ),
            "there is a coordinator",
        )

        def beat(port: int = port, values: dict[str, Any] = joining) -> Any:
            answer = ask(port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **values)
            return None if answer.error_code else answer

        assert wait_until(beat, "the group is served").heartbeat_interval.total_seconds() == 5
        key, version, values = altered(GROUP, "slow", (INTERVAL, SET, "6000"), validate_only=False)
        assert not ask(port, key, version, **values).responses[0].error_code
        wait_until(lambda: beat().heartbeat_interval.total_seconds() == 6, "the new interval is told")


def test_an_unknown_setting_of_a_broker_is_kept_unused_alike(ports: tuple[int, int]) -> None:
    for name, key in (("1", "nonsense.key"), ("", "nonsense.for.all")):
        set_alike(ports, altered(BROKER, name, (key, SET, "1"), validate_only=False))
    for name, count in (("1", 2), ("", 1)):
        theirs, ours = (
            wait_until(
                lambda port=port, name=name, count=count: (
                    found if len(found := described(port, BROKER, name)) == count else None
                ),
                "the broker's image has them",
            )
            for port in ports
        )
        assert theirs == ours
    for name, key in (("1", "nonsense.key"), ("", "nonsense.for.all")):
        set_alike(ports, altered(BROKER, name, (key, DELETE, None), validate_only=False))


def test_a_default_that_stands_in_the_file_comes_from_the_file(ports: tuple[int, int]) -> None:
    resource = {
        "resource_type": BROKER,
        "resource_name": "1",
        "configuration_keys": [*AS_BY_DEFAULT, "max.connections"],
    }
    for port in ports:
        (result,) = ask(port, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True).results
        sources = {
            each.name: (each.config_source, [other.source for other in each.synonyms]) for each in result.configs
        }
        assert sources == {
            "log.cleaner.backoff.ms": (STATIC, [STATIC, DEFAULT]),
            "max.connections": (DEFAULT, [DEFAULT]),
        }
