"""Clients on the listener of the brokers have the limits of clients; brokers there are known by what they ask."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_helper import PATIENT, Cluster
from wire_helper import ask, ask_over

from broker.controller.image import MetadataImage
from broker.node.net import server as server_module
from broker.node.net.connection import Connection
from broker.node.net.peers import asking_broker, claimed_broker, is_broker
from broker.node.net.principal import ANONYMOUS
from broker.node.net.server import TRIALS_MAX, Server
from broker.node.process.logs import Logger
from broker.node.settings.config import changed
from broker.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourceType
from broker.security.authorizer import Authorizer
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import encode_request
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import encode_batch
from tests.broker_node.partitions_helper import node_config
from tests.broker_node.test_node_receive_memory import Transport
from tests.patience import wait_until

MIB = 1 << 20


def fetch(replica_id: int, version: int = 12) -> Any:
    replica = {"replica_id": replica_id}
    if version >= 15:
        replica = {"replica_state": {"replica_id": replica_id, "replica_epoch": 1}}  # type: ignore[dict-item]
    return request(ApiKey.FETCH, version, max_wait=0, min_bytes=0, topics=[], forgotten_topics_data=[], **replica)


METADATA = request(ApiKey.METADATA, 9, topics=None)


@pytest.mark.parametrize("version", [4, 12, 17])
def test_a_broker_is_known_by_what_only_brokers_ask(version: int) -> None:
    ours = "broker-7"
    assert claimed_broker(ours) == 7
    assert [claimed_broker(each) for each in (None, "", "broker-", "broker-x", "broker-" + "9" * 11, "a")] == [None] * 6
    assert asking_broker(ours, ApiKey.FETCH, version, fetch(7, version)) == 7
    for client_id, replica_id in ((ours, -1), (ours, 8), ("app", 7), (None, 7)):
        assert asking_broker(client_id, ApiKey.FETCH, version, fetch(replica_id, version)) is None
    assert asking_broker(ours, ApiKey.METADATA, 9, METADATA) is None
    assert asking_broker(ours, ApiKey.ADD_PARTITIONS_TO_TXN, 3, None) is None, "clients ask this"
    assert asking_broker(ours, ApiKey.ADD_PARTITIONS_TO_TXN, 4, None) == 7
    assert asking_broker(ours, ApiKey.WRITE_TXN_MARKERS, 1, None) == 7


def asked(broker_id: int) -> Any:
    header = SimpleNamespace(client_id=f"broker-{broker_id}", api_key=ApiKey.FETCH, api_version=12)
    return SimpleNamespace(header=header, message=fetch(broker_id), principal="User:b", peer_host="/10.0.0.1")


def test_a_broker_is_registered_and_has_the_right_to_act_as_one() -> None:
    image: Any = SimpleNamespace(brokers={1: None, 2: None})
    assert is_broker(asked(2), image, None)
    assert not is_broker(asked(3), image, None)
    authorizer = Authorizer()
    assert not is_broker(asked(2), image, authorizer), "the lists are not known yet"
    authorizer.is_loaded = True
    assert not is_broker(asked(2), image, authorizer)
    kind, literal = ResourceType.CLUSTER, PatternType.LITERAL
    may = AclBinding(kind, CLUSTER_NAME, literal, "User:b", "*", Operation.CLUSTER_ACTION, Permission.ALLOW)
    authorizer.add(may)
    assert is_broker(asked(2), image, authorizer)
    assert MetadataImage().brokers == {}


# -- a server without sockets


class Net:
    """The server of broker 1 with one listener between brokers, on which clients connect too."""

    def __init__(self, **limits: Any) -> None:
        self.config = changed(node_config(Path("unused")), **limits)
        self.answered: list[Any] = []
        self.image: Any = SimpleNamespace(brokers={1: None, 2: None})
        self.server = Server(
            config=self.config,
            logger=Logger(1),
            dispatch=self.answered.append,
            spawn=None,  # type: ignore[arg-type]
            find_credential=lambda *_: None,
            is_broker=lambda request: is_broker(request, self.image, None),
        )
        self.make = self.server._factory(self.config.listening.internal_listener)

    def connect(self) -> tuple[Connection, Transport]:
        connection, transport = self.make(ANONYMOUS), Transport()
        connection.connection_made(transport)
        return connection, transport


def send(connection: Connection, message: Any, client_id: str, key: ApiKey, version: int) -> None:
    data = b"".join(encode_request(key, version, 1, client_id, message))
    room = connection.get_buffer(-1)
    room[: len(data)] = data
    connection.buffer_updated(len(data))


def as_client(connection: Connection) -> None:
    send(connection, METADATA, "app", ApiKey.METADATA, 9)


def as_broker(connection: Connection) -> None:
    send(connection, fetch(2), "fetcher-2", ApiKey.FETCH, 12)


def run(work: Any) -> None:
    async def main() -> None:
        work()

    asyncio.run(main())


def test_clients_on_the_brokers_listener_have_the_limits_of_clients_and_brokers_get_in() -> None:
    def work() -> None:
        net = Net(max_connections=3)
        for _ in range(3):
            connection, transport = net.connect()
            as_client(connection)
            assert not transport.is_ended
        late, late_transport = net.connect()
        as_client(late)
        assert late_transport.is_ended, "one too many"
        assert len(net.answered) == 3
        for _ in range(5):
            connection, transport = net.connect()
            send(connection, request(ApiKey.API_VERSIONS, 0), "fetcher-2", ApiKey.API_VERSIONS, 0)
            as_broker(connection)
            assert not transport.is_ended
            assert connection.is_peer
        assert len(net.answered) == 3 + 2 * 5

    run(work)


def test_connections_that_ask_nothing_do_not_keep_brokers_out() -> None:
    def work() -> None:
        net = Net(max_connections_per_ip=2)
        silent = [net.connect()[1] for _ in range(2 + 3 * TRIALS_MAX)]
        assert sum(each.is_ended for each in silent) == 2 * TRIALS_MAX, "the oldest beyond the limit"
        connection, transport = net.connect()
        as_broker(connection)
        assert connection.is_peer
        assert not transport.is_ended

    run(work)


def test_a_client_on_the_brokers_listener_has_the_budgets_of_clients() -> None:
    def work() -> None:
        net = Net(queued_max_request_bytes=MIB)
        client, transport = net.connect()
        half = struct.pack(">i", 3 * MIB) + bytes(60_000)
        room = client.get_buffer(-1)
        room[: len(half)] = half
        client.buffer_updated(len(half))
        assert net.server._memory.used_bytes > 2 * MIB
        assert net.server._peer_memory.used_bytes == 0
        other, _ = net.connect()
        as_client(other)
        assert not other.is_peer
        broker, _ = net.connect()
        as_broker(broker)
        assert broker.is_peer
        room = broker.get_buffer(-1)
        room[: len(half)] = half
        broker.buffer_updated(len(half))
        assert net.server._peer_memory.used_bytes > 2 * MIB, "clients have used up theirs"
        assert not transport.is_ended

    run(work)


def test_a_rate_of_connections_slows_clients_down_and_no_broker() -> None:
    def work() -> None:
        net = Net(max_connection_creation_rate=1)
        paused = []
        for turn in range(40):
            connection, transport = net.connect()
            (as_broker if turn % 2 else as_client)(connection)
            paused.append(transport.is_paused)
        assert any(paused[0::2])
        assert not any(paused[1::2])

    run(work)


# -- real brokers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As in Apache Kafka's quick start: one listener for everybody, and one for the controllers."""
    settings = {**PATIENT, "inter.broker.listener.name": "DIRECT", "max.connections.per.ip": 60}
    with Cluster(
        tmp_path_factory.mktemp("shared"), brokers=2, settings=settings, listeners=("DIRECT", "CONTROLLER")
    ) as running:
        yield running


