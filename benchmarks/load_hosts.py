"""Load hosts: whether stated bounds of clocks hold, and whether every record of millions is accounted for.

    python -m benchmarks.load_hosts [--only clocks|records] [--trials 100] [--records 10000000] [--rate 45000]

`clocks` (root: it makes time namespaces): each trial is an agent whose monotonic clock is ahead by a planted skew and
gains or loses by a planted drift, behind a link with another delay in each direction. The hub states an offset with an
error, three times; the truth must be inside each time.

`records`: a run over three workers against the reference broker. One worker's link is cut for 10 s, another worker is
killed with all its processes and started anew. Then the run log is held against the final log, record by record.

Writes results/<date>-load-hosts-<section>.json and .md. Shown by tests/benchmarks/test_benchmarks_load_hosts.py.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.host_facts import host_facts
from runlog.streams.parquet import read_stream
from runlog.streams.schema import LOG, SEND, SendStatus
from tests.workloads.load_hosts import Agent, Hub, Link, free_port
from tests.workloads.namespace import skewed
from workloads.hosts.keys import new_keys, write_keys

RESULTS: Final = Path(__file__).with_name("results")
SKEW_NS_MAX: Final = 5_000_000
DRIFT_PPM: Final = 50.0
AT_ONCE: Final = 25  # agents of one hub
SAMPLES: Final = (8, 20, 40)  # round trips after which the bound is asked for
NO_ANSWER: Final = "never answered"  # ClockBoundError of a host without a round trip
TRIAL_S_MAX: Final = 300.0
CUT_S: Final = 10.0
RUN_S_MAX: Final = 2_400.0
LOOK_S: Final = 0.5
WORKERS: Final = ("one", "two", "three")

# The agent with a clock that gains argv[1] ppm since it showed argv[2] ns.
_DRIFTING: Final = """
import os, runpy, sys, time
true_ns, rate, origin_ns = time.monotonic_ns, float(sys.argv[1]) * 1e-6, int(sys.argv[2])
def monotonic_ns():
    now_ns = true_ns()
    return now_ns + int((now_ns - origin_ns) * rate)
time.monotonic_ns = monotonic_ns
sys.argv = ["workloads", *sys.argv[3:]]
runpy.run_module("workloads", run_name="__main__")
"""


# --- clocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A clock that was made wrong: its offset to ours at our time `t_ns` is known."""

    skew_ns: int
    drift_ppm: float
    origin_ns: int  # of our clock
    there_ms: float
    back_ms: float
    jitter_ms: float

    def offset_us(self, t_ns: int) -> float:
        # The drift is that of the other clock, which ran for as long as ours: the skew does not change its rate.
        return (self.skew_ns + (t_ns - self.origin_ns) * self.drift_ppm * 1e-6) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    planted: Planted
    off_us: tuple[float, ...]  # the truth against what was stated, each time
    error_us: tuple[float, ...]  # what was stated
    holds: bool


def held(planted: Planted, clock: Mapping[str, Any], asked_ns: int, answered_ns: int) -> tuple[float, bool]:
    """How far off the stated offset is, and whether that is within its error. It was stated for a moment between the
    two: so the better one of both ends may be meant, which a drift of 50 ppm makes 1 us for 20 ms."""
    off_us = min(abs(planted.offset_us(t_ns) - clock["offset_us"]) for t_ns in (asked_ns, answered_ns))
    return off_us, not clock["problem"] and off_us <= clock["error_us"]


def clock_trials(directory: Path, count: int, seed: int) -> Iterator[Trial]:
    rng = random.Random(seed)
    done = 0
    while done < count:
        batch = min(AT_ONCE, count - done)
        yield from _batch(directory / f"batch-{done}", batch, rng)
        done += batch


