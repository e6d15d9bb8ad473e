"""A consumer that is over its fetch quota gets no records before it has waited (KIP-219), as from Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_helper import Cluster
from wire_helper import CLIENT_ID, ask, limit_reading

from broker.client.core.batch import TopicPartition
from broker.door.clients import Admin, Consumer, NewTopic, Producer
from broker.node.features.quotas import charges
from broker.node.features.quotas.charges import ClientCharge
from broker.node.features.quotas.client_quotas import ClientQuotas
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import to_ms
from harness.clusters.base import Address
from harness.clusters.requests import log_reader
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.probe import BrokerProbe
from tests.patience import wait_until

TOPIC = "t"
RECORD_BYTES, RECORDS = 5_000, 12
WINDOW = {"quota.window.num": 11, "quota.window.size.seconds": 1}
# A busy host does not reach the end of this window while a client asks five times.
LONG_WINDOW = {"quota.window.num": 11, "quota.window.size.seconds": 10}
RATE = 200  # bytes a second: 20,000 to 22,000 in the long window, depending on how far into a sample it is
FETCHED_BYTES = 15_000  # one such answer is below the rate, two are above it, whatever the time
FULL, SESSIONLESS = 0, -1  # epochs of a fetch session


def fetched(port: int, offset: int, session: tuple[int, int] = (0, SESSIONLESS)) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": FETCHED_BYTES}
    topics = [{"topic": TOPIC, "partitions": [partition]}]
    session_id, epoch = session
    asked = {"topics": topics, "session_id": session_id, "session_epoch": epoch, "max_wait": 0}
    return ask(port, ApiKey.FETCH, 11, min_bytes=1, max_bytes=1_000_000, **asked)


def told(answer: Any) -> tuple[str, int, bool, bool, bool]:
    """(error, number of partitions, whether there are records, whether the client must wait, whether in a session)"""
    partitions = [each for topic in answer.responses for each in topic.partitions]
    has_records = any(each.records for each in partitions)
    return (
        answer.error_code.name,
        len(partitions),
        has_records,
        to_ms(answer.throttle_time) > 0,
        answer.session_id != 0,
    )


def over_its_rate(port: int) -> list[tuple[str, int, bool, bool, bool]]:
    """What a client hears that does not wait as it is told."""
    bootstrap = f"127.0.0.1:{port}"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
        with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
            for _ in range(RECORDS):  # each one is a record batch
                producer.send(TOPIC, bytes(RECORD_BYTES), partition=0).get(60)
        session = fetched(port, RECORDS, (0, FULL)).session_id
        assert session
    limit_reading(port, CLIENT_ID, RATE)
    found = []
    # the first answer counts, and the others would bring the client over its rate
    offset = 0
    deadline = time.monotonic() + 60
    while True:  # the quota is in force some time after it is told
        answer = told(fetched(port, offset))
        if answer[3]:
            break
        assert time.monotonic() < deadline
    found.append(answer)
    found.append(told(fetched(port, offset, (0, FULL))))
    found.append(told(fetched(port, offset, (session, 1))))
    found.append(told(fetched(port, offset, (session, 2))))
    found.append(told(fetched(port, offset, (session, 2))))
    return found


HELD = (ErrorCode.none.name, 0, False, True)
EXPECTED = [
    (*HELD, False),
    (*HELD, False),
    (*HELD, True),
    (*HELD, True),
    (ErrorCode.invalid_fetch_session_epoch.name, 0, False, False, False),
]


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(tmp_path, brokers=1, settings=getattr(request, "param", LONG_WINDOW)) as running:
        running.wait_until_all_are_known()
        yield running


@pytest.mark.slow
def test_a_consumer_over_its_rate_gets_no_records_and_its_session_goes_on(cluster: Cluster) -> None:
    assert over_its_rate(cluster.ports[1]["DIRECT"]) == EXPECTED


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("cluster", [{**WINDOW, "quota.window.num": 3}], indirect=True)
def test_the_reference_client_waits_as_it_is_told_and_reads_everything(cluster: Cluster) -> None:
    bootstrap = f"127.0.0.1:{cluster.ports[1]['DIRECT']}"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
    limit_reading(cluster.ports[1]["DIRECT"], "slow", 50_000.0)
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        for number in range(60):
            producer.send(TOPIC, b"%04d" % number + bytes(RECORD_BYTES), partition=0).get(60)
    began_s = time.monotonic()
    seen: list[int] = []
    with Consumer({"bootstrap.servers": bootstrap, "client.id": "slow", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        while len(seen) < 60 and time.monotonic() < began_s + 120:
            seen += [int(each.value[:4]) for each in consumer.poll(500)]
    assert seen == list(range(60))
    assert time.monotonic() - began_s > 2, "300,000 bytes are three windows at this rate"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("cluster", [{**WINDOW, "quota.window.num": 3}], indirect=True)
def test_the_final_read_waits_for_its_quota_and_reads_everything(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its limit for a read in which nothing comes is shorter than the waits."""
    port = cluster.ports[1]["DIRECT"]
    bootstrap = f"127.0.0.1:{port}"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1)])
    limit_reading(port, None, 50_000.0)
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        for _ in range(60):
            producer.send(TOPIC, bytes(RECORD_BYTES), partition=0).get(60)

    def probe(partition: int) -> BrokerProbe:
        return BrokerProbe(Address(host="127.0.0.1", port=port))

    reader = TopicLogReader(TOPIC, probe)

    def records() -> int:
        """0 if a busy host kept the broker from an answer for longer than the limit."""
        try:
            return sum(batch.header.record_count for batch in reader.batches(0, 60))
        except TimeoutError:
            return 0

    with monkeypatch.context() as patched:
        patched.setattr(log_reader, "_STALL_TIMEOUT_S", 1.0)
        assert wait_until(records, "everything is read although the waits are longer than the limit") == 60
    with pytest.raises(TimeoutError, match=r"holds records back .*; the run was stopped"):
        list(TopicLogReader(TOPIC, probe, should_stop=lambda: True).batches(0, 60))
    monkeypatch.setattr(log_reader, "_HELD_BACK_MAX_S", 0.5)
    with pytest.raises(TimeoutError, match=r"t-0, at offset .*: the fetch quota of the run's user holds records back"):
        list(reader.batches(0, 60))