@pytest.mark.slow
def test_replication_goes_on_where_brokers_share_a_listener_with_too_many_clients(cluster: Cluster) -> None:
    port = cluster.ports[1]["DIRECT"]
    topic = {"name": "t", "num_partitions": 2, "replication_factor": 2, "assignments": [],
             "configs": [{"name": "min.insync.replicas", "value": "2"}]}  # fmt: skip
    refused = "limit=max.connections.per.ip"
    clients = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(80)]
    try:
        for each in clients:
            try:
                ask_over(each, ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
            except OSError:
                assert refused in cluster.stderr(1)
                break
        else:
            pytest.fail("80 clients of one address were served")
        kept = clients[0]
        ask_over(kept, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=30_000, validate_only=False)
        named = [{"topic_id": None, "name": "t"}]

        def leaders() -> list[int]:
            (told,) = ask_over(kept, ApiKey.METADATA, 12, topics=named, allow_auto_topic_creation=False).topics
            return [each.partition_index for each in told.partitions if each.leader_id == 1]

        index = wait_until(leaders, "a partition that broker 1 leads")[0]
        data = [{"name": "t", "partition_data": [
            {"index": index, "records": encode_batch([b"v"], timestamps_ms=1)}]}]  # fmt: skip

        def is_replicated() -> bool:
            answer = ask_over(kept, ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=30_000, topic_data=data)
            return bool(answer.responses[0].partition_responses[0].error_code is ErrorCode.none)

        wait_until(is_replicated, "the follower has it", seen=cluster.seen)
    finally:
        for each in clients:
            each.close()


@pytest.mark.slow
def test_a_starting_broker_answers_no_client_on_the_brokers_listener(tmp_path: Path) -> None:
    """One of three voters alone: it never joins. It answered that topics which exist are unknown."""
    settings = {"inter.broker.listener.name": "DIRECT"}
    alone = Cluster(tmp_path, brokers=3, settings=settings, listeners=("DIRECT", "CONTROLLER"))
    try:
        alone.start(1)
        wait_until(lambda: "listening" in alone.stderr(1), "it has begun")
        wait_until(lambda: any(each["kind"] == "started" for each in alone.journal(1)), "it is started")
        with pytest.raises(OSError):
            ask(alone.ports[1]["DIRECT"], ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
        assert "listener=DIRECT" not in alone.stderr(1)
        assert "listener=CONTROLLER" in alone.stderr(1)
    finally:
        alone.__exit__()


def test_only_a_listener_of_controllers_belongs_to_brokers_alone() -> None:
    def work() -> None:
        net = Net()
        connection, _ = net.connect()
        assert connection.listener is Listener.INTER_BROKER
        assert not connection.is_peer
        assert server_module.PEER_CONNECTIONS > TRIALS_MAX

    run(work)