def _batch(directory: Path, count: int, rng: random.Random) -> list[Trial]:
    directory.mkdir()
    master, worker = new_keys()
    port = free_port()
    hub = Hub(directory, master, port)
    planted: dict[str, Planted] = {}
    agents: list[Agent] = []
    try:
        for number in range(count):
            name = f"host-{number}"
            planted[name] = found = Planted(
                skew_ns=rng.choice((-1, 1)) * rng.randrange(SKEW_NS_MAX // 10, SKEW_NS_MAX + 1),
                drift_ppm=rng.choice((-DRIFT_PPM, DRIFT_PPM)),
                origin_ns=time.monotonic_ns(),
                there_ms=rng.choice((0.0, 2.0, 20.0)),
                back_ms=rng.choice((0.0, 2.0, 20.0)),
                jitter_ms=rng.choice((0.0, 1.0, 5.0)),
            )
            link = Link(("127.0.0.1", port), there_ms=found.there_ms, back_ms=found.back_ms, jitter_ms=found.jitter_ms)
            code = ("-c", _DRIFTING, str(found.drift_ppm), str(found.origin_ns + found.skew_ns))
            agents.append(Agent(directory, worker, link.port, name, prefix=skewed(found.skew_ns), code=code))
        return _watched(hub, planted)
    finally:
        for part in (*agents, hub):
            part.close()


def _watched(hub: Hub, planted: Mapping[str, Planted]) -> list[Trial]:
    """Each host's bound as the hub states it, once it has as many round trips as are asked for."""
    stated: dict[str, list[tuple[float, float, bool]]] = {name: [] for name in planted}
    deadline_s = time.monotonic() + TRIAL_S_MAX
    while any(len(each) < len(SAMPLES) for each in stated.values()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not all load hosts came: {[name for name, each in stated.items() if not each]}")
        asked_ns = time.monotonic_ns()
        told = hub.hosts()["hosts"]
        answered_ns = time.monotonic_ns()
        for host in told:
            found, clock = stated[host["name"]], host["clock"]
            if NO_ANSWER in clock["problem"]:
                continue  # it has only just come
            if len(found) < len(SAMPLES) and (clock["problem"] or clock["samples"] >= SAMPLES[len(found)]):
                off_us, holds = held(planted[host["name"]], clock, asked_ns, answered_ns)
                found.append((off_us, clock["error_us"], holds))
        time.sleep(LOOK_S)
    return [
        Trial(
            planted=planted[name],
            off_us=tuple(round(off, 3) for off, _, _ in each),
            error_us=tuple(error for _, error, _ in each),
            holds=all(holds for _, _, holds in each),
        )
        for name, each in stated.items()
    ]


def clocks_page(trials: Sequence[Trial], head: str) -> str:
    good = sum(trial.holds for trial in trials)
    used = [off / error for trial in trials for off, error in zip(trial.off_us, trial.error_us, strict=True) if error]
    errors = [error for trial in trials for error in trial.error_us]
    return "\n".join(
        [
            "# Clocks of load hosts: planted skews and drifts",
            "",
            head,
            "",
            f"**{good} of {len(trials)} trials: the truth was within the stated bound, each of {len(SAMPLES)} times.**",
            "",
            f"Each trial is an agent with a monotonic clock of its own: ahead or behind by {SKEW_NS_MAX / 1e7:.1f} to "
            f"{SKEW_NS_MAX / 1e6:.0f} ms (a time namespace), and {DRIFT_PPM:.0f} ppm too fast or too slow (a planted "
            "function). Its link delays by 0, 2 or 20 ms, in each direction by another time, with a jitter of up to 5 "
            "ms.",
            "",
            "| figure | least | median | most |",
            "|---|---|---|---|",
            _figures("stated error, ms", [error / 1e3 for error in errors], 3),
            _figures("truth off by, as a share of the stated error", used, 3),
            "",
        ]
    )


def _figures(name: str, values: Sequence[float], digits: int) -> str:
    if not values:
        return f"| {name} | - | - | - |"
    found = (min(values), float(np.median(values)), max(values))
    return f"| {name} | " + " | ".join(f"{value:.{digits}f}" for value in found) + " |"


# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Of all producers of one cell. A record is *accounted for* if exactly one row of `send` tells its fate, and its
    fate agrees with the log: acknowledged ones are there, and nothing is there that was not sent."""

    sent: int  # highest sequence of each producer, and one
    rows: int
    missing_rows: int  # sequences without a row, up to the highest
    repeated_rows: int
    acked: int
    failed: int
    unknown: int
    in_log: int  # identities
    acked_not_in_log: int
    in_log_not_sent: int
    failed_in_log: int
    unknown_in_log: int  # they were written after all
    repeated_in_log: int

    @property
    def is_whole(self) -> bool:
        wrong = (
            self.missing_rows, self.repeated_rows, self.acked_not_in_log, self.in_log_not_sent, self.failed_in_log,
            self.repeated_in_log,
        )  # fmt: skip
        return not any(wrong) and self.sent == self.acked + self.failed + self.unknown


_Ids = NDArray[np.int64]


def _identities(table: Any) -> _Ids:
    """Producer, incarnation and sequence in one number."""
    producer, incarnation, seq = (
        table[name].to_numpy().astype(np.int64) for name in ("producer", "incarnation", "seq")
    )
    assert int(producer.max(initial=0)) < 1 << 10
    assert int(incarnation.max(initial=0)) < 1 << 13
    assert int(seq.max(initial=0)) < 1 << 40
    found: _Ids = (producer << 53) | (incarnation << 40) | seq
    return found


def account(run_dir: Path, cell_id: str) -> Accounting:
    """From the run log of an ended cell."""
    send = read_stream(run_dir, SEND, cell_id)
    ids, status = _identities(send), send["status"].to_numpy()
    del send
    in_log_all = _identities(read_stream(run_dir, LOG, cell_id))
    in_log = np.unique(in_log_all)
    known = np.unique(ids)
    high = np.array(
        [int((known[known >> 40 == writer] & ((1 << 40) - 1)).max()) + 1 for writer in np.unique(known >> 40)]
    )
    by_status = {each: ids[status == each] for each in SendStatus}
    return Accounting(
        sent=int(high.sum()),
        rows=len(ids),
        missing_rows=int(high.sum()) - len(known),
        repeated_rows=len(ids) - len(known),
        acked=len(by_status[SendStatus.ACKED]),
        failed=len(by_status[SendStatus.FAILED]),
        unknown=len(by_status[SendStatus.UNKNOWN]),
        in_log=len(in_log),
        acked_not_in_log=_without(by_status[SendStatus.ACKED], in_log),
        in_log_not_sent=_without(in_log, known),
        failed_in_log=int(np.isin(by_status[SendStatus.FAILED], in_log).sum()),
        unknown_in_log=int(np.isin(by_status[SendStatus.UNKNOWN], in_log).sum()),
        repeated_in_log=len(in_log_all) - len(in_log),
    )


def _without(some: _Ids, others: _Ids) -> int:
    return int((~np.isin(some, others, kind="sort")).sum())


class Workers:
    """Three `harness worker` on this host; `two` comes through a link that can be cut."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master_key, self._worker_key = write_keys(directory / "keys")
        self.port = free_port()
        self.link = Link(("127.0.0.1", self.port), there_ms=0.0, back_ms=0.0, jitter_ms=0.0)
        self._processes = {name: self._started(name) for name in WORKERS}

    def _started(self, name: str) -> subprocess.Popen[bytes]:
        port = self.link.port if name == "two" else self.port
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    sys.executable, "-m", "harness", "worker", "--master", f"127.0.0.1:{port}", "--key",
                    str(self._worker_key), "--name", name, "--spool", str(self.directory / "spool"),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "XDG_STATE_HOME": str(self.directory / f"state-{name}")},
            )  # fmt: skip

    def kill_and_start_again(self, name: str) -> None:
        os.killpg(self._processes[name].pid, signal.SIGKILL)
        self._processes[name].wait()
        self._processes[name] = self._started(name)

    def close(self) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            if process.poll() is None:
                process.kill()


