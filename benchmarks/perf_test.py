"""Our engine beside `kafka-producer-perf-test` on the same cluster in the same run, and why their figures differ.

    python -m benchmarks.perf_test [--cluster kafka|reference] [--clients java,confluent] [--rates 2000,20000,max]

Each round sends the same number of records of the same size with the same settings at the same rate, once by Apache
Kafka's own tool and once by each of our clients, in another order each round, each into a fresh topic after the same
warm-up. Ours is told three times: from the intended time, from the hand-over, and as the tool counts (hand-over to
callback, in whole milliseconds). Writes results/<date>-perf-test.json and .md. What differs and why: README.md here.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.host_facts import host_facts
from benchmarks.perf_test_figures import (
    AS_FAST_AS_IT_GOES,
    PARTITIONS,
    PROPERTIES,
    TOOL,
    Document,
    Figures,
    PerfTestError,
    count,
    parse,
    render,
)
from harness.clusters.admin import Admin
from harness.clusters.base import ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import ensure_jars, java_command
from harness.clusters.own_topics import OwnTopics
from harness.clusters.process_cluster import ProcessCluster
from harness.errors import CellError, EnvironmentFault
from harness.run import warm_up
from harness.run.client_runtime import client_runtime
from harness.run.workload_process import WorkloadProcess
from runlog.streams.compact import compact_cell
from runlog.streams.parquet import read_stream
from runlog.streams.schema import SEND

RESULTS: Final = Path(__file__).with_name("results")
TOOL_CLASS: Final = "org.apache.kafka.tools.ProducerPerformance"
ENGINES: Final[dict[str, Engine]] = {"kafka": "kafka", "reference": "reference"}
DRAIN_MS: Final = 10_000
OVERTIME_S: Final = 60.0
OUTSTANDING: Final = 32_768  # of our closed loop where the tool sends as fast as it can
WARM_UP_RATE_PER_S: Final = 20_000  # where nothing is measured at a rate
MAX_GUESS_PER_S: Final = 60_000  # so many records a second are sent by the tool where no rate is asked for


def perf_test_command(
    java: str, jars: Path, *, bootstrap: str, topic: str, rate_per_s: int, warmup_s: float, seconds: float,
    record_bytes: int,
) -> list[str]:  # fmt: skip
    per_s = rate_per_s or MAX_GUESS_PER_S
    warmup = round(per_s * warmup_s)
    return [
        java, "-Xms256m", "-Xmx512m", "-cp", f"{jars}/*", TOOL_CLASS,
        "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(warmup + round(per_s * seconds)),
        "--warmup-records", str(warmup), "--record-size", str(record_bytes), "--throughput", str(rate_per_s or -1),
        "--command-property", *(f"{name}={value}" for name, value in PROPERTIES.items()),
    ]  # fmt: skip


def run_perf_test(command: Sequence[str], *, timeout_s: float, rate_per_s: int, number: int) -> Figures:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise PerfTestError(f"{TOOL} did not end within {timeout_s:.0f} s") from error
    if done.returncode:
        raise PerfTestError(f"{TOOL} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return parse(done.stdout, rate_per_s=rate_per_s, number=number)


def plan_of(
    directory: Path, *, client: str, bootstrap: str, topic: str, workload: dict[str, Any], seed: int
) -> dict[str, Any]:
    return {
        "run_dir": str(directory), "cell_id": topic, "t0_monotonic_ns": time.monotonic_ns(), "client": client,
        "bootstrap_servers": bootstrap, "topic": topic, "partitions": PARTITIONS, "properties": PROPERTIES,
        "workload": workload, "seed": seed, "runtime": client_runtime(client),
    }  # fmt: skip


def warm(cluster: ProcessCluster, directory: Path, rates: Sequence[int], client: str, record_bytes: int) -> str:
    """Load until the brokers' CPU time per record no longer falls, at the highest rate that is measured."""
    workload = {
        "rate_per_s": max(rates) or WARM_UP_RATE_PER_S, "record_size_bytes": record_bytes, "compressibility": 0.4,
        "warmup_ms": 0, "measure_ms": warm_up.ROUND_MS, "drain_ms": warm_up.DRAIN_MS,
        "schedule": {"kind": "constant"},
    }  # fmt: skip
    place = directory / "warm-up"
    names: dict[str, Any] = {"client": client, "bootstrap": cluster.bootstrap_servers, "topic": warm_up.TOPIC}
    plan = plan_of(place, workload=workload, seed=0, **names) | {"cell_id": warm_up.CELL_ID}
    return warm_up.warm_up(
        cluster,
        plan,
        lambda: WorkloadProcess(directory / "warm-up.stderr.log"),
        rounds=warm_up.ROUNDS_MAX,
        replication_factor=min(3, len(cluster.broker_ids)),
    ).line


