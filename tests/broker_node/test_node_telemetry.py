"""Clients' metrics (KIP-714): the rules with a clock of the test's own, the file, and real clients."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cluster_helper import Cluster
from confluent_helper import QUIET
from confluent_kafka import Producer
from wire_helper import ask

from broker.node.telemetry import instances as rules
from broker.node.telemetry.instances import COMPRESSIONS, Instances, subscriptions_of
from broker.node.telemetry.receiver import UNPACKED_BYTES_MAX, Receiver, older
from broker.wire.apis import ApiKey
from broker.wire.compression import CodecId, compress
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.compatibility.driver import Driver
from tests.compatibility.tools.run import prepare
from tests.patience import wait_until

ID = UUID(int=77)
CLIENT = {"client_id": "app-1", "client_software_name": "test", "client_software_version": "1.2"}
ALL = {"all": {"interval.ms": "1000", "metrics": "*"}}


def always() -> bool:
    return True


class World:
    def __init__(self, configs: dict[str, dict[str, str]] | None = None) -> None:
        self.instances, self.now_ms = Instances(), 1_000_000
        self.instances.set_subscriptions(ALL if configs is None else configs)
        self.subscription_id = 0
        self.is_connected: Callable[[], bool] = always

    def ask(self, instance_id: UUID = ID) -> ErrorCode:
        error, instance = self.instances.asked(instance_id, CLIENT, self.now_ms, self.is_connected)
        self.subscription_id = instance.subscription_id
        return error

    def push(
        self,
        *,
        subscription_id: int | None = None,
        terminating: bool = False,
        compression: int = 0,
        is_too_large: bool = False,
    ) -> ErrorCode:
        error = self.instances.pushed(
            ID,
            CLIENT,
            self.now_ms,
            self.is_connected,
            subscription_id=self.subscription_id if subscription_id is None else subscription_id,
            is_terminating=terminating,
            compression=compression,
            is_too_large=is_too_large,
        )
        if error is ErrorCode.none:
            self.instances.taken(ID)
        return error


def test_a_client_asks_and_pushes_once_in_an_interval() -> None:
    world = World()
    assert world.ask() is ErrorCode.none
    assert world.ask() is ErrorCode.throttling_quota_exceeded
    world.now_ms += 500
    assert world.push() is ErrorCode.none, "the first after a question may come early"
    world.now_ms += 999
    assert world.push() is ErrorCode.throttling_quota_exceeded
    world.now_ms += 1
    assert world.push() is ErrorCode.none


def test_the_last_push_may_come_early_and_is_the_last() -> None:
    world = World()
    world.ask()
    world.now_ms += 500
    world.push()
    assert world.push(terminating=True) is ErrorCode.none
    world.now_ms += 10_000
    assert world.push(terminating=True) is ErrorCode.invalid_request
    assert world.push() is ErrorCode.invalid_request


def test_a_last_push_that_is_refused_is_the_last_all_the_same() -> None:
    """As in Apache Kafka, which also takes a later push that is not a last one for the end of that."""
    world = World()
    world.ask()
    before = world.subscription_id
    assert world.push(subscription_id=before + 1, terminating=True) is ErrorCode.unknown_subscription_id
    world.now_ms += 10_000
    assert world.push() is ErrorCode.invalid_request
    assert world.push() is ErrorCode.none


def test_a_push_for_an_older_subscription_is_refused_and_the_client_may_ask_at_once() -> None:
    world = World()
    world.ask()
    before = world.subscription_id
    world.now_ms += 1_000
    world.instances.set_subscriptions({"all": {"interval.ms": "1000", "metrics": "other"}})
    assert world.push(subscription_id=before) is ErrorCode.unknown_subscription_id
    assert world.ask() is ErrorCode.none
    assert world.subscription_id != before
    assert world.push() is ErrorCode.throttling_quota_exceeded, "the refused push counts, as with Kafka"
    world.now_ms += 1_000
    assert world.push() is ErrorCode.none


def test_sizes_and_compressions_are_bounded() -> None:
    world = World()
    world.ask()
    assert world.push(compression=5) is ErrorCode.unsupported_compression_type
    assert world.ask() is ErrorCode.none, "it may ask at once for those that are taken"
    world.now_ms += 1_000
    assert world.push(is_too_large=True) is ErrorCode.telemetry_too_large
    for codec in COMPRESSIONS:
        world.now_ms += 1_000
        assert world.push(compression=codec) is ErrorCode.none


@pytest.mark.parametrize(
    ("match", "is_for"),
    [
        ("", True),
        ("client_id=app-.*", True),
        ("client_id=app", False),
        ("client_id=app-1,client_software_name=test", True),
        ("client_id=app-1,client_software_version=2.*", False),
        ("client_id=nobody,client_id=app-1", True),
    ],
)
def test_all_patterns_of_a_subscription_match_whole(match: str, is_for: bool) -> None:
    (subscription,) = subscriptions_of({"s": {"match": match}})
    assert subscription.is_for(CLIENT) == is_for


def test_subscriptions_are_joined_and_the_shortest_interval_counts() -> None:
    world = World(
        {
            "a": {"interval.ms": "5000", "metrics": "b,a"},
            "b": {"interval.ms": "2000", "metrics": "a,c", "match": "client_id=app.*"},
            "c": {"interval.ms": "100", "metrics": "*", "match": "client_id=other"},
        }
    )
    _, instance = world.instances.asked(ID, CLIENT, 0, always)
    assert (instance.metrics, instance.interval_ms) == (("a", "b", "c"), 2_000)
    _, patient = World({"a": {"interval.ms": "3600000", "metrics": "*"}}).instances.asked(ID, CLIENT, 0, always)
    assert patient.interval_ms == 300_000, "the default counts as well, as in Apache Kafka"
    _, nobody = World({}).instances.asked(ID, CLIENT, 0, always)
    assert (nobody.metrics, nobody.interval_ms) == ((), 300_000)


def test_the_clients_that_came_last_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "INSTANCES_MAX", 3)
    world = World()
    for number in range(1, 10):
        assert world.ask(UUID(int=number)) is ErrorCode.none
    assert len(world.instances) == 3
    assert world.ask(UUID(int=1)) is ErrorCode.none, "it was forgotten"
    assert world.ask(UUID(int=9)) is ErrorCode.throttling_quota_exceeded


def test_a_client_is_forgotten_with_the_connection_that_it_came_with() -> None:
    world, open_connections = World(), {1, 2, 3}
    for connection in (1, 2, 3):
        world.is_connected = partial(open_connections.__contains__, connection)
        world.ask()
        if connection == 1:
            assert world.push(terminating=True) is ErrorCode.none
        if connection == 2:
            assert world.push() is ErrorCode.invalid_request
            open_connections.remove(1)
            assert world.push(subscription_id=0) is ErrorCode.unknown_subscription_id, "it is a new client"
    for number in (5, 6, 7):
        world.ask(UUID(int=number))
    assert len(world.instances) == 4
    open_connections.clear()
    for _ in range(5):
        world.is_connected = always
        world.ask()
    assert len(world.instances) == 1


@pytest.mark.parametrize(("interval_ms", "silent_ms"), [(1_000, 60_000), (100_000, 300_000)])
def test_a_client_is_forgotten_when_it_is_silent_for_three_intervals_and_no_less_than_a_minute(
    interval_ms: int, silent_ms: int
) -> None:
    world = World({"all": {"interval.ms": str(interval_ms), "metrics": "*"}})
    for after_ms, expected in ((silent_ms, ErrorCode.invalid_request), (silent_ms + 1, ErrorCode.none)):
        assert world.ask() is ErrorCode.none
        assert world.push(terminating=True) is ErrorCode.none
        world.now_ms += after_ms
        assert world.push() is expected, after_ms
        world.now_ms += silent_ms + 1
    for number in range(5, 8):
        world.ask(UUID(int=number))
    world.now_ms += silent_ms + 1
    for _ in range(5):
        world.ask()
    assert len(world.instances) == 1


# -- the file


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_file_is_rotated_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "metrics" / "telemetry.jsonl"
    receiver = Receiver(path, size_bytes_max=1_000, push_bytes_max=1 << 20)
    for number in range(50):
        assert receiver.take(CodecId.NONE, b"x" * 90, number=number) is ErrorCode.none
        assert path.stat().st_size <= 1_000
    assert sorted(os.listdir(path.parent)) == ["telemetry.jsonl", "telemetry.jsonl.1"]
    told = [each["number"] for each in [*lines(older(path)), *lines(path)]]
    assert told == list(range(told[0], 50)), "nothing is lost between the two"


def test_a_rotation_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "telemetry.jsonl"
    receiver = Receiver(path, size_bytes_max=10, push_bytes_max=1 << 20)
    receiver._write(path, b"0123456789\n")

    def refused(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EPERM, "not this one")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(PermissionError, match="not this one"):
        receiver._write(path, b"0123456789\n")


@pytest.mark.parametrize("codec", [CodecId.NONE, *COMPRESSIONS])
def test_metrics_are_unpacked_and_bombs_are_not(tmp_path: Path, codec: CodecId) -> None:
    path = tmp_path / "telemetry.jsonl"
    receiver = Receiver(path, size_bytes_max=1 << 20, push_bytes_max=1_000)
    assert receiver.take(codec, compress(codec, b"metrics" * 100)) is ErrorCode.none
    for size in (1_001, UNPACKED_BYTES_MAX + 1):
        assert receiver.take(codec, compress(codec, bytes(size))) is ErrorCode.invalid_record
    if codec is not CodecId.NONE:
        assert receiver.take(codec, b"no data of this codec") is ErrorCode.invalid_record
    (line,) = lines(path)
    assert base64.b64decode(line["metrics"]) == b"metrics" * 100


# -- real clients


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    directory = tmp_path_factory.mktemp("telemetry")
    path = directory / "telemetry.jsonl"
    settings = {"harness.telemetry.path": path, "telemetry.max.bytes": 500_000}
    with Cluster(directory, brokers=1, settings=settings) as cluster:
        subscribe(cluster, "all", {"interval.ms": "200", "metrics": "*"})
        wait_until(lambda: requested(cluster) == ("*",), "the broker knows the subscription")
        yield cluster, path


def subscribe(cluster: Cluster, name: str, values: dict[str, str]) -> None:
    configs = [{"name": key, "config_operation": 0, "value": value} for key, value in values.items()]
    resource = {"resource_type": 16, "resource_name": name, "configs": configs}
    port = cluster.ports[1]["DIRECT"]
    answer = ask(port, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, validate_only=False, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none, answer


def requested(cluster: Cluster) -> tuple[str, ...]:
    answer = ask(cluster.ports[1]["DIRECT"], ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
    return tuple(answer.requested_metrics)


def offered(port: int) -> set[int]:
    answer = ask(port, ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1")
    return {each.api_key for each in answer.api_keys}


@pytest.mark.slow
def test_requests_get_the_answers_of_the_rules(cluster: tuple[Cluster, Path]) -> None:
    port = cluster[0].ports[1]["DIRECT"]
    assert {71, 72} <= offered(port)
    told = ask(port, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
    assert told.error_code is ErrorCode.none
    assert told.client_instance_id is not None
    assert told.requested_metrics == ("*",)
    assert told.accepted_compression_types == tuple(int(each) for each in COMPRESSIONS)
    assert (told.push_interval.total_seconds(), told.telemetry_max_bytes) == (0.2, 500_000)

    def push(metrics: bytes, **fields: object) -> ErrorCode:
        values = {
            "client_instance_id": told.client_instance_id,
            "subscription_id": told.subscription_id,
            "terminating": True,
            "compression_type": 0,
            **fields,
        }
        code: ErrorCode = ask(port, ApiKey.PUSH_TELEMETRY, 0, metrics=metrics, **values).error_code
        return code

    assert push(b"x", client_instance_id=None) is ErrorCode.invalid_request
    assert push(b"x", client_instance_id=UUID(int=1)) is ErrorCode.invalid_request

    def push_of_another(metrics: bytes, **fields: object) -> ErrorCode:
        """By a client that has its subscription. Each is terminating, so it would be that client's last."""
        known = ask(port, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
        return push(
            metrics,
            **{"client_instance_id": known.client_instance_id, "subscription_id": known.subscription_id, **fields},
        )

    assert push_of_another(b"x", subscription_id=told.subscription_id + 1) is ErrorCode.unknown_subscription_id
    assert push_of_another(b"x" * 500_001) is ErrorCode.telemetry_too_large
    assert push_of_another(b"no zstd", compression_type=4) is ErrorCode.invalid_record
    assert push(b"mine") is ErrorCode.none
    mine = [each for each in lines(cluster[1]) if base64.b64decode(each["metrics"]) == b"mine"]
    assert [(each["client_id"], each["is_terminating"]) for each in mine] == [("test", True)]


@pytest.mark.slow
def test_librdkafka_pushes_by_itself(cluster: tuple[Cluster, Path]) -> None:
    bootstrap = cluster[0].bootstrap()
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "rd", "enable.metrics.push": True, **QUIET})
    producer.produce("t", b"v")

    def found() -> list[dict[str, Any]]:
        producer.poll(0)
        return [each for each in lines(cluster[1]) if each["client_id"] == "rd"]

    pushed = wait_until(found, "librdkafka has pushed")
    assert pushed[0]["client_software_name"] == "confluent-kafka-python"
    assert b"org.apache.kafka.producer" in base64.b64decode(pushed[0]["metrics"])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev")
