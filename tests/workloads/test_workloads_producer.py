"""A producer's own account: what it did not hand over, and whether the client had no room for it or it was too slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runlog.streams.payload import parse_fast
from runlog.streams.schema import SEND, SendStatus
from runlog.streams.segment import read_segments
from workloads import producer
from workloads.clients.protocol import RecordBatch
from workloads.context import LoadContext, Phases
from workloads.model import Plan
from workloads.outcomes import OutcomeLog

RECORDS = 40  # 2,000 a second for 20 ms


class FakeClock:
    """Stands in for the module `time`: it goes on only while somebody waits or works."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class FakeClient:
    """Takes so many records and no more, each after so long."""

    def __init__(self, clock: FakeClock, *, room: int, send_ns: int = 0) -> None:
        self._clock, self._room, self._send_ns = clock, room, send_ns

    def connect(self, timeout_s: float) -> None:
        """There is nothing to connect to."""

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        self._clock.now_ns += self._send_ns
        self._room -= 1
        return self._room >= 0

    def poll(self, timeout_s: float) -> None:
        self._clock.now_ns += round(timeout_s * 1e9)

    def close(self, timeout_s: float) -> None:
        """Nothing was opened."""

    def metrics(self) -> dict[str, float]:
        return {}

    def effective(self) -> dict[str, str]:
        return {}


class BatchClient(FakeClient):
    """The same in batches, of at most 7 records. It tells each outcome when it is asked for them."""

    takes_batches = True

    def __init__(self, clock: FakeClock, *, room: int, send_ns: int = 0) -> None:
        super().__init__(clock, room=room, send_ns=send_ns)
        self.batches: list[RecordBatch] = []
        self.sink: OutcomeLog | None = None
        self._untold: list[int] = []

    def room(self) -> int:
        return min(7, self._room)

    def send_batch(self, batch: RecordBatch) -> None:
        assert 0 < len(batch) <= self.room()
        self._room -= len(batch)
        self.batches.append(batch)
        self._untold += batch.seqs.tolist()

    def poll(self, timeout_s: float) -> None:
        super().poll(timeout_s)
        if self._untold:
            assert self.sink is not None
            self.sink.many(self._untold, SendStatus.ACKED, 0, 0, self._untold[0])
            self._untold = []


def finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, room: int, send_ns: int = 0, **workload: Any
) -> producer.ProducerUserLoop:
    clock = FakeClock()
    return finished_with(FakeClient(clock, room=room, send_ns=send_ns), clock, tmp_path, monkeypatch, **workload)


def finished_with(
    client: FakeClient, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **workload: Any
) -> producer.ProducerUserLoop:
    def make_producer(name: str, setup: object, sink: OutcomeLog) -> FakeClient:
        if isinstance(client, BatchClient):
            client.sink = sink
        return client

    monkeypatch.setattr(producer, "make_producer", make_producer)
    monkeypatch.setattr(producer, "time", clock)
    plan = Plan.model_validate(
        {
            "run_dir": tmp_path, "cell_id": "c", "t0_monotonic_ns": clock.now_ns, "client": "reference",
            "bootstrap_servers": "nowhere:1", "topic": "t", "partitions": 1,
            "workload": {
                "rate_per_s": 2_000, "warmup_ms": 0, "measure_ms": 20, "drain_ms": 20, "record_size_bytes": 100,
                **workload,
            },
        }
    )  # fmt: skip
    context = LoadContext(plan)
    loop = producer.ProducerUserLoop(context)
    context.begin(Phases.of(plan, clock.now_ns))
    loop.run()
    assert context.errors == []
    return loop


@pytest.mark.thorough
def test_what_a_full_client_refused_until_the_drain_ended_is_unsent_for_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client never takes anything again, so that `backpressure_sends`, which counts sends, tells of none of it."""
    loop = finished(tmp_path, monkeypatch, room=15)
    assert (loop.handed, loop.unsent, loop.unsent_for_space) == (15, RECORDS - 15, RECORDS - 15)
    assert loop.backpressure_sends == 0


@pytest.mark.thorough
def test_what_a_slow_generator_left_is_not_unsent_for_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = finished(tmp_path, monkeypatch, room=RECORDS, send_ns=8_000_000)
    assert 0 < loop.unsent < RECORDS
    assert loop.unsent_for_space == 0


@pytest.mark.thorough
def test_a_load_that_was_taken_whole_left_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = finished(tmp_path, monkeypatch, room=RECORDS)
    assert (loop.handed, loop.unsent, loop.unsent_for_space) == (RECORDS, 0, 0)


@pytest.mark.thorough
def test_a_closed_loop_owes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = finished(tmp_path, monkeypatch, room=15, schedule={"kind": "closed", "outstanding": 20})
    assert (loop.handed, loop.unsent, loop.unsent_for_space) == (15, 0, 0)


@pytest.mark.thorough
def test_a_client_that_takes_batches_gets_the_same_records_and_each_has_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    client = BatchClient(clock, room=RECORDS)
    loop = finished_with(client, clock, tmp_path, monkeypatch)
    assert (loop.handed, loop.unsent) == (RECORDS, 0)
    values = b"".join(batch.values.tobytes() for batch in client.batches)
    heads = [parse_fast(values[first : first + 100]) for first in range(0, len(values), 100)]
    t0_ns = loop._t0_ns
    assert heads == [(0, 0, seq, t0_ns + seq * 500_000, True) for seq in range(RECORDS)]
    rows = np.concatenate([each.rows for each in read_segments(loop._context.live, SEND)])
    assert rows["seq"].tolist() == list(range(RECORDS))
    assert rows["intended_us"].tolist() == [seq * 500 for seq in range(RECORDS)]


@pytest.mark.thorough
def test_a_client_that_takes_batches_and_is_full_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    loop = finished_with(BatchClient(clock, room=15), clock, tmp_path, monkeypatch)
    assert (loop.handed, loop.unsent, loop.unsent_for_space) == (15, RECORDS - 15, RECORDS - 15)
