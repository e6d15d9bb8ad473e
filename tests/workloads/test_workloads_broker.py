"""Loads of every shape against one real reference broker: clients, topics, readers, times of appending, closed loop."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from runlog.files.paths import events_path
from runlog.streams.compact import compact_cell
from runlog.streams.schema import RECV, SEND, SendStatus
from tests.json_lines import read_jsonl
from tests.workloads.load_process import PARTITIONS, Event, Load
from tests.workloads.reference_broker import ReferenceBroker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    groups = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "4"}
    running = ReferenceBroker(tmp_path_factory.mktemp("broker"), {**groups, "group.initial.rebalance.delay.ms": "0"})
    yield running
    running.stop()


def _check_every_record(load: Load, expected: int) -> list[Event]:
    """Acked once at a place of its own, read once there by each reader; returns the sends."""
    assert load.finish() == 0, load.events[-3:]
    compact_cell(load.run_dir, "c1")
    sent = load.rows(SEND.name)
    assert len(sent) == expected
    assert {row["status"] for row in sent} == {SendStatus.ACKED}
    places = {(row["partition"], row["offset"], row["producer"], row["seq"]) for row in sent}
    assert len(places) == len({place[:2] for place in places}) == expected
    by_reader = defaultdict(list)
    for row in load.rows(RECV.name):
        assert row["crc_ok"] == 1
        by_reader[row["reader"]].append((row["partition"], row["offset"], row["producer"], row["seq"]))
    assert by_reader
    for found in by_reader.values():
        assert sorted(found) == sorted(places)
    return sent


@pytest.mark.parametrize("client", ["kafka_python", pytest.param("aiokafka", marks=pytest.mark.long)])
def test_every_record_of_a_python_client_is_acked_logged_once_and_read(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic = f"t-{client.replace('_', '-')}"
    broker.create_topics(topic)
    workload = {"rate_per_s": 1_000, "record_size_bytes": 200, "consumers": 1, "keys": "uniform"}
    times = {"warmup_ms": 200, "measure_ms": 800, "drain_ms": 60_000}
    load = Load(tmp_path, broker.address, {**workload, **times}, client=client, topic=topic)
    sent = _check_every_record(load, 1_000)
    assert all(row["intended_us"] <= row["sent_us"] <= row["acked_us"] for row in sent)
    effective = load.done["effective"]["client"]
    assert effective["linger.ms"] == "2"
    assert client.replace("_", "-") in effective["client.library"]


@pytest.mark.parametrize("client", [pytest.param("reference", marks=pytest.mark.long), "confluent"])
def test_a_client_counts_what_each_record_waited_before_it_was_sent(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic = f"waits-{client}"
    broker.create_topics(topic)
    workload = {"rate_per_s": 500, "record_size_bytes": 100, "consumers": 1}
    # librdkafka tells every second, and on a busy host a second later what it counted before.
    times = {"warmup_ms": 0, "measure_ms": 4_000, "drain_ms": 60_000}
    # No batch becomes full, also when a busy host hands over many records at once: a full one waits for nothing.
    properties = {"linger.ms": 40, "batch.size": 1_000_000}
    load = Load(tmp_path, broker.address, {**workload, **times}, properties, client=client, topic=topic)
    sent = _check_every_record(load, 2_000)
    stats = [
        line["values"]["0"] for line in read_jsonl(events_path(tmp_path, "c1", "stats")) if line["name"] == "client"
    ]
    count, waited_ms = stats[-1]["record-accumulate-total"], stats[-1]["record-accumulate-time-total"]
    assert 500 < count <= 2_000, "librdkafka tells every second or so"
    # Records come evenly: the first of a batch waits all of linger.ms, the last nothing. A busy host makes them wait
    # longer, but no record waits longer to be sent than until its acknowledgement.
    assert waited_ms / count > 10
    assert waited_ms <= sum(row["acked_us"] - row["sent_us"] for row in sent) / 1_000 + len(sent)


def test_topics_readers_sizes_keys_bursts_and_append_times(tmp_path: Path, broker: ReferenceBroker) -> None:
    broker.create_topics("many", "many-t1", config={"message.timestamp.type": "LogAppendTime"})
    readers = [
        {"name": "tail", "consumers": 2},
        {"name": "slow", "processing_us": 200},
        {"name": "catch-up", "start_after_ms": 2_000},
    ]
    workload = {
        "rate_per_s": 2_000, "producers": 2, "topics": 2, "readers": readers, "keys": "zipf", "records_per_burst": 10,
        "sizes": {"kind": "lognormal", "median_bytes": 300, "sigma": 0.8, "high_bytes": 5_000},
        "warmup_ms": 200, "measure_ms": 2_300, "drain_ms": 60_000,
    }  # fmt: skip
    load = Load(tmp_path, broker.address, workload, topic="many", log_append_time=True)
    sent = _check_every_record(load, 5_000)
    assert {row["partition"] for row in sent} == set(range(2 * PARTITIONS))
    assert all(row["partition"] // PARTITIONS == (row["seq"] + row["producer"]) % 2 for row in sent)
    assert len({row["size_bytes"] for row in sent}) > 100
    bursts = Counter((row["producer"], row["intended_us"]) for row in sent)
    assert set(bursts.values()) == {10}
    # The broker's stamp is the whole millisecond before it.
    assert all(row["sent_us"] - 1_000 <= row["appended_us"] <= row["acked_us"] for row in sent)
    received = load.rows(RECV.name)
    appended = {(row["partition"], row["offset"]): row["appended_us"] for row in sent}
    for row in received:
        # Producer and consumer compare the clocks each for itself, which a busy host interrupts.
        assert abs(row["appended_us"] - appended[row["partition"], row["offset"]]) <= 1_000
        assert row["appended_us"] <= row["polled_us"]
    first_polls = {reader: min(row["polled_us"] for row in received if row["reader"] == reader) for reader in range(3)}
    measure_us = load.phase_us("measure")
    assert max(first_polls[0], first_polls[1]) < measure_us + 2_000_000
    assert first_polls[2] >= measure_us + 2_000_000
    consumers = {row["consumer"]: row["reader"] for row in received}
    assert consumers == {0: 0, 1: 0, 2: 1, 3: 2}


def test_a_closed_loop_keeps_its_bound_and_intends_no_earlier_than_it_sends(
    tmp_path: Path, broker: ReferenceBroker
) -> None:
    broker.create_topics("closed")
    workload = {
        "rate_per_s": 1_000_000, "schedule": {"kind": "closed", "outstanding": 8}, "consumers": 1,
        "warmup_ms": 100, "measure_ms": 1_500, "drain_ms": 60_000,
    }  # fmt: skip
    load = Load(tmp_path, broker.address, workload, {"linger.ms": 0}, topic="closed")
    assert load.finish() == 0, load.events[-3:]
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert 8 < len(sent) < 500_000, "more than a loop may have under way"
    assert all(row["intended_us"] == row["sent_us"] for row in sent)
    changes = sorted([(row["sent_us"], 1) for row in sent] + [(row["acked_us"], -1) for row in sent])
    under_way = most = 0
    for _t_us, change in changes:
        under_way += change
        most = max(most, under_way)
    assert most <= 8
    assert load.done["health"]["unsent"] == 0


@pytest.mark.parametrize("client", [pytest.param("confluent", marks=pytest.mark.long), "reference"])
def test_members_of_a_consumer_group_share_what_a_second_reader_reads_alone(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic = f"group-{client}"
    broker.create_topics(topic)
    workers = {"name": "workers", "consumers": 2, "mode": "group", "deduplicate": "table"}
    workload = {
        "rate_per_s": 500, "readers": [workers, {"name": "tail"}],
        "warmup_ms": 500, "measure_ms": 2_500, "drain_ms": 60_000,
    }  # fmt: skip
    load = Load(tmp_path, broker.address, workload, topic=topic, client=client)
    assert load.finish() == 0, load.events[-3:]
    compact_cell(tmp_path, "c1")
    found = defaultdict(set)
    for row in load.rows(RECV.name):
        found[row["reader"]].add(row["seq"])
    # A rebalance may deliver a record again; none may be missing.
    assert found == {0: set(range(1_500)), 1: set(range(1_500))}
    assert {row["consumer"] for row in load.rows(RECV.name) if row["reader"] == 1} == {2}
    generations = {row["generation"] for row in load.rows(RECV.name) if row["reader"] == 0}
    assert min(generations) > 0 if client == "reference" else generations == {-1}  # librdkafka does not tell it
    health = load.done["health"]
    rows = sum(row["reader"] == 0 for row in load.rows(RECV.name))
    assert health["redelivery_workers_records"] == rows
    assert health["redelivery_workers_duplicates_before"] == rows - 1_500
    assert health["redelivery_workers_duplicates_after"] == 0
    assert health["redelivery_workers_handed_on"] == 1_500
