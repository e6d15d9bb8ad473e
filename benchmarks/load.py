"""One produce or consume load by librdkafka, in a process of its own, so its CPU is not that of the measuring process.

Usage: python benchmarks/load.py produce|consume BOOTSTRAP TOPIC BYTES BATCH_BYTES ACKS
Prints one JSON line: {"mb_per_s", "seconds", "records", "cpu_s"}. 1 MB is 10^6 bytes of record values.
"""

from __future__ import annotations

import json
import os
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

RECORD_BYTES = 1024
DEADLINE_S = 120.0


def produce(bootstrap: str, topic: str, total_bytes: int, batch_bytes: int, acks: str) -> tuple[int, float]:
    """Sends `total_bytes` of 1 KiB records to partition 0; returns their number and the seconds, or raises."""
    acked = 0
    failed: list[str] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        nonlocal acked
        if error is None:
            acked += 1
        else:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 5,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            # Bounded to 64 MB: a larger queue pays for first-touch page faults and measures memory, not the broker.
            "queue.buffering.max.kbytes": 65_536,
            "message.timeout.ms": int(DEADLINE_S * 1000),
            "enable.idempotence": False,
            "compression.type": "none",
        }
    )
    value = os.urandom(RECORD_BYTES)
    began_s = time.monotonic()
    records = total_bytes // RECORD_BYTES
    for index in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        if index & 1023 == 0:
            producer.poll(0)
    producer.flush(DEADLINE_S)
    seconds = time.monotonic() - began_s
    if failed or acked != records:
        raise RuntimeError(
            f"produce to {topic}: expected {records} acknowledged, got {acked}; first error {failed[:1]}"
        )
    return records, seconds


def consume(bootstrap: str, topic: str, total_bytes: int) -> tuple[int, float]:
    """Reads `total_bytes` of 1 KiB records from the start of partition 0; returns number and seconds, or raises.

    Both count from after the first records to the last: joining the cluster and closing take a second that is the
    same for every broker, and would make them look alike.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{os.getpid()}",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1_048_576,
            "queued.max.messages.kbytes": 65_536,
            "check.crcs": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    expected, got, deadline = total_bytes // RECORD_BYTES, 0, time.monotonic() + DEADLINE_S
    first_s, at_first = 0.0, 0
    while got < expected:
        if time.monotonic() > deadline:
            raise RuntimeError(f"consume from {topic}: expected {expected} records, got {got} in {DEADLINE_S:.0f} s")
        # Never more than are left: consume() waits for the full number until its timeout. The topic's offsets are
        # dense, so the last one tells that none before it was an error or missing, at no cost for each record.
        messages = consumer.consume(num_messages=min(1_000, expected - got), timeout=1.0)
        if not messages:
            continue
        got += len(messages)
        if messages[-1].error() is not None or messages[-1].offset() != got - 1:
            raise RuntimeError(f"consume from {topic}: expected offset {got - 1}, got {messages[-1].error()}"
                               f" or {messages[-1].offset()}")  # fmt: skip
        if not at_first:
            first_s, at_first = time.monotonic(), got
    seconds = time.monotonic() - first_s
    consumer.close()
    return got - at_first, seconds


def main() -> None:
    mode, bootstrap, topic, total_bytes, batch_bytes, acks = sys.argv[1:7]
    if mode == "produce":
        records, seconds = produce(bootstrap, topic, int(total_bytes), int(batch_bytes), acks)
    else:
        records, seconds = consume(bootstrap, topic, int(total_bytes))
    usage = os.times()
    print(
        json.dumps(
            {
                "mb_per_s": round(records * RECORD_BYTES / 1e6 / seconds, 1),
                "seconds": round(seconds, 3),
                "records": records,
                "cpu_s": round(usage.user + usage.system, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
