"""Clients' metrics (KIP-714) here and on Apache Kafka with a plug-in: the same answers to the same requests, and the
same metrics from the same clients."""

from __future__ import annotations

import base64
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster_helper import Cluster
from confluent_helper import QUIET
from confluent_kafka import Producer
from kafka_node import compiled, kafka_node
from wire_helper import TIMEOUT_S, ask, ask_over

from broker.wire.apis import ApiKey
from broker.wire.compression import CodecId, compress
from broker.wire.errors import ErrorCode
from tests.compatibility.driver import Driver
from tests.compatibility.tools.run import prepare
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
JAVA = Path(__file__).parent / "java" / "TelemetrySink.java"
GET, PUSH = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY
INTERVAL_S, SIZE_BYTES_MAX = 1.0, 20_000
TRIES_MAX, RUNS_MAX = 20, 5
NO_ID, RESERVED = UUID(int=0), UUID(int=1)
CODECS = (CodecId.GZIP, CodecId.SNAPPY, CodecId.LZ4, CodecId.ZSTD)


@dataclass(frozen=True, slots=True)
class Push:
    client_id: str
    is_terminating: bool
    metrics: bytes


@dataclass(frozen=True, slots=True)
class Node:
    port: int
    path: Path
    is_ours: bool

    def ask(self, key: ApiKey, **values: object) -> Any:
        return ask(self.port, key, 0, **values)

    def subscribe(self, name: str, **values: str) -> None:
        configs = [{"name": key, "config_operation": 0, "value": value} for key, value in values.items()]
        resource = {"resource_type": 16, "resource_name": name, "configs": configs}
        answer = ask(self.port, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, validate_only=False, resources=[resource])
        assert answer.responses[0].error_code is ErrorCode.none, answer

    def requested(self) -> tuple[str, ...]:
        return tuple(self.ask(GET, client_instance_id=None).requested_metrics)

    def pushes(self) -> list[Push]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [_ours(line) if self.is_ours else _theirs(line) for line in lines]


def _ours(line: str) -> Push:
    row = json.loads(line)
    return Push(row["client_id"], row["is_terminating"], base64.b64decode(row["metrics"]))


def _theirs(line: str) -> Push:
    client_id, is_terminating, kind, metrics = line.split(" ")
    assert kind == "OTLP"
    return Push(client_id, is_terminating == "true", base64.b64decode(metrics))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    directory = tmp_path_factory.mktemp("telemetry")
    ours_path, theirs_path = directory / "ours.jsonl", directory / "theirs.txt"
    own = {"harness.telemetry.path": ours_path, "telemetry.max.bytes": SIZE_BYTES_MAX}
    plug_in = {
        "metric.reporters": "TelemetrySink", "test.telemetry.sink": theirs_path, "telemetry.max.bytes": SIZE_BYTES_MAX,
    }  # fmt: skip
    classes = compiled(JAVA, tmp_path_factory.mktemp("classes"))
    with (
        Cluster(tmp_path_factory.mktemp("ours"), brokers=1, settings=own) as ours,
        kafka_node(tmp_path_factory.mktemp("kafka"), plug_in, classes=classes) as port,
    ):
        found = Node(ours.ports[1]["DIRECT"], ours_path, True), Node(port, theirs_path, False)
        for node in found:
            node.subscribe("all", **{"interval.ms": str(int(INTERVAL_S * 1000)), "metrics": "*"})
            wait_until(lambda node=node: node.requested() == ("*",), "the subscription is known")
        yield found


