"""How much the load generator itself can do: real load processes against one reference broker that discards.

    python -m benchmarks.load_generator [--clients reference,franz-go] [--rates 50000,100000] [--processes 1,2]

Each rate runs for some seconds in an open loop with full accounting: every record is scheduled, made, sent,
acknowledged and written as a row. The rows are counted afterwards. A rate is carried if every row is there, and the
acknowledgements kept up with it. The ceiling of a client is the highest rate up to which schedule lag p99 stayed within
2 ms, too. Lag is taken from the rows: up to the time when the client gave the record to its library, which a client
that is a program notes itself. Writes results/<date>-load-generator.json and .md.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.host_facts import host_facts
from harness.errors import CellError
from harness.run.generator.client_runtime import client_runtime
from harness.run.generator.workload_process import WorkloadProcess
from harness.run.preparation.null_broker import NullBroker
from runlog.records.load import Health, LoadDone, LoadEnded, LoadError, LoadPhase, PhaseBegan
from runlog.streams.compact import compact_cell
from runlog.streams.parquet import column_chunks
from runlog.streams.schema import SEND, SendStatus

RESULTS: Final = Path(__file__).with_name("results")
LAG_P99_US_MAX: Final = 2_000
KEPT_UP_SHARE: Final = 0.98  # of the rate; a window ends while records are under way
RATES: Final = (50_000, 100_000, 150_000, 200_000, 250_000, 300_000)
RECORD_BYTES: Final = 100
PARTITIONS: Final = 4
WARMUP_MS: Final = 2_000
DRAIN_MS: Final = 5_000
OVERTIME_S: Final = 60.0
# Batches as a client has them that is asked for throughput; acks=1, so that the broker answers at once; no compression,
# which is Kafka's default, but not that of every library.
PROPERTIES: Final = {
    "acks": "1", "compression.type": "none", "enable.idempotence": "false", "batch.size": "131072",
    "linger.ms": "5", "buffer.memory": "67108864",
}  # fmt: skip
_FEWER_FOR: Final = {
    "aiokafka": ("buffer.memory",), "kafka_python": ("buffer.memory",), "sarama": ("batch.size", "buffer.memory"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One rate. Shares are of one core; `rows` is what the run log holds, `scheduled` what it must hold."""

    client: str
    processes: int
    rate_per_s: int
    scheduled: int
    rows: int
    acked: int
    acked_per_s: float
    lag_us_p50: int
    lag_us_p99: int
    lag_us_max: int
    latency_us_p50: int
    latency_us_p99: int
    backpressure_sends: int
    cpu_share_by_process: tuple[float, ...]
    client_cpu_share: float  # of all clients that are programs
    broker_cpu_share: float
    gc_ms_max: float
    hub_lag_us_p99: int
    problem: str = ""

    @property
    def is_carried(self) -> bool:
        """The generator lost track of nothing, and did not only queue."""
        is_accounted = not self.problem and self.rows == self.acked == self.scheduled
        return is_accounted and self.acked_per_s >= KEPT_UP_SHARE * self.rate_per_s

    @property
    def is_within(self) -> bool:
        """It kept its schedule, too."""
        return self.is_carried and self.lag_us_p99 <= LAG_P99_US_MAX


@dataclass(slots=True, kw_only=True)
class Document:
    date: str
    command: str
    host: dict[str, str]
    seconds: float
    measured: list[Measured] = field(default_factory=list)

    def ceilings(self) -> dict[tuple[str, int], int]:
        """The highest rate up to which everything was within; 0 when nothing was."""
        return self._highest(lambda item: item.is_within)

    def carried(self) -> dict[tuple[str, int], int]:
        """The highest rate up to which all was carried; 0 when none was."""
        return self._highest(lambda item: item.is_carried)

    def _highest(self, is_right: Callable[[Measured], bool]) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        failed: set[tuple[str, int]] = set()
        for item in sorted(self.measured, key=lambda each: each.rate_per_s):
            key = (item.client, item.processes)
            found.setdefault(key, 0)
            if not is_right(item):
                failed.add(key)
            elif key not in failed:
                found[key] = item.rate_per_s
        return found


