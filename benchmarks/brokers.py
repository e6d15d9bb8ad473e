"""The reference broker beside Apache Kafka in one run: `make bench`, or `python -m benchmarks.brokers [--quick]`.

`--only SECTION` (repeat it for several sections) measures a part: c-client, throughput, librdkafka, codecs,
small-records, partitions, connections, latency, fail-over, start-up, producer.
Owns the order of the loads, the warm-up and the time limit of the whole. samples.py makes the figures, table.py the
page. Writes results/<date>-brokers.json and .md (also after an error or Ctrl-C, then marked incomplete) and prints the
page. Exit code 0 if everything was measured, whatever the ratios are; 1 otherwise.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks import client_produce
from benchmarks.host_facts import host_facts
from benchmarks.samples import (
    C_CLIENT,
    LIBRDKAFKA,
    LIGHT,
    LOADS,
    PRODUCER_AIM,
    SHAPES,
    START_AIM_S,
    THREE,
    Load,
    Paired,
    Sample,
    Shape,
    compare,
    has_stopped_rising,
)
from benchmarks.subject import Subject
from benchmarks.table import ENGINE_NAMES, Document, IdleCpu, StartUp, WarmUp, render
from harness.errors import EnvironmentFault, HarnessError

RESULTS: Final = Path(__file__).with_name("results")
WARM_UP_BATCH_BYTES: Final = 131_072
REFERENCE_WARM_UP_LOADS: Final = 2  # no JIT: page cache and connections only
FREE_BYTES_MIN: Final = 6_000_000_000  # three copies of one load, twice over, and room for others
TIME_LIMIT_S: Final = 2700.0
_LATENCY_AIMS: Final = {"p99_ms": {"aim": 0.5}}  # times Apache Kafka


SECTIONS: Final = tuple(
    dict.fromkeys([*(load.section for load in LOADS), "latency", "fail-over", "start-up", "producer"])
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is done. `uncounted_rounds` take every batch size once before the counted ones."""

    load_bytes: int
    rounds: int
    uncounted_rounds: int
    warm_up_loads_max: int
    warm_up_s_max: float
    idle_s: float
    latency_s: float


# Some 8 GB until Apache Kafka's figure stands still on one broker, and minutes until it does on three.
FULL: Final = Effort(
    load_bytes=256_000_000,
    rounds=5,
    uncounted_rounds=1,
    warm_up_loads_max=24,
    warm_up_s_max=120.0,
    idle_s=5.0,
    latency_s=5.0,
)
QUICK: Final = Effort(
    load_bytes=64_000_000,
    rounds=1,
    uncounted_rounds=0,
    warm_up_loads_max=3,
    warm_up_s_max=45.0,
    idle_s=1.0,
    latency_s=2.0,
)


