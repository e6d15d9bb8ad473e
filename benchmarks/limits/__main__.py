"""How fast a broker can be on this host: `python -m benchmarks.limits`, some two minutes, best on an idle host.

One load, prepared batches to one partition with acks=1 (replay.py), goes in turns to servers that do the least that a
broker must, to librdkafka's mock cluster, to the reference broker and to a warm Apache Kafka. So the table says which
of the aims of `make bench` the host allows at all. A second table says where the reference broker's processor time
goes, by perf (left out where there is no perf). Writes results/<date>-limits.json and .md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.brokers import RESULTS, WARM_UP_BATCH_BYTES, say
from benchmarks.host_facts import host_facts
from benchmarks.limits.page import ENGINE_LABELS, MOCK, Document, Sample, Split, render
from benchmarks.limits.servers import Bare, Served, bare_servers, running_bare, running_mock
from benchmarks.limits.split import Recorder, is_there
from benchmarks.samples import LIGHT, ONE, Engine, has_stopped_rising
from benchmarks.subject import LOAD_TIMEOUT_S, Subject, back_memory, cpu_s

BATCHES: Final = (16_384, 131_072, 1_000_000)
LOAD_BYTES: Final = {16_384: 128_000_000, 131_072: 256_000_000, 1_000_000: 256_000_000}
RECORD_BYTES: Final = 1024
MOCK_BYTES: Final = 64_000_000  # it keeps what it is sent in memory
TOPIC: Final = "bench"
WARM_UP_LOADS_MAX: Final = 24
SPLIT_LOADS: Final = ((16_384, 2), (131_072, 2), (16_384, 500))  # batch bytes, connections
SPLIT_BYTES: Final = 1_000_000_000


def load(bootstrap: str, topic: str, load_bytes: int, batch_bytes: int, connections: int = 2) -> dict[str, float]:
    window = 5 if connections == 2 else 1
    command = [sys.executable, "-m", "benchmarks.replay", "produce", bootstrap, topic, "--bytes", str(load_bytes)]
    command += ["--batch-bytes", str(batch_bytes), "--connections", str(connections), "--window", str(window)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"load to {bootstrap}: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def take(served: Served, topic: str, load_bytes: int, batch_bytes: int) -> tuple[float, float, float]:
    """(MB/s, server CPU us per batch, client CPU us per batch)."""
    before_s = cpu_s(served.pid)
    found = load(served.bootstrap, topic, load_bytes, batch_bytes)
    batches = load_bytes / batch_bytes
    used_s = cpu_s(served.pid) - before_s
    return found["mb_per_s"], 1e6 * used_s / batches, 1e6 * found["cpu_s"] / batches


class Limits:
    def __init__(self, document: Document, directory: Path, subjects: Mapping[Engine, Subject]) -> None:
        self._document, self._directory, self._subjects = document, directory, subjects
        self._bare = bare_servers(directory)

    def warm_up(self, subject: Subject) -> None:
        series: list[float] = []
        while len(series) < WARM_UP_LOADS_MAX and not (subject.engine == "reference" and len(series) >= 2):
            topic = subject.create_topic()
            subject.back_memory(LOAD_BYTES[WARM_UP_BATCH_BYTES])
            found = subject.load(LIGHT, "produce", topic, LOAD_BYTES[WARM_UP_BATCH_BYTES], WARM_UP_BATCH_BYTES)
            subject.delete_topic(topic)
            series.append(found.mb_per_s)
            say(f"{subject.engine} warm-up {found.mb_per_s:.0f} MB/s")
            if has_stopped_rising(series):
                break
        self._document.warm_ups[subject.engine] = series

    def round(self, number: int) -> None:
        for batch_bytes in BATCHES:
            turns: list[Bare | Engine | str] = [*self._bare, MOCK, *self._subjects]
            for turn in turns if number % 2 else turns[::-1]:
                self._turn(turn, batch_bytes, number)

    def _turn(self, turn: Bare | Engine | str, batch_bytes: int, number: int) -> None:
        load_bytes, topic = LOAD_BYTES[batch_bytes], TOPIC
        records = max(1, batch_bytes // RECORD_BYTES)
        with ExitStack() as stack:
            if isinstance(turn, Bare):
                name, served = turn.name, stack.enter_context(running_bare(turn, self._directory, TOPIC, records))
            elif turn == MOCK:
                name, load_bytes = MOCK, MOCK_BYTES
                served = stack.enter_context(running_mock(TOPIC))
            else:
                engine: Engine = "reference" if turn == "reference" else "kafka"
                subject, name = self._subjects[engine], ENGINE_LABELS[engine]
                served = Served(bootstrap=subject.bootstrap_servers, pid=subject.only_pid)
                topic = stack.enter_context(_own_topic(subject))
            back_memory(self._directory, load_bytes)
            rate, server_us, client_us = take(served, topic, load_bytes, batch_bytes)
        say(f"round {number}, {batch_bytes}: {name}: {rate:.0f} MB/s, {server_us:.1f} us a batch")
        if number > 0:
            self._document.samples.append(
                Sample(
                    server=name,
                    batch_bytes=batch_bytes,
                    round_number=number,
                    mb_per_s=rate,
                    server_us=round(server_us, 2),
                    client_us=round(client_us, 2),
                )
            )

    def split(self) -> None:
        """Where the time of the reference broker goes."""
        if not is_there():
            self._document.without_split = "perf is not installed on this host"
            return
        subject = self._subjects["reference"]
        for batch_bytes, connections in SPLIT_LOADS:
            with _own_topic(subject) as topic:
                before_s = cpu_s(subject.only_pid)
                recorder = Recorder(subject.only_pid, self._directory / "perf.data")
                load(subject.bootstrap_servers, topic, SPLIT_BYTES, batch_bytes, connections)
                shares = recorder.stop()
                used_us = 1e6 * (cpu_s(subject.only_pid) - before_s) / (SPLIT_BYTES / batch_bytes)
            if not shares:
                self._document.without_split = "perf took no sample on this host"
                return
            say(f"{batch_bytes}, {connections} connections: {used_us:.1f} us a batch, {shares}")
            split = Split(batch_bytes=batch_bytes, connections=connections, us=round(used_us, 1), shares=dict(shares))
            self._document.splits.append(split)


@contextmanager
def _own_topic(subject: Subject) -> Iterator[str]:
    topic = subject.create_topic()
    try:
        yield topic
    finally:
        subject.delete_topic(topic)


def write(document: Document, results: Path) -> str:
    stem = results / f"{document.date}-limits"
    stem.with_suffix(".json").write_text(json.dumps(asdict(document), indent=1) + "\n")
    page = render(document)
    stem.with_suffix(".md").write_text(page)
    say(f"written: {stem}.json, {stem}.md")
    return page


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results go")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-harness-limits-") as name, ExitStack() as stack:
        directory, began_s = Path(name), time.monotonic()
        document = Document(
            date=datetime.date.today().isoformat(),
            command=" ".join(["python -m benchmarks.limits", *arguments]),
            host=host_facts(directory),
            rounds=options.rounds,
        )
        engines: tuple[Engine, ...] = ("reference", "kafka")
        subjects: dict[Engine, Subject] = {
            engine: stack.enter_context(Subject(engine, ONE, directory / engine)) for engine in engines
        }
        limits = Limits(document, directory, subjects)
        for subject in subjects.values():
            limits.warm_up(subject)
        for number in range(options.rounds + 1):
            limits.round(number)
        limits.split()
        document.seconds = round(time.monotonic() - began_s, 1)
        print(write(document, options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
