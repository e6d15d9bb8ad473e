"""Reference producer against confluent-kafka from Python: same brokers, same settings, same run, taken in turns.

Prints the median rate of each and the median of the paired ratios, and fails if a record was not acknowledged.
Without --bootstrap it starts librdkafka's mock cluster in a process of its own (it writes nothing to disk).

    python -m benchmarks.client_produce --rounds 5 --sizes 100,1024
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import confluent_kafka

from broker.door.clients import Producer

SIZES = (100, 1024)
BYTES_A_ROUND = 200_000_000
RECORDS_A_ROUND_MAX = 600_000


def serve_mock(pipe: Connection) -> None:
    """A mock cluster of three brokers until the pipe is closed."""
    owner = confluent_kafka.Producer({"bootstrap.servers": "mock:1", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    pipe.send(",".join(f"{each.host}:{each.port}" for each in brokers))
    with contextlib.suppress(EOFError):
        pipe.recv()


def settings(bootstrap: str, batch_size: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "acks": "1",
        "enable.idempotence": "false",
        "linger.ms": "5",
        "batch.size": str(batch_size),
        "compression.type": "none",
    }


def run_reference(bootstrap: str, batch_size: int, topic: str, values: list[bytes], *, callbacks: bool) -> float:
    producer = Producer(settings(bootstrap, batch_size))
    producer.partitions_for(topic)
    acked = [0]

    def on_delivery(metadata: object, error: object) -> None:
        acked[0] += error is None

    callback = on_delivery if callbacks else None
    send = producer.send
    began_s = time.perf_counter()
    for value in values:
        send(topic, value, on_delivery=callback)
    unsent = producer.flush(60)
    seconds = time.perf_counter() - began_s
    metrics = producer.metrics()
    producer.close(5)
    assert unsent == 0
    assert metrics["record-send-total"] == len(values)
    assert metrics["record-error-total"] == 0
    assert acked[0] == (len(values) if callbacks else 0)
    return len(values) / seconds


def run_confluent(bootstrap: str, batch_size: int, topic: str, values: list[bytes], *, callbacks: bool) -> float:
    options = settings(bootstrap, batch_size) | {"queue.buffering.max.kbytes": 32768, "log_level": 0}
    producer = confluent_kafka.Producer(options)
    producer.list_topics(topic, timeout=10)
    acked = [0]

    def on_delivery(error: object, message: object) -> None:
        acked[0] += error is None

    callback = on_delivery if callbacks else None
    began_s = time.perf_counter()
    for index, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, on_delivery=callback)
                break
            except BufferError:
                producer.poll(0.01)
        if not index & 1023:
            producer.poll(0)
    unsent = producer.flush(60)
    seconds = time.perf_counter() - began_s
    assert unsent == 0
    assert acked[0] == (len(values) if callbacks else 0)
    return len(values) / seconds


def compare(
    bootstrap: str, size: int, batch_size: int, rounds: int, *, callbacks: bool
) -> tuple[list[float], list[float]]:
    """Records/s of the reference producer and of confluent-kafka, round by round. The first round only warms up."""
    count = min(BYTES_A_ROUND // size, RECORDS_A_ROUND_MAX)
    values = [b"v" * size] * count
    runs: tuple[Callable[..., float], Callable[..., float]] = (run_reference, run_confluent)
    ours: list[float] = []
    theirs: list[float] = []
    for index in range(rounds + 1):
        order = runs if index % 2 else runs[::-1]
        found = {run: run(bootstrap, batch_size, f"bench-{size}", values, callbacks=callbacks) for run in order}
        if index:
            ours.append(found[run_reference])
            theirs.append(found[run_confluent])
    return ours, theirs


def measure(
    *, rounds: int, sizes: Sequence[int] = SIZES, batch_size: int = 131_072, bootstrap: str | None = None
) -> Iterator[tuple[int, bool, list[float], list[float]]]:
    """(record size, with callbacks, reference records/s, confluent records/s) for each, as they are done."""
    ours, theirs = multiprocessing.Pipe()
    mock = None
    if bootstrap is None:
        mock = multiprocessing.get_context("spawn").Process(target=serve_mock, args=(theirs,), daemon=True)
        mock.start()
        bootstrap = ours.recv()
    try:
        for size in sizes:
            for callbacks in (False, True):
                yield size, callbacks, *compare(bootstrap, size, batch_size, rounds, callbacks=callbacks)
    finally:
        if mock is not None:
            mock.terminate()
            mock.join(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", help="brokers to use instead of the mock cluster")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="100,1024")
    parser.add_argument("--batch-size", type=int, default=131072)
    arguments = parser.parse_args()
    print(f"{'size':>6} {'callbacks':>9} {'reference/s':>12} {'confluent/s':>12} {'ratio':>6}")
    sizes = [int(text) for text in arguments.sizes.split(",")]
    for size, callbacks, ours, theirs in measure(
        rounds=arguments.rounds, sizes=sizes, batch_size=arguments.batch_size, bootstrap=arguments.bootstrap
    ):
        ratio = statistics.median(first / second for first, second in zip(ours, theirs, strict=True))
        medians = (statistics.median(ours), statistics.median(theirs))
        print(f"{size:>6} {callbacks!s:>9} {medians[0]:>12,.0f} {medians[1]:>12,.0f} {ratio:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