def suite_of(records: int, rate_per_s: int, record_bytes: int) -> str:
    """A third more than asked for, because the worker that is killed sends less than its share."""
    measure_ms = int(records * 1.15 / rate_per_s * 1000)
    return f"""
name: ten-million
workload: {{rate_per_s: {rate_per_s}, record_size_bytes: {record_bytes}, producers: 3, consumers: 0, warmup_ms: 1000,
  measure_ms: {measure_ms}, drain_ms: 60000}}
topic: {{partitions: 6, replication_factor: 1}}
cluster: {{brokers: 1}}
sweep: {{baseline: {{linger.ms: 20, batch.size: 131072}}, vary: {{linger.ms: [20]}}, repetitions: 1, repeat_share: 0}}
"""


def run_records(directory: Path, records: int, rate_per_s: int, record_bytes: int) -> tuple[Accounting, dict[str, Any]]:
    workers = Workers(directory)
    run_dir = directory / "run"
    (directory / "suite.yaml").write_text(suite_of(records, rate_per_s, record_bytes))
    said: list[str] = []
    with (directory / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "harness", "run", str(directory / "suite.yaml"), "--no-certify", "--no-report",
                "--run-dir", str(run_dir), "--load-hosts", str(len(WORKERS)), "--load-listen",
                f"127.0.0.1:{workers.port}", "--load-key", str(workers.master_key),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "XDG_STATE_HOME": str(directory / "state-run")},
        )  # fmt: skip
    began_s = time.monotonic()
    try:
        _disturb(process, run_dir, workers, records, said)
        code = process.wait(timeout=RUN_S_MAX)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
        workers.close()
    if not list(run_dir.glob("cells/*/cell.json")):
        raise RuntimeError((directory / "run.log").read_text()[-3000:])
    (cell,) = (path.name for path in (run_dir / "cells").iterdir())
    outcome = json.loads((run_dir / "cells" / cell / "cell.json").read_text())["outcome"]
    facts = {
        "seconds": round(time.monotonic() - began_s, 1),
        "exit code": code,
        "disturbed": said,
        "cell": f"{outcome['status']}: {outcome['reason']}",
        "load hosts": [
            {name: host[name] for name in ("name", "state", "reason", "is_gathered", "files", "bytes")}
            for host in outcome["load_hosts"]
        ],
    }
    return account(run_dir, cell), facts


