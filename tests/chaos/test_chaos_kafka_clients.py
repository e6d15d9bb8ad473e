"""A real client behind the Kafka toxics, which strike each of its requests once: refused, silent, cut off, answered in
another way. The client must do its work all the same: consume a record, produce one, commit both in one transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.lookup import start_embedded
from chaos.toxiproxy.states import ProxySpec
from chaos.toxiproxy.toxic import AttributeValue
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.ports import free_port
from runlog.records.exchange import ExchangeOutcome, KafkaExchange, read_exchanges
from tests.patience import wait_until

pytestmark = pytest.mark.slow
LIMIT_S = 90
# For each request of the client, an error with which brokers ask it to try again.
ERRORS = {
    "ApiVersions": 35, "Metadata": 5, "FindCoordinator": 15, "InitProducerId": 14, "JoinGroup": 14, "SyncGroup": 27,
    "OffsetFetch": 14, "ListOffsets": 6, "Fetch": 6, "AddPartitionsToTxn": 51, "Produce": 6, "AddOffsetsToTxn": 51,
    "TxnOffsetCommit": 14, "EndTxn": 51, "LeaveGroup": 16,
}  # fmt: skip
QUICK = ("JoinGroup", "Produce")  # the others are marked as long: each takes some seconds
_numbers = itertools.count(1)


@dataclass
class Bench:
    """A broker, a proxy before it, and what passed the proxy."""

    toxiproxy: ToxiproxyClient
    address: str  # of the proxy
    broker: str
    log: Path

    def exchanges(self) -> list[KafkaExchange]:
        assert self.toxiproxy.exchange_log_problem() == ""
        return [record for record in read_exchanges(self.log) if isinstance(record, KafkaExchange)]

    def struck(self, kind: str, attributes: dict[str, AttributeValue]) -> list[KafkaExchange]:
        """The client works while the toxic acts once. The exchanges on which it acted."""
        client_id = f"client-{next(_numbers)}"
        name = f"strike-{client_id}"
        self.toxiproxy.watch_exchanges("clients", client_ids=[client_id])
        self.toxiproxy.add_toxic("clients", kind, {**attributes, "client_id": client_id}, name=name)
        try:
            work(self.address, client_id)
            counters = self.toxiproxy.toxic("clients", name).counters
        finally:
            self.toxiproxy.remove_toxic("clients", name)
            self.toxiproxy.unwatch_exchanges("clients")
        assert committed(self.broker, client_id) == 1
        assert copies(self.broker, client_id) == [client_id.encode()]
        assert counters["acted"] == 1, counters
        return [line for line in self.exchanges() if line.client_id == client_id and line.toxics]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=())
    cluster = build_cluster(key, directory / "cluster", proxy_choice="embedded", lease=None, seed=0)
    server = None
    try:
        cluster.start()
        server = start_embedded(exchange_log=directory / "exchanges.jsonl", log_path=directory / "log.txt")
        toxiproxy, broker, port = server.client(), cluster.bootstrap_servers, free_port()
        address = f"127.0.0.1:{port}"
        toxiproxy.create(ProxySpec(name="clients", upstream=broker, listen=address, kafka_addresses={broker: address}))
        admin = AdminClient({"bootstrap.servers": broker})
        for future in admin.create_topics(
            [NewTopic("in", 1, 1), NewTopic("out", 2, 1), NewTopic("sessions", 2, 1)]
        ).values():
            future.result(timeout=LIMIT_S)
        producer = Producer({"bootstrap.servers": broker})
        producer.produce("in", b"work")
        assert producer.flush(LIMIT_S) == 0
        yield Bench(toxiproxy, address, broker, directory / "exchanges.jsonl")
        toxiproxy.close()
        assert "Traceback" not in (directory / "log.txt").read_text()
    finally:
        if server is not None:
            server.stop()
        cluster.stop()


def work(address: str, client_id: str) -> None:
    """Consume the one record, and copy it in a transaction."""
    common = {
        "bootstrap.servers": address, "client.id": client_id, "socket.timeout.ms": 10_000, "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100,
    }  # fmt: skip
    consumer = Consumer(
        common
        | {"group.id": client_id, "auto.offset.reset": "earliest", "enable.auto.commit": False,
           "session.timeout.ms": 10_000}
    )  # fmt: skip
    producer = Producer(common | {"transactional.id": client_id, "linger.ms": 0})
    try:
        producer.init_transactions(LIMIT_S)
        consumer.subscribe(["in"])
        polled = (consumer.poll(1) for _ in range(LIMIT_S))
        message = next(each for each in polled if each is not None and not each.error())
        producer.begin_transaction()
        producer.produce("out", client_id.encode(), partition=0)
        position = [TopicPartition("in", 0, message.offset() + 1)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), LIMIT_S)
        producer.commit_transaction(LIMIT_S)
    finally:
        consumer.close()


def committed(broker: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition("in", 0)], timeout=LIMIT_S)[0].offset)
    finally:
        consumer.close()


def copies(broker: str, client_id: str) -> list[bytes]:
    """The records of this client in the log of `out`, read past the proxy."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "reader", "isolation.level": "read_committed",
                         "enable.partition.eof": True})  # fmt: skip
    consumer.assign([TopicPartition("out", 0, 0)])
    found: list[bytes] = []
    try:
        while (message := consumer.poll(LIMIT_S)) is not None and not message.error():
            found.append(message.value())
    finally:
        consumer.close()
    return [value for value in found if value == client_id.encode()]


