"""The final read and the reading of copies end, whatever end offset a broker claims and however much it serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.wire.apis import ApiKey
from broker.wire.batch import RawBatch, iter_batches
from broker.wire.codec import RequestHeader
from broker.wire.records import encode_batch, set_base_offset
from harness.clusters.base import Address
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.probe import BrokerProbe
from harness.run.evidence import read_limits
from harness.run.evidence.copied_records import read_copies
from harness.run.evidence.final_read import read_log
from harness.run.evidence.read_limits import BoundedReader, ReadTooLongError
from runlog.files.clock import RunClock
from runlog.streams.payload import make
from tests.harness.hostile_broker import Answer, HostileBroker

GREETS = frozenset({int(ApiKey.API_VERSIONS), int(ApiKey.METADATA)})
CLAIMED = 2**62
PER_BATCH = 100
BATCH = encode_batch(
    [make(producer=1, incarnation=0, seq=seq, intended_ns=0, body=b"x") for seq in range(PER_BATCH)], timestamps_ms=0
)


def endless(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
    """A log that ends at 2^62, and every record of it there."""
    partition: dict[str, object] = {"partition_index": 0, "error_code": 0}
    if header.api_key == ApiKey.LIST_OFFSETS:
        asked = message.topics[0].partitions[0].timestamp
        offset = 0 if asked == -2 else CLAIMED
        yield broker.proper(header, message, topics=[{"name": "t", "partitions": [{**partition, "offset": offset}]}])
    elif header.api_key == ApiKey.FETCH:
        batch = bytearray(BATCH)
        set_base_offset(batch, message.topics[0].partitions[0].fetch_offset)
        partition |= {"high_watermark": CLAIMED, "last_stable_offset": CLAIMED, "records": bytes(batch)}
        yield broker.proper(header, message, responses=[{"topic": "t", "partitions": [partition]}])


@pytest.mark.thorough
def test_an_end_offset_that_nobody_wrote_is_read_within_bounds_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_limits, "RECORDS_MIN", 500)
    with HostileBroker(endless, polite=GREETS) as broker:
        address = Address(host="127.0.0.1", port=broker.port)
        plain = TopicLogReader("t", lambda _: BrokerProbe(address, timeout_s=60))
        clock = RunClock(t0_monotonic_ns=0)
        result = read_log(tmp_path, "c", reader=BoundedReader(plain, sent=10), partitions=[0], clock=clock)
        copies = read_copies(tmp_path, "c", reader=BoundedReader(plain, sent=10), partitions=[0])
    for told in (result.reason, copies.reason):
        assert "more than 700 records came of this topic, to which 10 were sent" in told
        assert f"stopped at offset 700; the leader says that the log ends at {CLAIMED}" in told
    assert (result.complete, result.records) == (False, 700)
    assert not copies.complete


class Slow:
    """Each batch takes a minute."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def start_offset(self, partition: int) -> int:
        return 0

    def end_offset(self, partition: int) -> int:
        return CLAIMED

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterator[RawBatch]:
        while True:
            self.now_s += 60
            yield next(iter_batches(bytes(BATCH)))


def test_the_time_is_bounded_for_all_partitions_together() -> None:
    slow = Slow()
    reader = BoundedReader(slow, sent=1_000_000, clock_s=lambda: slow.now_s)
    with pytest.raises(ReadTooLongError, match=r"took longer than 1100 s"):
        list(reader.batches(0, CLAIMED))
    assert slow.now_s == 1140
    for call in (reader.start_offset, reader.end_offset):
        with pytest.raises(ReadTooLongError, match="not read"):
            call(1)


def test_what_was_sent_and_retried_is_within_the_bounds() -> None:
    slow = Slow()
    reader = BoundedReader(slow, sent=1_000, clock_s=lambda: 0.0)
    batches = iter(reader.batches(0, CLAIMED))
    for _ in range(20 * 1_000 // PER_BATCH):
        next(batches)
