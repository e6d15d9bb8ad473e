"""What many partitions cost the reference brokers: `python -m benchmarks.many_partitions [--partitions N]`.

Three brokers, replication factor 3, acks=all, nobody else: CPU while nothing is written, then the load of brokers.py
for 1,000 partitions. Prints one Markdown row; run it in two checkouts in turns to compare them. brokers.py has Apache
Kafka beside it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.host_facts import host_facts
from benchmarks.samples import LOADS, THREE, Load
from benchmarks.subject import Subject

IDLE_S: Final = 3.0
SETTLE_S: Final = 1.0  # a new topic's leaders and followers have met by then
BATCH_BYTES: Final = 16_384
LOAD: Final = next(load for load in LOADS if load.section == "partitions")


def one_round(subject: Subject, load: Load, load_bytes: int) -> tuple[float, float, float]:
    """(idle CPU ms a second, MB/s, broker CPU s a GB)."""
    topic = subject.create_topic(load.partitions, load.topic_config)
    time.sleep(SETTLE_S)
    before_s = subject.cpu_s()
    time.sleep(IDLE_S)
    idle = (subject.cpu_s() - before_s) * 1000 / IDLE_S
    subject.back_memory(load_bytes)
    found = subject.load(load, "produce", topic, load_bytes, BATCH_BYTES)
    subject.delete_topic(topic)
    print(
        f"idle {idle:.0f} ms/s, {found.mb_per_s:.1f} MB/s, {found.broker_cpu_s_per_gb:.1f} CPU s/GB",
        file=sys.stderr,
        flush=True,
    )
    return idle, found.mb_per_s, found.broker_cpu_s_per_gb


def spread(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--partitions", type=int, default=LOAD.partitions)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=32_000_000, help="of record values a round")
    options = parser.parse_args()
    load = replace(LOAD, partitions=options.partitions)
    with tempfile.TemporaryDirectory(prefix="kafka-harness-bench-") as name:
        commit = host_facts(Path(name)).get("reference broker", "?")
        with Subject("reference", THREE, Path(name) / "cluster") as subject:
            rounds = [one_round(subject, load, options.bytes) for _ in range(options.rounds)]
    idle, rate, cpu = (list(each) for each in zip(*rounds, strict=True))
    print("| reference broker | partitions | idle CPU ms/s | MB/s | CPU s/GB |\n|---|---|---|---|---|")
    print(f"| {commit} | {options.partitions} | {spread(idle, 0)} | {spread(rate, 1)} | {spread(cpu, 1)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