def test_the_java_client_pushes_by_itself(cluster: tuple[Cluster, Path], tmp_path: Path) -> None:
    bootstrap = cluster[0].bootstrap()
    driver = Driver(prepare(), bootstrap, tmp_path / "tools.log", {})
    tool = "org.apache.kafka.tools.VerifiableProducer"
    arguments = ["--bootstrap-server", bootstrap, "--topic", "t", "--max-messages", "500", "--throughput", "50"]
    try:
        assert driver.call("run", 120.0, tool=tool, arguments=arguments, stdin="")["code"] == 0
    finally:
        driver.close()
    pushed = [each for each in lines(cluster[1]) if each["client_software_name"] == "apache-kafka-java"]
    assert len(pushed) > 1
    # Whether it also says goodbye depends on whether its sender thread looks once more before it ends.
    assert not any(each["is_terminating"] for each in pushed[:-1])
    assert any(b"org.apache.kafka.producer" in base64.b64decode(each["metrics"]) for each in pushed)


@pytest.mark.slow
def test_without_a_file_nobody_is_asked(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        port = cluster.ports[1]["DIRECT"]
        assert not {71, 72} & offered(port)
        answer = ask(port, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
        assert (answer.error_code, answer.requested_metrics) == (ErrorCode.none, ())
        known = {"client_instance_id": answer.client_instance_id, "subscription_id": answer.subscription_id}
        assert ask(port, ApiKey.PUSH_TELEMETRY, 0, **known, metrics=b"x").error_code is ErrorCode.none
