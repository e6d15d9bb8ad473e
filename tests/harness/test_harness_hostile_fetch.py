"""Batches that nobody should unpack. They are served to the reference consumer, the final read, the reading of copies
and the pytest plugin's `records`. Each ends with an error that names topic-partition and offset, in time, with little
memory."""

from __future__ import annotations

import resource
import types
from pathlib import Path
from typing import Any, Final

import pytest

from broker.door.clients import Consumer, KafkaError, TopicPartition
from broker.wire.apis import ApiKey
from broker.wire.codec import RequestHeader
from broker.wire.compression import compress
from broker.wire.records import FETCHED_BYTES_MAX, FETCHED_RECORDS_MAX, CodecId, encode_batch, set_base_offset
from harness.clusters.base import Address
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.probe import BrokerProbe
from harness.errors import EnvironmentFault
from harness.fixtures import KafkaCluster
from harness.run.evidence.copied_records import read_copies
from harness.run.evidence.final_read import read_log
from runlog.files.clock import RunClock
from tests.broker_wire.test_wire_fetched import BARE, raw
from tests.harness.hostile_broker import Answer, HostileBroker, Manner

GREETS: Final = frozenset({int(ApiKey.API_VERSIONS), int(ApiKey.METADATA)})
END: Final = 41
MORE_MEMORY_MAX: Final = 400 << 20  # a bomb's bound, twice while it is copied, and what the allocator keeps
BOMB: Final = compress(CodecId.ZSTD, bytes(FETCHED_BYTES_MAX + 1))


def serves(records: bytes) -> Manner:
    """A log of one partition from offset 40 to 41."""

    def manner(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        partition: dict[str, object] = {"partition_index": 0, "error_code": 0}
        if header.api_key == ApiKey.LIST_OFFSETS:
            offset = 40 if message.topics[0].partitions[0].timestamp == -2 else END
            yield broker.proper(
                header, message, topics=[{"name": "t", "partitions": [{**partition, "offset": offset}]}]
            )
        elif header.api_key == ApiKey.FETCH:
            partition |= {"high_watermark": END, "last_stable_offset": END, "log_start_offset": 40, "records": records}
            yield broker.proper(header, message, responses=[{"topic": "t", "partitions": [partition]}])

    return manner


BATCHES: Final[dict[str, bytes]] = {
    "bomb": raw(BOMB, codec=CodecId.ZSTD),
    "many records": raw(b"", count=FETCHED_RECORDS_MAX + 1),
    "no frame": raw(b"\xff" * 30, codec=CodecId.LZ4),
    "cut": raw(compress(CodecId.GZIP, BARE)[:-3], codec=CodecId.GZIP),
    "no codec": raw(BARE, codec=6),
    "no log": raw(BARE, base=2**63 - 1),
    "no header": b"\x00" * 70,
    "no control record": raw(b"\x07", count=0, last_delta=0, flags=0x20),
}


@pytest.fixture
def in_little_memory() -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before < MORE_MEMORY_MAX


@pytest.mark.usefixtures("in_little_memory")
@pytest.mark.parametrize("name", BATCHES)
def test_readers_name_the_partition_and_the_offset(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.requests.log_reader._STALL_TIMEOUT_S", 1.0)
    with HostileBroker(serves(BATCHES[name]), polite=GREETS) as broker:
        address = Address(host="127.0.0.1", port=broker.port)
        reader = TopicLogReader("t", lambda partition: BrokerProbe(address, timeout_s=2))
        clock = RunClock(t0_monotonic_ns=0)
        if name != "no control record":  # the final read skips markers
            found = read_log(tmp_path, "a", reader=reader, partitions=[0], clock=clock)
            assert not found.complete
            assert "partition 0: " in found.reason
            assert "offset" in found.reason
        copies = read_copies(tmp_path, "a", reader=reader, partitions=[0])
        assert not copies.complete
        assert "partition 0: " in copies.reason
        state = types.SimpleNamespace(partitions={0: None})
        processes = types.SimpleNamespace(state=lambda topic: state, probe_of_leader=lambda *_: BrokerProbe(address))
        cluster = object.__new__(KafkaCluster)  # without processes: only its address matters here
        cluster.processes, cluster.topic = processes, "t"  # type: ignore[assignment]
        monkeypatch.setattr(KafkaCluster, "wait_healthy", lambda self: None)
        with pytest.raises(EnvironmentFault, match=r"the log of t-0 cannot be read: .*offset"):
            cluster.records()


@pytest.mark.usefixtures("in_little_memory")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", [name for name in BATCHES if name != "no control record"])
def test_the_consumer_names_the_partition_and_the_offset(name: str, isolation: str) -> None:
    with HostileBroker(serves(BATCHES[name]), polite=GREETS) as broker:
        consumer = consumer_of(broker, isolation)
        with pytest.raises(KafkaError, match=r"CORRUPT_MESSAGE: t-0 at offset 40: "):
            for _ in range(50):
                consumer.poll(100)
        consumer.close()


def consumer_of(broker: HostileBroker, isolation: str = "read_uncommitted") -> Consumer:
    settings = {"auto.offset.reset": "earliest", "isolation.level": isolation, "default.api.timeout.ms": "2000"}
    consumer = Consumer({"bootstrap.servers": broker.address, **settings})
    consumer.assign([TopicPartition("t", 0)])
    return consumer


@pytest.mark.usefixtures("in_little_memory")
@pytest.mark.thorough
def test_many_small_batches_that_unpack_to_much_are_taken_one_after_the_other() -> None:
    """Each is within its bound, and forty of them would take 1.5 GB."""
    value = bytes(FETCHED_BYTES_MAX * 3 // 5)
    batch = bytearray(encode_batch([value], timestamps_ms=0, codec=CodecId.ZSTD))
    batches = []
    for offset in range(40, 80):
        set_base_offset(batch, offset)
        batches.append(bytes(batch))
    records = b"".join(batches)
    with HostileBroker(serves(records), polite=GREETS) as broker:
        consumer = consumer_of(broker)
        found: list[int] = []
        while len(found) < 3:
            found += [record.offset for record in consumer.poll(1000)]
        consumer.close()
    assert found[:3] == [40, 41, 42]