def _disturb(process: subprocess.Popen[bytes], run_dir: Path, workers: Workers, records: int, said: list[str]) -> None:
    """The cut at a quarter, the kill at four fifths of the records."""
    steps: list[tuple[float, str, Callable[[], None]]] = [
        (0.25, f"the link of two was cut for {CUT_S:.0f} s", lambda: workers.link.cut(CUT_S)),
        (0.8, "three was killed and started anew", lambda: workers.kill_and_start_again("three")),
    ]
    deadline_s = time.monotonic() + RUN_S_MAX
    while steps and process.poll() is None and time.monotonic() < deadline_s:
        acked = _acked(run_dir)
        if acked >= steps[0][0] * records:
            _, text, act = steps.pop(0)
            act()
            said.append(f"at {acked:,} acknowledgements: {text}")
            print(said[-1], file=sys.stderr, flush=True)
        time.sleep(LOOK_S)


def _acked(run_dir: Path) -> int:
    """As the load told it last."""
    for path in run_dir.glob("cells/*/stats.jsonl"):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65_536))
            for line in reversed(file.read().split(b"\n")):
                with contextlib.suppress(ValueError):
                    values = json.loads(line).get("values")
                    if values and "acked" in values:
                        return int(values["acked"])
    return 0


def records_page(found: Accounting, facts: Mapping[str, Any], head: str) -> str:
    rows = {
        "sent (sequences)": found.sent,
        "rows that tell a fate": found.rows,
        "sequences without a row": found.missing_rows,
        "sequences with two rows": found.repeated_rows,
        "acknowledged": found.acked,
        "failed": found.failed,
        "unknown (of the worker that was killed, or cut off)": found.unknown,
        "records in the final log": found.in_log,
        "acknowledged and not in the log": found.acked_not_in_log,
        "in the log and never sent": found.in_log_not_sent,
        "failed and in the log": found.failed_in_log,
        "unknown and in the log": found.unknown_in_log,
        "in the log twice": found.repeated_in_log,
    }
    answer = "every record is accounted for" if found.is_whole else "NOT every record is accounted for"
    return "\n".join(
        [
            "# Load hosts: is every record accounted for?",
            "",
            head,
            "",
            f"**{found.sent:,} records over three workers: {answer}.**",
            "",
            *(f"- {line}" for line in facts["disturbed"]),
            f"- The run took {facts['seconds']:.0f} s, with the final read and the compaction. Its cell: "
            f"{facts['cell']}",
            *(
                f"- Load host {host['name']}: {host['state']}{': ' + host['reason'] if host['reason'] else ''}; "
                f"{host['files']} files, {host['bytes']:,} bytes gathered, {'' if host['is_gathered'] else 'NOT '}all"
                for host in facts["load hosts"]
            ),
            "",
            "| count | records |",
            "|---|---|",
            *(f"| {name} | {count:,} |" for name, count in rows.items()),
            "",
        ]
    )


# --- around -----------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Clocks and accounting of load hosts.")
    parser.add_argument("--only", choices=("clocks", "records"))
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=45_000, help="records/s of all workers together")
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    date = datetime.date.today().isoformat()
    head = f"`{' '.join(['python -m benchmarks.load_hosts', *given])}`, {date}."
    good = True
    with tempfile.TemporaryDirectory(prefix="load-hosts-") as temporary:
        directory = Path(temporary)
        facts = host_facts(directory)
        head += "\n\n" + "\n".join(f"- {name}: {text}" for name, text in facts.items() if name != "Apache Kafka")
        options.results.mkdir(parents=True, exist_ok=True)
        if options.only != "records":
            trials = []
            for trial in clock_trials(directory, options.trials, options.seed):
                trials.append(trial)
                print(f"{len(trials)} of {options.trials}: {'holds' if trial.holds else trial}", file=sys.stderr)
            good = good and all(trial.holds for trial in trials)
            stem = options.results / f"{date}-load-hosts-clocks"
            document = {"command": given, "host": facts, "trials": [asdict(trial) for trial in trials]}
            _write(stem, document, clocks_page(trials, head))
        if options.only != "clocks":
            found, of_run = run_records(directory, options.records, options.rate, options.record_bytes)
            good = good and found.is_whole
            stem = options.results / f"{date}-load-hosts-records"
            document = {"command": given, "host": facts, "accounting": asdict(found), "run": of_run}
            _write(stem, document, records_page(found, of_run, head))
    return 0 if good else 1


def _write(stem: Path, document: Mapping[str, Any], page: str) -> None:
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(page)
    print(stem.with_suffix(".md"))


if __name__ == "__main__":
    sys.exit(main())