class Client:
    """One client's requests to both nodes. It has an id, and on each node a connection and a subscription."""

    def __init__(self, nodes: tuple[Node, Node], instance_id: UUID | None = None) -> None:
        self._nodes = nodes
        self.instance_id = instance_id or uuid4()
        self._subscriptions = [0, 0]
        self._since_s: float | None = None  # when it asked first, since an interval was over
        self.is_late = False
        self.connections = self.connected()

    def connected(self) -> list[socket.socket]:
        return [socket.create_connection(("127.0.0.1", node.port), timeout=TIMEOUT_S) for node in self._nodes]

    def get(self) -> ErrorCode:
        with self._watched():
            answers = [ask_over(each, GET, 0, client_instance_id=self.instance_id) for each in self.connections]
        if answers[0].error_code is ErrorCode.none:
            self._subscriptions = [each.subscription_id for each in answers]
        ours, theirs = (_plain(each) for each in answers)
        assert ours == theirs
        code: ErrorCode = answers[0].error_code
        return code

    def push(self, metrics: bytes, *, codec: int = 0, terminating: bool = False, off_by: int = 0) -> ErrorCode:
        values = {"terminating": terminating, "compression_type": codec, "metrics": metrics}
        with self._watched():
            ours, theirs = (
                ask_over(
                    connection, PUSH, 0, client_instance_id=self.instance_id, subscription_id=known + off_by, **values
                )
                for connection, known in zip(self.connections, self._subscriptions, strict=True)
            )
        assert ours == theirs, f"{self.instance_id} {metrics[:40]!r} {codec} {terminating} {off_by}"
        code: ErrorCode = ours.error_code
        return code

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self._since_s = time.monotonic() if self._since_s is None else self._since_s
        yield
        self.is_late |= time.monotonic() - self._since_s >= INTERVAL_S

    def pass_interval(self) -> None:
        time.sleep(INTERVAL_S + 0.05)  # the brokers' clocks count
        self._since_s = None

    def named(self, text: bytes) -> bytes:
        """Metrics that no other client has."""
        return text + self.instance_id.bytes


def told_in_time(nodes: tuple[Node, Node], story: Callable[[Client], None], instance_id: UUID | None = None) -> Client:
    """The story of a client whose requests follow each other within one interval, except where it lets one pass. On a
    busy host more time may pass, for one broker or both. The story then proves nothing, and is told again."""
    for attempt in count(1):
        client = Client(nodes, instance_id)
        try:
            story(client)
        except AssertionError:
            if not client.is_late or attempt == TRIES_MAX:
                raise
            client.pass_interval()
        else:
            break
    return client


def _plain(answer: Any) -> dict[str, Any]:
    """Subscription ids are made of hashes. Metrics come in the order of a hash table."""
    told = {each.name: getattr(answer, each.name) for each in fields(answer) if each.name != "subscription_id"}
    return {**told, "requested_metrics": sorted(answer.requested_metrics)}


def wait_for(nodes: tuple[Node, Node], metrics: bytes) -> None:
    for node in nodes:
        wait_until(lambda node=node: any(each.metrics == metrics for each in node.pushes()), f"{metrics!r} at {node}")


def test_clients_learn_of_it_only_with_a_plug_in(nodes: tuple[Node, Node], tmp_path: Path) -> None:
    def offered(port: int) -> set[int]:
        answer = ask(port, ApiKey.API_VERSIONS, 3, client_software_name="test", client_software_version="1")
        return {each.api_key for each in answer.api_keys} & {GET.value, PUSH.value}

    for node in nodes:
        assert offered(node.port) == {GET.value, PUSH.value}
    (tmp_path / "ours").mkdir()
    (tmp_path / "kafka").mkdir()
    with Cluster(tmp_path / "ours", brokers=1) as ours, kafka_node(tmp_path / "kafka", {}) as port:
        without = Node(ours.ports[1]["DIRECT"], tmp_path / "a", True), Node(port, tmp_path / "b", False)
        for node in without:
            assert offered(node.port) == set()
        client = Client(without)
        assert client.get() is ErrorCode.none
        assert client.push(b"x") is ErrorCode.none
        assert Client(without).push(b"x") is ErrorCode.unknown_subscription_id
        for codec in CODECS:
            garbage = Client(without)
            garbage.get()
            garbage.push(b"no data of this codec", codec=codec)


def test_a_client_may_ask_and_push_once_in_an_interval(nodes: tuple[Node, Node]) -> None:
    def story(client: Client) -> None:
        assert client.get() is ErrorCode.none
        assert client.get() is ErrorCode.throttling_quota_exceeded
        assert client.push(client.named(b"first")) is ErrorCode.none
        assert client.push(client.named(b"early")) is ErrorCode.throttling_quota_exceeded
        assert client.get() is ErrorCode.throttling_quota_exceeded
        client.pass_interval()
        assert client.push(client.named(b"second")) is ErrorCode.none
        assert client.get() is ErrorCode.throttling_quota_exceeded
        client.pass_interval()
        assert client.get() is ErrorCode.none
        assert client.push(client.named(b"third")) is ErrorCode.none

    client = told_in_time(nodes, story)
    wait_for(nodes, client.named(b"third"))
    for node in nodes:
        mine = [each.metrics for each in node.pushes() if each.metrics.endswith(client.instance_id.bytes)]
        assert mine == [client.named(text) for text in (b"first", b"second", b"third")]