class TimeIsUp(HarnessError):
    """The bound on the whole run; what was measured until then is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    effort: Effort
    document: Document
    deadline_s: float
    sections: frozenset[str]

    def measure_shape(self, shape: Shape, directory: Path) -> None:
        """Both clusters run at the same time, so that neither gets the better minutes of the host."""
        loads = [load for load in LOADS if load.section in self.sections]
        is_three = shape is THREE
        if not loads and not (is_three and self.sections & {"latency", "fail-over"}):
            return
        with ExitStack() as stack:
            subjects = []
            for engine in ENGINE_NAMES:
                say(f"{shape.name}: starting {ENGINE_NAMES[engine]}")
                subject = stack.enter_context(Subject(engine, shape, directory / f"{engine}-{shape.brokers}"))
                subjects.append(subject)
                self._note_start(subject)
            for subject in subjects:
                self._warm_up(subject)
            self._measure_idle(subjects)
            for load in (each for each in loads if each.partitions == 1):
                self._measure_part(f"{shape.name}, {load.name}", partial(self._measure_load, load, subjects))
            if is_three and "latency" in self.sections:
                self._measure_part("latency", partial(self._measure_latency, subjects))
            if is_three and "fail-over" in self.sections:
                self._measure_part("fail-over", partial(self._measure_fail_over, subjects))
            for load in (each for each in loads if each.partitions > 1):  # last: creating and deleting takes longest
                self._measure_part(f"{shape.name}, {load.name}", partial(self._measure_load, load, subjects))

    def _measure_part(self, name: str, measure: Callable[[], None]) -> None:
        """One part that fails is noted, and the others still come; the time limit ends all."""
        try:
            measure()
        except TimeIsUp:
            raise
        except (HarnessError, subprocess.TimeoutExpired) as error:
            self.document.failures.append(f"{name}: {type(error).__name__}: {error}")
            say(f"failed: {self.document.failures[-1]}")

    def _note_start(self, subject: Subject) -> None:
        self.document.starts.append(
            StartUp(
                shape=subject.shape.name,
                brokers=subject.shape.brokers,
                engine=subject.engine,
                prepare_s=round(subject.prepare_s, 3),
                answering_s=round(subject.answering_s, 3),
            )
        )

    def _measure_load(self, load: Load, subjects: list[Subject]) -> None:
        uncounted = self.effort.uncounted_rounds if load in (C_CLIENT, LIGHT) else 0  # whichever comes first
        rounds = min(self.effort.rounds, load.rounds_max or self.effort.rounds)
        for number in range(1 - uncounted, rounds + 1):
            ordered = subjects if number % 2 else subjects[::-1]
            for batch_bytes in load.batches:
                for subject in ordered:
                    self._take_turn(subject, load, batch_bytes, number)

    def _paired(self, section: str, name: str, unit: str, **aims: float | bool) -> Paired:
        found = Paired(section=section, name=name, unit=unit, **aims)  # type: ignore[arg-type]  # aim, limit, is_rate
        self.document.paired.append(found)
        return found

    def _measure_latency(self, subjects: list[Subject]) -> None:
        """At half of what Apache Kafka sustains: half of its median of librdkafka's 128 KiB batches, measured before
        or, with --only, now."""
        rate = self._half_of_sustainable(subjects) // 1024
        where = f"{THREE.name}, {rate * 1024 / 1e6:.0f} MB/s"
        rows = {
            key: self._paired("latency", f"acknowledgement {name}, {where}", "ms", **_LATENCY_AIMS.get(key, {}))
            for key, name in (
                ("p50_ms", "p50"),
                ("p99_ms", "p99"),
                ("p999_ms", "p99.9"),
                ("late_ms", "sender late, p99"),
            )
        }
        for number in range(1 - self.effort.uncounted_rounds, self.effort.rounds + 1):
            for subject in subjects if number % 2 else subjects[::-1]:
                self._check_time()
                topic = subject.create_topic()
                found = subject.latency(topic, rate=rate, seconds=self.effort.latency_s)
                subject.delete_topic(topic)
                say(f"round {number}, {subject.engine} latency at {rate} records/s: {found}")
                if number > 0:
                    for key, row in rows.items():
                        (row.ours if subject.engine == "reference" else row.theirs).append(found[key])

    def _half_of_sustainable(self, subjects: list[Subject]) -> int:
        """Bytes a second."""
        rates = [
            sample.mb_per_s
            for sample in self.document.samples
            if (sample.shape, sample.engine, sample.load, sample.operation, sample.batch_bytes, sample.round_number > 0)
            == (THREE.name, "kafka", "librdkafka", "produce", WARM_UP_BATCH_BYTES, True)
        ]
        if not rates:
            (subject,) = (each for each in subjects if each.engine == "kafka")
            for _ in range(3):
                topic = subject.create_topic()
                found = subject.load(LIBRDKAFKA, "produce", topic, self.effort.load_bytes // 2, WARM_UP_BATCH_BYTES)
                rates.append(found.mb_per_s)
                subject.delete_topic(topic)
        return int(statistics.median(rates) * 1e6 / 2)

    def _measure_fail_over(self, subjects: list[Subject]) -> None:
        row = self._paired("fail-over", f"leader killed to first acknowledged write, {THREE.name}", "s", aim=1.0)
        for number in range(1, self.effort.rounds + 1):
            for subject in subjects if number % 2 else subjects[::-1]:
                self._check_time()
                seconds = round(subject.fail_over_s(), 3)
                (row.ours if subject.engine == "reference" else row.theirs).append(seconds)
                say(f"round {number}, {subject.engine} fail-over {seconds} s")

    def measure_start_up(self, directory: Path) -> None:
        """Each cluster alone, in turns: three brokers, from the first process to all answering."""
        row = self._paired("start-up", f"cluster up and answering, {THREE.name}", "s", limit=START_AIM_S)
        for number in range(1, self.effort.rounds + 1):
            for engine in ENGINE_NAMES:
                self._check_time()
                with Subject(engine, THREE, directory / f"start-{engine}-{number}") as subject:
                    (row.ours if engine == "reference" else row.theirs).append(round(subject.answering_s, 3))
                    say(f"round {number}, {engine} up in {subject.answering_s:.2f} s")

    def measure_producer(self) -> None:
        """The reference producer against confluent-kafka: another pair, against librdkafka's mock cluster."""
        for size, callbacks, ours, theirs in client_produce.measure(rounds=self.effort.rounds):
            self._check_time()
            what = "with" if callbacks else "without"
            row = self._paired(
                "producer", f"records of {size} bytes, {what} callbacks", "thousand/s", aim=PRODUCER_AIM, is_rate=True
            )
            row.ours += [round(rate / 1000, 1) for rate in ours]
            row.theirs += [round(rate / 1000, 1) for rate in theirs]
            say(f"producer, {size} bytes, {what} callbacks: {row.ratio:.2f} times confluent-kafka")

    def _measure_idle(self, subjects: list[Subject]) -> None:
        before_s = [subject.cpu_s() for subject in subjects]
        time.sleep(self.effort.idle_s)
        for subject, earlier_s in zip(subjects, before_s, strict=True):
            used_ms_per_s = round((subject.cpu_s() - earlier_s) * 1000 / self.effort.idle_s, 1)
            self.document.idle.append(IdleCpu(shape=subject.shape.name, engine=subject.engine, ms_per_s=used_ms_per_s))

    def _warm_up(self, subject: Subject) -> None:
        """Load until the figure stops rising, within the limits of the effort. Consuming warms its own code."""
        series = WarmUp(shape=subject.shape.name, engine=subject.engine, load_bytes=self.effort.load_bytes)
        self.document.warm_ups.append(series)
        loads_max = self.effort.warm_up_loads_max
        if subject.engine == "reference":
            loads_max = min(loads_max, REFERENCE_WARM_UP_LOADS)
        series.ended_because = f"{loads_max} loads, as many as allowed"
        end_s = time.monotonic() + self.effort.warm_up_s_max
        for _ in range(loads_max):
            self._check_time()
            topic = subject.create_topic()
            subject.back_memory(self.effort.load_bytes)
            produced = subject.load(LIGHT, "produce", topic, self.effort.load_bytes, WARM_UP_BATCH_BYTES)
            subject.load(LIGHT, "consume", topic, self.effort.load_bytes, WARM_UP_BATCH_BYTES)
            subject.delete_topic(topic)
            series.mb_per_s.append(produced.mb_per_s)
            say(f"{subject.shape.name}: {subject.engine} warm-up {produced.mb_per_s:.0f} MB/s")
            if has_stopped_rising(series.mb_per_s):
                series.ended_because = "stopped rising"
                return
            if time.monotonic() > end_s:
                series.ended_because = f"{self.effort.warm_up_s_max:.0f} s, as long as allowed; may still rise"
                return

    def _take_turn(self, subject: Subject, load: Load, batch_bytes: int, round_number: int) -> None:
        self._check_time()
        topic = subject.create_topic(load.partitions, load.topic_config)
        load_bytes = load.bytes_of(self.effort.load_bytes, batch_bytes)
        subject.back_memory(load_bytes)
        for operation in load.operations:
            found = subject.load(load, operation, topic, load_bytes, batch_bytes)
            self.document.samples.append(
                Sample(
                    shape=subject.shape.name,
                    engine=subject.engine,
                    load=load.name,
                    operation=operation,
                    batch_bytes=batch_bytes,
                    round_number=round_number,
                    mb_per_s=found.mb_per_s,
                    broker_cpu_s_per_gb=found.broker_cpu_s_per_gb,
                    client_cpu_s_per_gb=found.client_cpu_s_per_gb,
                )
            )
            say(
                f"{subject.shape.name}, {load.name}: round {round_number}, {subject.engine} {operation} {batch_bytes} "
                f"{found.mb_per_s:.0f} MB/s, {found.broker_cpu_s_per_gb:.2f} CPU s/GB"
            )
        subject.delete_topic(topic)

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline_s:
            raise TimeIsUp("the time limit of the whole run was reached")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(bench: Bench, directory: Path) -> None:
    """Never raises for what stops a measurement: the document says it."""
    document = bench.document
    began_s = time.monotonic()
    try:
        if "producer" in bench.sections:
            bench.measure_producer()
        if "start-up" in bench.sections:
            bench.measure_start_up(directory)
        for shape in SHAPES:
            bench.measure_shape(shape, directory)
        document.complete = not document.failures
        document.note = "; ".join(document.failures)
    except (HarnessError, subprocess.TimeoutExpired, OSError) as error:
        document.note = f"{type(error).__name__}: {error}"
    except KeyboardInterrupt:
        document.note = "interrupted"
    document.seconds = round(time.monotonic() - began_s, 1)


