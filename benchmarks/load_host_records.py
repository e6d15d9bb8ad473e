"""Load hosts: whether every record of millions is accounted for. Part of `python -m benchmarks.load_hosts`.

A run goes over three workers against the reference broker. One worker's link is cut for 10 s, another worker is killed
with all its processes and started anew. Then the run log is held against the final log, record by record. Shown by
tests/benchmarks/test_benchmarks_load_hosts.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harness.clusters.ports import free_port
from runlog.streams.parquet import column_chunks
from runlog.streams.schema import LOG, SEND, SendStatus
from tests.workloads.load_hosts import Link
from workloads.hosts.keys import write_keys

LOOK_S: Final = 0.5
CUT_S: Final = 10.0
RUN_S_MAX: Final = 2_400.0
WORKERS: Final = ("one", "two", "three")


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
_IDENTITY: Final = ("producer", "incarnation", "seq")


def _identities(rows: Mapping[str, _Ids]) -> _Ids:
    """Producer, incarnation and sequence in one number."""
    producer, incarnation, seq = (rows[name] for name in _IDENTITY)
    assert int(producer.max(initial=0)) < 1 << 10
    assert int(incarnation.max(initial=0)) < 1 << 13
    assert int(seq.max(initial=0)) < 1 << 40
    found: _Ids = (producer << 53) | (incarnation << 40) | seq
    return found


def account(run_dir: Path, cell_id: str) -> Accounting:
    """From the run log of an ended cell."""
    sends = [
        (_identities(rows), rows["status"].astype(np.int8))
        for rows in column_chunks(run_dir, SEND, cell_id, (*_IDENTITY, "status"))
    ]
    ids = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in sends)])
    status = np.concatenate([np.zeros(0, np.int8), *(one for _, one in sends)])
    del sends
    stored = (_identities(rows) for rows in column_chunks(run_dir, LOG, cell_id, _IDENTITY))
    in_log_all = np.concatenate([np.zeros(0, np.int64), *stored])
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