def test_a_client_is_forgotten_when_the_connection_closes_that_it_came_with(nodes: tuple[Node, Node]) -> None:
    def story(client: Client) -> None:
        assert client.get() is ErrorCode.none
        assert client.push(b"x", terminating=True) is ErrorCode.none
        first, client.connections = client.connections, client.connected()
        assert client.push(b"x") is ErrorCode.invalid_request, "its first connection is open"
        for connection in first:
            connection.close()
        client.pass_interval()
        assert client.get() is ErrorCode.none
        assert client.get() is ErrorCode.throttling_quota_exceeded
        assert client.push(b"x", terminating=True) is ErrorCode.none
        for connection in client.connections:
            connection.close()
        client.pass_interval()
        client.connections = client.connected()
        assert client.push(b"x") is ErrorCode.none

    told_in_time(nodes, story)


def test_a_client_that_never_asked_and_ids_that_nobody_has(nodes: tuple[Node, Node]) -> None:
    client = Client(nodes)
    assert client.push(b"x", off_by=7) is ErrorCode.unknown_subscription_id
    assert client.get() is ErrorCode.none
    for instance_id in (NO_ID, RESERVED):
        assert Client(nodes, instance_id).push(b"x") is ErrorCode.invalid_request

    def asks_twice(reserved: Client) -> None:
        reserved.get()
        reserved.get()

    told_in_time(nodes, asks_twice, RESERVED)


@pytest.mark.parametrize("codec", [5, 99, -1])
def test_an_unknown_codec_is_refused(nodes: tuple[Node, Node], codec: int) -> None:
    def story(client: Client) -> None:
        client.get()
        assert client.push(b"x", codec=codec) is ErrorCode.unsupported_compression_type
        assert client.get() is ErrorCode.none, "it may ask at once for those that are taken"
        client.push(b"x")
        client.get()

    told_in_time(nodes, story)


@pytest.mark.parametrize("off_by", [1, -1])
def test_another_subscription_is_refused(nodes: tuple[Node, Node], off_by: int) -> None:
    def story(client: Client) -> None:
        client.get()
        assert client.push(b"x", off_by=off_by) is ErrorCode.unknown_subscription_id
        assert client.get() is ErrorCode.none
        client.push(b"x")

    told_in_time(nodes, story)


@pytest.mark.parametrize("size", [SIZE_BYTES_MAX, SIZE_BYTES_MAX + 1])
def test_a_push_may_have_so_many_bytes(nodes: tuple[Node, Node], size: int) -> None:
    def story(client: Client) -> None:
        client.get()
        client.push(bytes(size))
        client.get()
        client.push(b"x")

    told_in_time(nodes, story)


def test_the_last_push_is_the_last(nodes: tuple[Node, Node]) -> None:
    def story(client: Client) -> None:
        client.get()
        assert client.push(client.named(b"last"), terminating=True) is ErrorCode.none
        for is_last in (False, False, True, True):
            client.push(client.named(b"after"), terminating=is_last)
            client.get()

    assert pushed_to_both(nodes, told_in_time(nodes, story))


@pytest.mark.parametrize(
    "wrong", [{"off_by": 1}, {"codec": 9}, {"metrics": bytes(SIZE_BYTES_MAX + 1)}, {"metrics": b""}]
)
def test_a_last_push_that_is_wrong_is_the_last_all_the_same(nodes: tuple[Node, Node], wrong: dict[str, Any]) -> None:
    def story(client: Client) -> None:
        client.get()
        client.push(client.named(b"before"))
        client.push(**{"metrics": client.named(b"last"), "terminating": True, **wrong})
        client.push(client.named(b"after"))
        client.pass_interval()
        client.push(client.named(b"again"))

    assert pushed_to_both(nodes, told_in_time(nodes, story))