def measure(
    broker: NullBroker, directory: Path, *, client: str, processes: int, rate_per_s: int, measure_s: float
) -> Measured:
    """One run of a load process. What goes wrong is told by `problem`."""
    cell = f"{client}-{processes}-{rate_per_s}".replace("_", "-")
    broker.create_topic(cell, PARTITIONS)
    load = WorkloadProcess(directory / "load.stderr.log")
    done: LoadDone | None = None
    problem, measure_us = "", 0
    cpu_before_s, cpu_shares = (0.0, 0.0), (0.0, 0.0)  # of the broker and of client programs
    try:
        load.begin(_plan(broker, directory, cell, client, processes, rate_per_s, measure_s))
        deadline_s = time.monotonic() + measure_s + (WARMUP_MS + DRAIN_MS) / 1e3 + OVERTIME_S
        while not problem and done is None:
            match load.next_event(0.2):
                case PhaseBegan(phase=LoadPhase.MEASURE, t_us=t_us):
                    measure_us, cpu_before_s = t_us, (broker.cpu_s(), _programs_cpu_s(load.pid))
                case PhaseBegan(phase=LoadPhase.DRAIN, t_us=t_us) if measure_us:
                    seconds = (t_us - measure_us) / 1e6
                    broker_s, programs_s = broker.cpu_s() - cpu_before_s[0], _programs_cpu_s(load.pid) - cpu_before_s[1]
                    cpu_shares = (broker_s / seconds, programs_s / seconds)
                case LoadDone() as event:
                    done = event
                case LoadError() | LoadEnded() as event:
                    problem = load.problem_of(event)
            if done is None and time.monotonic() > deadline_s:
                problem = "did not finish in time"
    except CellError as error:
        problem = str(error)
    finally:
        load.stop(3.0)
        broker.delete_topic(cell)
    compact_cell(directory, cell)
    end_us = measure_us + measure_s * 1e6
    rows = acked = acked_inside = 0
    latencies: list[NDArray[np.int64]] = []  # of the window
    lags: list[NDArray[np.int64]] = []
    for chunk in column_chunks(directory, SEND, cell, ("status", "intended_us", "sent_us", "acked_us")):
        is_acked = chunk["status"] == int(SendStatus.ACKED)
        intended, acked_us = chunk["intended_us"][is_acked], chunk["acked_us"][is_acked]
        rows, acked = rows + len(is_acked), acked + len(acked_us)
        acked_inside += int(np.count_nonzero((acked_us >= measure_us) & (acked_us < end_us)))
        is_of_window = (intended >= measure_us) & (intended < end_us)
        latencies.append((acked_us - intended)[is_of_window])
        lags.append((chunk["sent_us"][is_acked] - intended)[is_of_window])
    shutil.rmtree(directory / "send" / f"cell={cell}", ignore_errors=True)
    health = Health() if done is None else done.health
    return Measured(
        client=client,
        processes=processes,
        rate_per_s=rate_per_s,
        scheduled=round(rate_per_s * (measure_s + WARMUP_MS / 1e3)),
        rows=rows,
        acked=acked,
        acked_per_s=round(acked_inside / measure_s, 1),
        lag_us_p50=_quantile(lags, 0.5),
        lag_us_p99=_quantile(lags, 0.99),
        lag_us_max=_quantile(lags, 1),
        latency_us_p50=_quantile(latencies, 0.5),
        latency_us_p99=_quantile(latencies, 0.99),
        backpressure_sends=_whole(health.backpressure_sends),
        cpu_share_by_process=health.cpu_share_by_process or (),
        client_cpu_share=round(cpu_shares[1], 3),
        broker_cpu_share=round(cpu_shares[0], 3),
        gc_ms_max=-1.0 if health.gc_ms_max is None else health.gc_ms_max,
        hub_lag_us_p99=_whole(health.hub_lag_us_p99),
        problem=problem,
    )