def test_a_quiet_run_tells_which_requests_the_client_sends(bench: Bench) -> None:
    client_id = f"client-{next(_numbers)}"
    bench.toxiproxy.watch_exchanges("clients", client_ids=[client_id])
    work(bench.address, client_id)
    lines = [line for line in bench.exchanges() if line.client_id == client_id]
    assert set(ERRORS) <= {line.api for line in lines}
    assert {group for line in lines if line.api == "JoinGroup" for group in line.groups} == {client_id}
    assert {each for line in lines if line.api == "EndTxn" for each in line.transactional_ids} == {client_id}
    assert {part for line in lines if line.api == "Produce" for part in line.partitions} == {("out", 0)}


@pytest.mark.parametrize("api", [api if api in QUICK else pytest.param(api, marks=pytest.mark.long) for api in ERRORS])
def test_a_refused_request_is_tried_again(bench: Bench, api: str) -> None:
    [line] = bench.struck("kafka_refuse_request", {"api": api, "error_code": ERRORS[api], "followers": 0})
    assert (line.outcome, line.is_forwarded) == (ExchangeOutcome.REFUSED, False)
    assert line.error_codes == (ERRORS[api],) or api == "ApiVersions"  # that one is answered in version 0


@pytest.mark.long
@pytest.mark.parametrize("api", ["Metadata", "FindCoordinator", "JoinGroup", "Fetch", "Produce", "EndTxn"])
def test_an_error_after_the_work_is_tried_again(bench: Bench, api: str) -> None:
    [line] = bench.struck("kafka_edit_response", {"api": api, "error_code": ERRORS[api]})
    assert (line.outcome, line.error_codes) == (ExchangeOutcome.REPLACED, (ERRORS[api],))


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("api", ["InitProducerId", "JoinGroup", "Fetch", "Produce", "TxnOffsetCommit", "EndTxn"])
def test_a_silence_that_ends_and_a_connection_that_ends_cost_no_record(bench: Bench, api: str, when: str) -> None:
    [line] = bench.struck("kafka_silence", {"api": api, "when": when, "silence_ms": 300})
    assert line.outcome is ExchangeOutcome.DELIVERED
    assert line.ended_ns - line.mono_ns >= 300_000_000
    [line] = bench.struck("kafka_close_connection", {"api": api, "when": when})
    assert (line.is_forwarded, line.outcome.value) == ((False, "unanswered") if when == "before" else (True, "dropped"))


@pytest.mark.parametrize("api", ["ApiVersions", "Metadata"])
def test_entries_in_another_order_change_nothing(bench: Bench, api: str) -> None:
    [line] = bench.struck("kafka_alter_response", {"api": api, "how": "reversed"})
    assert line.outcome is ExchangeOutcome.ALTERED


def test_a_fetch_without_its_records_is_sent_again(bench: Bench) -> None:
    [line] = bench.struck("kafka_alter_response", {"api": "Fetch", "how": "empty"})
    assert line.outcome is ExchangeOutcome.ALTERED


def test_a_fetch_of_a_session_is_refused_although_it_names_no_topic(bench: Bench) -> None:
    """kafka-python fetches in sessions, whose requests name only what changed."""
    client_id = f"client-{next(_numbers)}"
    attributes: dict[str, AttributeValue] = {
        "api": "Fetch",
        "topic": "sessions",
        "error_code": ERRORS["Fetch"],
        "skip": 2,
    }
    bench.toxiproxy.watch_exchanges("clients", client_ids=[client_id])
    bench.toxiproxy.add_toxic("clients", "kafka_refuse_request", {**attributes, "client_id": client_id}, name=client_id)
    reader = KafkaConsumer(bootstrap_servers=bench.address, client_id=client_id, fetch_max_wait_ms=100)
    producer = Producer({"bootstrap.servers": bench.broker})
    try:
        reader.assign([PythonPartition("sessions", number) for number in (0, 1)])
        reader.seek_to_beginning()

        def has_acted() -> bool:
            reader.poll(timeout_ms=100)
            return bench.toxiproxy.toxic("clients", client_id).counters.get("acted") == 1

        wait_until(has_acted, "the refusal")
        producer.produce("sessions", b"later", partition=1)
        assert producer.flush(LIMIT_S) == 0
        found: list[bytes] = []
        wait_until(
            lambda: found.extend(each.value for part in reader.poll(timeout_ms=100).values() for each in part) or found,
            "the record",
        )
    finally:
        reader.close()
        bench.toxiproxy.remove_toxic("clients", client_id)
        bench.toxiproxy.unwatch_exchanges("clients")
    assert found == [b"later"]
    [line] = [line for line in bench.exchanges() if line.client_id == client_id and line.toxics]
    assert (line.outcome, line.error_codes, line.partitions) == (ExchangeOutcome.REFUSED, (ERRORS["Fetch"],), ())