def write(document: Document, results: Path) -> str:
    """JSON and Markdown under the same name; returns the Markdown."""
    comparisons = compare(document.samples)
    results.mkdir(parents=True, exist_ok=True)
    kind = "-quick" if document.quick else "-part" if document.is_part else ""
    stem = results / f"{document.date}-brokers{kind}"
    data = {**asdict(document), "comparisons": [asdict(line) for line in comparisons]}
    stem.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
    page = render(document, comparisons)
    stem.with_suffix(".md").write_text(page)
    say(f"written: {stem}.json, {stem}.md")
    return page


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small loads, cold JVM, one round: proves that it works")
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, help="this section alone; may be given several times"
    )
    parser.add_argument("--rounds", type=int, help="counted rounds (default 5, quick 1)")
    parser.add_argument("--directory", type=Path, help="where the brokers' logs go (default: the temporary directory)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--time-limit-s", type=float, default=TIME_LIMIT_S, help="no load begins later than this")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    effort = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        effort = Effort(**{**asdict(effort), "rounds": max(1, arguments.rounds)})
    with tempfile.TemporaryDirectory(prefix="kafka-harness-bench-", dir=arguments.directory) as name:
        directory = Path(name)
        document = Document(
            date=datetime.date.today().isoformat(),
            command=" ".join(["python -m benchmarks.brokers", *sys.argv[1:]]),
            host=host_facts(directory),
            quick=arguments.quick,
            load_bytes=effort.load_bytes,
            rounds=effort.rounds,
            is_part=arguments.only is not None,
        )
        try:
            if shutil.disk_usage(directory).free < FREE_BYTES_MIN:
                raise EnvironmentFault(f"{directory}: less than {FREE_BYTES_MIN / 1e9:.0f} GB free, see --directory")
        except EnvironmentFault as error:
            say(str(error))
            return int(error.exit_code)
        bench = Bench(
            effort=effort,
            document=document,
            deadline_s=time.monotonic() + arguments.time_limit_s,
            sections=frozenset(arguments.only or SECTIONS),
        )
        run(bench, directory)
        page = write(document, arguments.results)
    print(page)
    return 0 if document.complete else 1


if __name__ == "__main__":
    sys.exit(main())