def charge(quotas: ClientQuotas) -> ClientCharge:
    request: Any = SimpleNamespace(
        principal=SimpleNamespace(name="u"), client_id="c", header=SimpleNamespace(api_key=ApiKey.FETCH), size_bytes=50
    )
    return ClientCharge(quotas, request)


def test_what_is_not_sent_does_not_count_and_more_than_a_window_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(ms=0)
    monkeypatch.setattr(charges, "monotonic_ms", lambda: now.ms)
    quotas = ClientQuotas(window_count=11, window_size_ms=1000)
    quotas.set_limits({(("client-id", "c"),): {"consumer_byte_rate": 1_000.0}})
    first, large, small, later = (charge(quotas) for _ in range(4))
    assert not first.holds_back(9_000)
    assert first.wait_ms(None) == 0
    assert large.holds_back(9_000)
    assert large.wait_ms(None) > 0
    assert not small.holds_back(1_000), "the 9,000 bytes that were held back do not count"
    now.ms = 60_000
    assert not later.holds_back(50_000), "alone it is more than a window: it could never be sent"
    assert later.wait_ms(None) > 0
    assert charge(quotas).holds_back(1)


def test_a_client_over_its_time_gets_no_records_either(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(ms=0, ns=0)
    monkeypatch.setattr(charges, "monotonic_ms", lambda: now.ms)
    monkeypatch.setattr(charges, "monotonic_ns", lambda: now.ns)
    quotas = ClientQuotas(window_count=11, window_size_ms=1000)
    quotas.set_limits({(("client-id", "c"),): {"request_percentage": 1.0}})
    one = charge(quotas)
    now.ns = 5_000_000_000
    assert one.holds_back(10)
    assert 0 < one.wait_ms(None) <= 1_000