def run_ours(
    directory: Path, *, client: str, bootstrap: str, topic: str, rate_per_s: int, warmup_s: float, seconds: float,
    record_bytes: int, number: int,
) -> list[Figures]:  # fmt: skip
    """One cell of ours without the harness around it, counted three ways."""
    load = WorkloadProcess(directory / "load.stderr.log")
    schedule: dict[str, Any] = {"kind": "constant"}
    if rate_per_s == AS_FAST_AS_IT_GOES:
        schedule = {"kind": "closed", "outstanding": OUTSTANDING}
    workload = {
        "rate_per_s": rate_per_s or 10_000_000, "record_size_bytes": record_bytes, "compressibility": 0.4,
        "warmup_ms": round(warmup_s * 1000), "measure_ms": round(seconds * 1000), "drain_ms": DRAIN_MS,
        "schedule": schedule,
    }  # fmt: skip
    plan = plan_of(directory, client=client, bootstrap=bootstrap, topic=topic, workload=workload, seed=number)
    window_us = [0, 0]
    try:
        load.begin(plan)
        deadline_s = time.monotonic() + warmup_s + seconds + DRAIN_MS / 1000 + OVERTIME_S
        while True:
            event = load.next_event(0.2) or {}
            if event.get("phase") in ("measure", "drain"):
                window_us[event["phase"] == "drain"] = int(event["t_us"])
            elif event.get("event") == "done":
                break
            elif event.get("event") in ("error", "end"):
                raise CellError(str(event.get("message") or load.describe_end()))
            if time.monotonic() > deadline_s:
                raise CellError("the load process did not finish in time")
    finally:
        load.stop(3.0)
    compact_cell(directory, topic)
    table = read_stream(directory, SEND, topic)
    names = ("intended_us", "sent_us", "acked_us", "status")
    rows = {name: table[name].to_numpy().astype(np.int64) for name in names}
    return count(rows, (window_us[0], window_us[1]), tool=f"ours, {client}", rate_per_s=rate_per_s, number=number)


def measure(document: Document, cluster: ProcessCluster, directory: Path, options: argparse.Namespace) -> None:
    """Every tool at every rate in every round; a failure of one is a problem of the page, the others go on."""
    topics = OwnTopics(Admin(cluster.direct_addresses))
    java, jars = java_command(), ensure_jars()
    copies = min(3, len(cluster.broker_ids))
    turns = random.Random(1)
    number = 0
    for round_number in range(1, options.rounds + 1):
        for rate in options.rates:
            tools = [TOOL, *options.clients.split(",")]
            turns.shuffle(tools)
            for tool in tools:
                number += 1
                topic = f"perf-{number}"
                config = {"min.insync.replicas": str(min(2, copies))}
                topics.create(topic, partitions=PARTITIONS, replication_factor=copies, config=config)
                cluster.wait_healthy(topic, timeout_s=30, replication_factor=copies)
                (directory / "cells" / topic).mkdir(parents=True)
                same: dict[str, Any] = {"bootstrap": cluster.bootstrap_servers, "topic": topic, "rate_per_s": rate}
                same |= {"warmup_s": options.warmup, "seconds": options.seconds, "record_bytes": options.record_bytes}
                try:
                    if tool == TOOL:
                        limit_s = options.warmup + options.seconds * 4 + OVERTIME_S
                        command = perf_test_command(java, jars, **same)
                        found = [run_perf_test(command, timeout_s=limit_s, rate_per_s=rate, number=round_number)]
                    else:
                        found = run_ours(directory, client=tool, number=round_number, **same)
                except (PerfTestError, CellError) as error:
                    document.problems.append(f"{tool} at {rate or 'max'}: {error}")
                    continue
                finally:
                    topics.delete(topic)
                document.figures += found
                print(f"round {round_number}, {tool}, {rate or 'max'}: {found[0].records_per_s:,.0f} records/s, "
                      f"p99 {found[0].p99_ms:g} ms", file=sys.stderr, flush=True)  # fmt: skip


def _rates(text: str) -> tuple[int, ...]:
    return tuple(AS_FAST_AS_IT_GOES if part == "max" else int(part) for part in text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=f"Our engine beside {TOOL} on one cluster in one run.")
    parser.add_argument("--cluster", choices=sorted(ENGINES), default="kafka")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--clients", default="java,confluent", help="ours, beside the tool")
    parser.add_argument("--rates", type=_rates, default=(2_000, 10_000, AS_FAST_AS_IT_GOES), help="records/s, or max")
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--warmup", type=float, default=3.0, help="seconds before the measured ones")
    parser.add_argument("--seconds", type=float, default=8.0, help="measured, after the warm-up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="perf-test-") as temporary:
        directory = Path(temporary)
        key = ClusterKey(engine=ENGINES[options.cluster], proxied=False, brokers=options.brokers, settings=())
        cluster = build_cluster(key, directory / "cluster", proxy_choice="none", lease=None, seed=0)
        document = Document(
            date=datetime.date.today().isoformat(),
            command=" ".join(["python -m benchmarks.perf_test", *given]),
            cluster=f"{options.brokers} broker(s) of {cluster.engine} {cluster.version}",
            host=host_facts(directory),
            record_bytes=options.record_bytes,
            warmup_s=options.warmup,
            seconds=options.seconds,
        )
        try:
            cluster.start()
            document.warm_up = warm(
                cluster, directory, options.rates, options.clients.split(",")[0], options.record_bytes
            )
            print(document.warm_up, file=sys.stderr, flush=True)
            measure(document, cluster, directory, options)
        except EnvironmentFault as error:
            print(error, file=sys.stderr)
            return int(error.exit_code)
        finally:
            cluster.stop()
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / f"{document.date}-perf-test-{options.cluster}"
    stem.with_suffix(".json").write_text(json.dumps(asdict(document), indent=1) + "\n")
    stem.with_suffix(".md").write_text(render(document))
    print(stem.with_suffix(".md"))
    return 1 if document.problems else 0


if __name__ == "__main__":
    sys.exit(main())
