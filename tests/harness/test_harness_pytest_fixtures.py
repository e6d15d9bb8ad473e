"""One fault at a time, and what the log holds, as tests of a user's own have them: limits, targets, and what a failure
says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.test_harness_pytest_plugin import run_pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

INJECTED = """
import time
import pytest
from harness.fixtures import Inconclusive

def healed(chaos):
    return any(event["phase"] == "healed" for event in chaos.events)

def test_a_body_that_waits_for_the_healing_ends(chaos):
    with chaos.inject("pause", "leader", limit_s=1):
        while not healed(chaos):
            time.sleep(0.05)

def test_a_transactions_coordinator_is_found_by_its_id(kafka_cluster, chaos):
    with chaos.inject("pause", "txn-coordinator:orders-1"):
        pass
    applied = next(event for event in chaos.events if event["phase"] == "applied")
    assert applied["resolved"] == [str(kafka_cluster.transaction_coordinator("orders-1"))]

def test_a_groups_coordinator_is_found_by_its_id(kafka_cluster, chaos):
    with chaos.inject("latency", "client->coordinator:billing", latency_ms=50):
        pass
    applied = next(event for event in chaos.events if event["phase"] == "applied")
    assert applied["resolved"] == [f"client-{kafka_cluster.coordinator('billing')}"]

def test_no_such_fault(chaos):
    with chaos.inject("kil", "leader"):
        raise AssertionError("the body runs")

def test_no_such_target(chaos):
    with chaos.inject("kill", "leder"):
        raise AssertionError("the body runs")

def test_no_such_link(chaos):
    with chaos.inject("latency", "client->leder"):
        raise AssertionError("the body runs")

def test_whose_transaction(chaos):
    with chaos.inject("kill", "txn-coordinator"):
        raise AssertionError("the body runs")

def test_whose_group(chaos):
    with chaos.inject("latency", "client->coordinator"):
        raise AssertionError("the body runs")

def test_no_such_broker(chaos):
    with chaos.inject("kill", "broker:9"):
        raise AssertionError("the body runs")

def test_link_for_a_broker(chaos):
    with chaos.inject("pause", "client->leader"):
        raise AssertionError("the body runs")

def test_broker_for_a_link(chaos):
    with chaos.inject("latency", "leader"):
        raise AssertionError("the body runs")

def test_number_for_a_broker(chaos):
    with chaos.inject("kill", 3):
        raise AssertionError("the body runs")

def test_no_limit(chaos):
    with chaos.inject("kill", "leader", limit_s="soon"):
        raise AssertionError("the body runs")
"""
SENTENCES = (
    "pause was healed after 1 s, before the block of chaos.inject('pause') was over: make the block shorter, or give "
    "it more time with limit_s=SECONDS",
    "chaos.inject('kil'): unknown fault 'kil'; did you mean 'kill'?",
    "chaos.inject('kill'): 'leder' is no broker target; did you mean 'leader'?",
    "chaos.inject('latency'): 'leder' is no broker target; did you mean 'leader'?",
    "chaos.inject('kill'): 'txn-coordinator' is that of a transactional.id: write txn-coordinator:TRANSACTIONAL_ID, "
    "like txn-coordinator:copier-0",
    "chaos.inject('latency'): 'coordinator' is that of a group: write coordinator:GROUP_ID, like coordinator:billing",
    "chaos.inject('kill'): there is no broker:9: the brokers are 1, 2, 3",
    "chaos.inject('pause'): 'client->leader' is a link, and this fault acts on brokers: leader, heir, ",
    "chaos.inject('latency'): 'leader' is no link, but a broker, and this fault acts on links: write client->leader ",
    "chaos.inject('kill'): target: expected a text, got 3",
    "chaos.inject('kill'): limit_s: expected seconds above 0, got 'soon'",
)


def test_a_wrong_fault_or_target_is_one_sentence_and_no_fault_outlasts_its_limit(tmp_path: Path) -> None:
    (tmp_path / "test_injected.py").write_text(INJECTED)
    done = run_pytest(tmp_path, "-rA")
    assert done.stdout.count("PASSED test_injected.py") == 2, done.stdout + done.stderr
    for sentence in SENTENCES:
        assert sentence in done.stdout, done.stdout
    assert "the body runs" not in [line.strip() for line in done.stdout.splitlines()]
    assert "E   AssertionError" not in done.stdout, "no body of a wrong fault was run"
    for theirs in ("pydantic", "ValidationError", "harness/fixtures/chaos.py", "contextlib.py"):
        assert theirs not in done.stdout, done.stdout


COMMITTED = """
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

@pytest.fixture
def written(kafka_cluster):
    settings = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    producer = Producer(settings | {"transactional.id": "orders-1"})
    producer.init_transactions(60)
    for value, ends in ((b"kept", producer.commit_transaction), (b"gone", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(kafka_cluster.topic, value)
        producer.flush(60)
        ends(60)
    plain = Producer(settings)
    for value in (b"one", b"two", b"two", b"four", b"three"):
        plain.produce(kafka_cluster.topic, value)
    assert plain.flush(60) == 0
    return kafka_cluster

def test_the_plugin_and_a_consumer_agree(written):
    consumer = Consumer({"bootstrap.servers": written.bootstrap_servers, "group.id": "g"})  # read_committed
    consumer.assign([TopicPartition(written.topic, 0, 0)])
    read = [message.value() for message in consumer.consume(6, timeout=60)]
    consumer.close()
    assert read == written.values() == [b"kept", b"one", b"two", b"two", b"four", b"three"]
    written.assert_all_read(read)
    written.assert_none_lost([b"kept", b"one"])
    written.assert_no_duplicates([b"kept", b"one", b"two", b"two", b"four", b"three"])
    written.assert_in_order([b"kept", b"one", b"two", b"four", b"three"])
    assert [str(record.status) for record in written.log()[:4]] == ["committed", "marker", "aborted", "marker"]

def test_aborted_is_not_there(written):
    written.assert_none_lost([b"kept", b"gone"])

def test_unread(written):
    written.assert_all_read([b"kept", b"one", b"two", b"four"])

def test_twice(written):
    written.assert_no_duplicates()

def test_order(written):
    written.assert_in_order([b"one", b"two", b"three", b"four"])

def test_order_of_lists(written):
    assert written.values() == [b"kept", b"one", b"two", b"two", b"three", b"four"]
"""
STORIES = (
    "1 of 2 acknowledged records lost",
    "2 of 6 records of the log were not read",
    "1 of 6 records are in the log more often than they were sent",
    "1 of 6 records are in the log behind one that was sent later",
)


def test_what_a_test_is_handed_out_is_what_a_read_committed_consumer_gets(tmp_path: Path) -> None:
    (tmp_path / "test_committed.py").write_text(COMMITTED)
    done = run_pytest(tmp_path, "-rA")
    assert "PASSED test_committed.py::test_the_plugin_and_a_consumer_agree" in done.stdout, done.stdout + done.stderr
    for story in STORIES:
        assert story in done.stdout, done.stdout
    assert done.stdout.count("FAILED test_committed.py") == 5, done.stdout
    assert "harness/fixtures/cluster.py" not in done.stdout, "the line of the test is what matters"
