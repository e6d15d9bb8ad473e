"""Latency of acknowledgements at a fixed rate, by librdkafka, as a process of its own.

Usage: python -m benchmarks.latency BOOTSTRAP TOPIC --rate RECORDS_PER_S --seconds S
Open loop: every millisecond has its records. They are sent when their time has come, whatever is still unanswered.
Latency counts from that time, so a delay of the sender counts too. Prints one JSON line: {"p50_ms", "p99_ms",
"p999_ms", "records", "late_ms"}; `late_ms` is the p99 of how late the sender was.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaError, Producer

RECORD_BYTES: Final = 1024
WARM_UP_S: Final = 1.5  # connections, first batches: not counted
DRAIN_S: Final = 30.0


def run(bootstrap: str, topic: str, *, rate: int, seconds: float, batch_bytes: int, acks: str) -> dict[str, float]:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "message.timeout.ms": int(DRAIN_S * 1000),
            "enable.idempotence": False,
            "compression.type": "none",
        }
    )
    value = os.urandom(RECORD_BYTES)
    latencies_ms: list[float] = []
    late_ms: list[float] = []
    failures: list[str] = []

    def make_callback(due_s: float, is_counted: bool) -> Callable[[KafkaError | None, object], None]:
        def on_delivery(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                failures.append(str(error))
            elif is_counted:
                latencies_ms.append((time.monotonic() - due_s) * 1000)

        return on_delivery

    gc.disable()  # nothing here makes cycles; a collection would count as latency
    began_s = time.monotonic() + 0.2
    sent, tick = 0, 0
    while True:
        due_s = began_s + tick / 1000
        if due_s - began_s > WARM_UP_S + seconds:
            break
        while (left_s := due_s - time.monotonic()) > 0:
            producer.poll(left_s)  # delivers callbacks as they come; ends early when there were some
        is_counted = due_s - began_s > WARM_UP_S
        callback = make_callback(due_s, is_counted)
        wanted = (tick + 1) * rate // 1000
        for _ in range(wanted - sent):
            producer.produce(topic, value, partition=0, on_delivery=callback)
        sent = wanted
        if is_counted:
            late_ms.append((time.monotonic() - due_s) * 1000)
        tick += 1
    left = producer.flush(DRAIN_S)
    if left or failures:
        raise RuntimeError(f"{topic}: {left} of {sent} records without an answer; first error {failures[:1]}")
    p50, p99, p999 = (quantile(latencies_ms, share) for share in (0.5, 0.99, 0.999))
    return {
        "p50_ms": p50,
        "p99_ms": p99,
        "p999_ms": p999,
        "records": len(latencies_ms),
        "late_ms": quantile(late_ms, 0.99),
    }


def quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank: a value that was measured."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--rate", type=int, required=True, help="records a second")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--batch-bytes", type=int, default=131_072)
    parser.add_argument("--acks", default="all")
    options = parser.parse_args()
    found = run(
        options.bootstrap,
        options.topic,
        rate=options.rate,
        seconds=options.seconds,
        batch_bytes=options.batch_bytes,
        acks=options.acks,
    )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