def pushed_to_both(nodes: tuple[Node, Node], client: Client) -> list[Push]:
    """Its metrics, which both took alike. A push is answered after it was taken."""
    ours, theirs = (
        [each for each in node.pushes() if each.metrics.endswith(client.instance_id.bytes)] for node in nodes
    )
    assert ours == theirs
    return ours


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_metrics_are_unpacked_and_what_is_too_large_then_is_refused(
    nodes: tuple[Node, Node], codec: CodecId
) -> None:
    texts = (b"metrics of %d" % codec, b"", bytes(SIZE_BYTES_MAX), bytes(SIZE_BYTES_MAX + 1), bytes(9 << 20))
    for data in (*(compress(codec, text) for text in texts), b"no data of this codec"):

        def story(client: Client, data: bytes = data) -> None:
            client.get()
            client.push(data, codec=codec)
            client.get()

        told_in_time(nodes, story)
    wait_for(nodes, texts[0])


@pytest.mark.parametrize("interval_ms", [200_000, 1_800_000])
def test_a_subscription_that_changes_is_told_anew(nodes: tuple[Node, Node], interval_ms: int) -> None:
    client, ended = Client(nodes), Client(nodes)
    metrics = "org.apache.kafka.producer.,org.apache.kafka.consumer."
    client.get()
    ended.get()
    ended.push(b"x", terminating=True)
    for node in nodes:  # what follows takes less than an interval
        node.subscribe("more", **{"interval.ms": str(interval_ms), "metrics": metrics})
        node.subscribe("all", **{"interval.ms": "3600000", "metrics": "org.apache.kafka.admin."})
        wait_until(lambda node=node: len(node.requested()) == 3, "the subscriptions are known")
    try:
        assert client.push(b"x") is ErrorCode.unknown_subscription_id
        assert client.get() is ErrorCode.none
        client.push(b"x")
        ended.push(b"x")
        ended.get()
        late = Client(nodes)
        late.get()
        late.push(b"x")
    finally:
        for node in nodes:
            node.subscribe("more", metrics="")
            node.subscribe("all", **{"interval.ms": str(int(INTERVAL_S * 1000)), "metrics": "*"})
            wait_until(lambda node=node: node.requested() == ("*",), "the subscription is known")


def names(pushes: list[Push]) -> set[str]:
    """The names of metrics in OTLP's data."""
    return {name.decode() for each in pushes for name in re.findall(rb"org\.apache\.kafka\.[a-z.]+", each.metrics)}


def test_librdkafka_pushes_the_same_metrics_to_both(nodes: tuple[Node, Node]) -> None:
    own = {"client.id": "rd", "enable.metrics.push": True, **QUIET}
    producers = [Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", **own}) for node in nodes]
    found: list[set[str]] = []

    def are_the_same() -> bool:
        """A metric comes when there is something to tell: on a busy host with a later push."""
        for producer in producers:
            producer.produce("rd", b"v")
            producer.poll(0)
        pushes = [[each for each in node.pushes() if each.client_id == "rd"] for node in nodes]
        found[:] = [names(each) for each in pushes]
        return found[0] == found[1] and min(map(len, pushes)) > 2

    try:
        wait_until(are_the_same, "librdkafka has pushed three times to each")
    except AssertionError:
        assert found[0] == found[1]
        raise
    for producer in producers:
        assert producer.flush(60) == 0
    assert "org.apache.kafka.producer.connection.creation.total" in found[0]


def test_the_java_client_pushes_the_same_metrics_to_both(nodes: tuple[Node, Node], tmp_path: Path) -> None:
    found = []
    for node in nodes:
        bootstrap = f"127.0.0.1:{node.port}"
        driver = Driver(prepare(), bootstrap, tmp_path / f"tools-{node.is_ours}.log", {})
        tool = "org.apache.kafka.tools.VerifiableProducer"
        arguments = ["--bootstrap-server", bootstrap, "--topic", "java", "--max-messages", "400", "--throughput", "80"]
        mine: list[Push] = []
        try:
            for _ in range(RUNS_MAX):  # a run takes 5 s: on a busy host it may push less often than each second
                before = len(node.pushes())
                assert driver.call("run", 120.0, tool=tool, arguments=arguments, stdin="")["code"] == 0
                mine = [each for each in node.pushes()[before:] if each.client_id != "rd"]
                assert not any(each.is_terminating for each in mine[:-1])
                if len(mine) > 2:
                    break
        finally:
            driver.close()
        assert len(mine) > 2
        found.append(names(mine))
    assert found[0] == found[1]
    assert "org.apache.kafka.producer.record.send.total" in found[0]