def _programs_cpu_s(load_pid: int) -> float:
    """User and system time so far of the programs that the load processes started."""
    total_s = 0.0
    for process in psutil.Process(load_pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it is gone
            if "workloads" not in process.cmdline():
                times = process.cpu_times()
                total_s += times.user + times.system
    return total_s


def _quantile(parts: Sequence[NDArray[np.int64]], share: float) -> int:
    """-1 for what was not measured."""
    values = np.concatenate(parts) if parts else np.zeros(0)
    return int(np.quantile(values, share)) if len(values) else -1


def _whole(figure: float | None) -> int:
    """-1 for what was not measured."""
    return -1 if figure is None else int(figure)


def _plan(
    broker: NullBroker, directory: Path, cell: str, client: str, processes: int, rate_per_s: int, measure_s: float
) -> dict[str, Any]:
    left_out = _FEWER_FOR.get(client, ())
    properties = {name: value for name, value in PROPERTIES.items() if name not in left_out}
    return {
        "run_dir": str(directory),
        "cell_id": cell,
        "t0_monotonic_ns": time.monotonic_ns(),
        "client": client,
        "bootstrap_servers": broker.bootstrap_servers,
        "topic": cell,
        "partitions": PARTITIONS,
        "properties": properties,
        "runtime": client_runtime(client),
        "workload": {
            "rate_per_s": rate_per_s,
            "record_size_bytes": RECORD_BYTES,
            "producers": processes,
            "processes": processes,
            "warmup_ms": WARMUP_MS,
            "measure_ms": round(measure_s * 1_000),
            "drain_ms": DRAIN_MS,
        },
        "seed": 1,
    }


def render(document: Document) -> str:
    """The Markdown page. Pure."""
    lines = [
        "# The load generator by itself",
        "",
        f"`{document.command}`, {document.date}. Open loop, {RECORD_BYTES}-byte records, one producer a process, "
        f"`{', '.join(f'{name}={value}' for name, value in PROPERTIES.items())}`, one reference broker that discards, "
        f"{document.seconds:g} s a rate after {WARMUP_MS / 1e3:g} s of warm-up. Load and broker share the host.",
        "",
        "Carried: the highest rate up to which every scheduled record was sent, acknowledged and written as a row, and "
        f"the acknowledgements kept up. Ceiling: schedule lag p99 stayed within {LAG_P99_US_MAX / 1e3:g} ms, too. Lag "
        "is until the client gave the record to its library, as the rows say.",
        "",
        "| client | processes | ceiling, records/s | carried, records/s |",
        "|---|---|---|---|",
        *(
            f"| {client} | {processes} | {_rate(rate)} | {_rate(document.carried()[client, processes])} |"
            for (client, processes), rate in document.ceilings().items()
        ),
        "",
        "| client | processes | rate/s | acked/s | rows of scheduled | lag p50 / p99 / max, ms | "
        "latency p50 / p99, ms | waited for space | load CPU, cores | client CPU | broker CPU | longest GC, ms | "
        "hub p99, ms | |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(item) for item in document.measured),
        "",
        *(f"- {name}: {value}" for name, value in document.host.items()),
    ]
    return "\n".join(lines) + "\n"


def _rate(rate: int) -> str:
    return f"{rate:,}" if rate else "below all rates"


def _row(item: Measured) -> str:
    lag = " / ".join(f"{value / 1e3:.2f}" for value in (item.lag_us_p50, item.lag_us_p99, item.lag_us_max))
    latency = " / ".join(f"{value / 1e3:.1f}" for value in (item.latency_us_p50, item.latency_us_p99))
    cpu = " + ".join(f"{share:.2f}" for share in item.cpu_share_by_process)
    state = item.problem or ("within" if item.is_within else "carried, late" if item.is_carried else "beyond")
    return (
        f"| {item.client} | {item.processes} | {item.rate_per_s:,} | {item.acked_per_s:,.0f} | "
        f"{item.rows:,} of {item.scheduled:,} | {lag} | {latency} | {item.backpressure_sends:,} | {cpu} | "
        f"{item.client_cpu_share:.2f} | {item.broker_cpu_share:.2f} | {item.gc_ms_max:.1f} | "
        f"{item.hub_lag_us_p99 / 1e3:.1f} | {state} |"
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The load generator against a broker that discards.")
    parser.add_argument("--clients", default="reference,confluent")
    parser.add_argument("--rates", type=_numbers, default=RATES, help="records/s of all processes together")
    parser.add_argument("--processes", type=_numbers, default=(1, 2))
    parser.add_argument("--seconds", type=float, default=10.0, help="measured window of each rate")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="load-generator-") as temporary:
        directory = Path(temporary)
        document = Document(
            date=datetime.date.today().isoformat(),
            command=" ".join(["python -m benchmarks.load_generator", *given]),
            host=host_facts(directory),
            seconds=options.seconds,
        )
        with NullBroker(directory / "cluster") as broker:
            for client in options.clients.split(","):
                for processes in options.processes:
                    for rate_per_s in options.rates:
                        found = measure(
                            broker, directory, client=client, processes=processes, rate_per_s=rate_per_s,
                            measure_s=options.seconds,
                        )  # fmt: skip
                        document.measured.append(found)
                        print(_row(found), file=sys.stderr, flush=True)
                        if not found.is_within and found.acked_per_s < 0.9 * rate_per_s:
                            break  # beyond its ceiling it only queues
    options.results.mkdir(parents=True, exist_ok=True)
    stem = options.results / f"{document.date}-load-generator"
    ceilings = [
        {
            "client": client, "processes": processes, "records_per_s": rate,
            "carried_per_s": document.carried()[client, processes],
        }
        for (client, processes), rate in document.ceilings().items()
    ]  # fmt: skip
    stem.with_suffix(".json").write_text(json.dumps({**asdict(document), "ceilings": ceilings}, indent=2) + "\n")
    stem.with_suffix(".md").write_text(render(document))
    print(stem.with_suffix(".md"))
    return 0 if all(document.ceilings().values()) else 1


if __name__ == "__main__":
    sys.exit(main())
