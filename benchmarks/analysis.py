"""The report's analysis at scale: made run logs with planted damage, the real job, its memory and speed; DuckDB beside.

    python -m benchmarks.analysis [--rows 100000000] [--damage light|heavy] [--master local[2]] [--no-duckdb]
        [--directory DIR]

Rows are those of send, log and recv together. The job is `python -m reports`, as for every run. The memory of its
process tree is watched, and what Spark has on disk. It must find exactly what was planted. DuckDB then computes the
same figures over the same files, and every figure must agree. For the sets it uses the rules of
reports/judge/anomalies.py as they are written.
Writes results/<date>-analysis.json and .md. Exit code 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.analysis_damage import BATCH, PARTITIONS, Amount
from benchmarks.analysis_data import CELL, CHUNK_BATCHES, Truth, generate
from benchmarks.analysis_oracle import Oracle
from benchmarks.host_facts import host_facts
from harness.errors import EnvironmentFault

RESULTS: Final = Path(__file__).with_name("results")
JOB_TIMEOUT_S: Final = 1_800.0
MEMORY_INTERVAL_S: Final = 0.2
DISK_INTERVALS: Final = 10  # of memory, from one look at the disk to the next
BYTES_A_ROW: Final = 8  # of Parquet, with room to spare
SCRATCH: Final = "scratch"
# What was planted of these is the size of a set of records.
PLANTED_SETS: Final = ("lost", "duplicated", "reordered", "offset_reused", "unseen_pending", "lost_in_delivery",
                       "read_above_hw", "redelivered")  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Document:
    date: str
    command: str
    host: dict[str, str]
    master: str
    truth: dict[str, int] = field(default_factory=dict)
    generate_s: float = 0.0
    parquet_bytes: int = 0
    job_s: float = 0.0  # from the start of the process to the page
    analysis_s: float = 0.0  # the part with the session, as the job says
    peak_bytes: int = 0
    scratch_bytes: int = 0  # the most that Spark had on disk
    duckdb_s: float | None = None
    differences: list[str] = field(default_factory=list)
    agreed: int = 0

    @property
    def records_per_s(self) -> float:
        return self.truth["records"] / self.analysis_s if self.analysis_s else 0.0


def tree_bytes(root: int) -> int:
    """Resident memory of a process and all that descend from it."""
    parents, resident = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)], resident[int(entry.name)] = int(fields[1]), int(fields[21])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(resident.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE")


def directory_bytes(directory: Path) -> int:
    """What the files below take on disk now. Some of them may vanish meanwhile."""
    found = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            found += path.lstat().st_blocks * 512
    return found


class Watch(threading.Thread):
    """The largest resident memory of a process tree, and the most that a directory had. Pages that two processes share
    count twice."""

    def __init__(self, pid: int, scratch: Path) -> None:
        super().__init__(daemon=True)
        self._pid, self._scratch = pid, scratch
        self._ended = threading.Event()
        self.peak_bytes = 0
        self.scratch_bytes = 0

    def run(self) -> None:
        looks = 0
        while not self._ended.wait(MEMORY_INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, tree_bytes(self._pid))
            if looks % DISK_INTERVALS == 0:
                self.scratch_bytes = max(self.scratch_bytes, directory_bytes(self._scratch))
            looks += 1

    def end(self) -> None:
        self._ended.set()
        self.join()


def run_job(
    directory: Path, document: Document, *, spark_conf: Sequence[str] = (), timeout_s: float = JOB_TIMEOUT_S
) -> dict[str, Any]:
    """The analysis as `harness run` starts it; returns the cell of verdicts.json. Spark's scratch is in the directory,
    so that it is on the same disk."""
    log, scratch = directory / "report.stderr.log", directory / SCRATCH
    scratch.mkdir(exist_ok=True)
    began_s = time.monotonic()
    with log.open("w") as stderr:
        conf = [f"--spark-conf={one}" for one in spark_conf]
        command = [sys.executable, "-m", "reports", str(directory), "--master", document.master, *conf]
        environment = {**os.environ, "TMPDIR": str(scratch)}
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr, env=environment)
        watch = Watch(job.pid, scratch)
        watch.start()
        try:
            code = job.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(f"the analysis took longer than {timeout_s:.0f} s") from error
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()
            watch.end()
            document.peak_bytes, document.scratch_bytes = watch.peak_bytes, watch.scratch_bytes
    document.job_s = round(time.monotonic() - began_s, 1)
    told = re.search(r"analysed after ([\d.]+) s", log.read_text())
    if code not in (0, 1, 4) or told is None:
        raise EnvironmentFault(f"the analysis ended with {code}:\n{log.read_text()[-3000:]}")
    document.analysis_s = float(told[1])
    cell: dict[str, Any] = json.loads((directory / "results" / "verdicts.json").read_text())["cells"][0]
    return cell


def compare_with_truth(cell: dict[str, Any], truth: Truth, document: Document) -> None:
    """What the job found against what was planted."""
    expected = {"sent": truth.records, "acked": truth.records - truth.unknown, "failed": 0, "unknown": truth.unknown}
    sets = {name: getattr(truth, name) for name in PLANTED_SETS}
    sets |= {"recovered": truth.unknown, "dup_delivered": truth.redelivered, "unexpected": 0, "misrouted": 0}
    found = {name: cell[name] for name in expected} | {name: cell["observed_sets"][name]["count"] for name in sets}
    for name, wanted in {**expected, **sets}.items():
        if found[name] == wanted:
            document.agreed += 1
        else:
            document.differences.append(f"{name}: planted {wanted}, the job found {found[name]}")


def render(document: Document) -> str:
    """The Markdown page. Pure."""
    truth = document.truth
    planted = ", ".join(f"{truth[name]:,} {name}" for name in (*PLANTED_SETS, "unknown") if truth.get(name))
    lines = [
        "# The analysis at scale",
        "",
        f"`{document.command}`, {document.date}. {truth['rows']:,} rows of send, log and recv "
        f"({truth['records']:,} records; {document.parquet_bytes / 1e6:,.0f} MB of Parquet, made in "
        f"{document.generate_s:,.0f} s); `python -m reports --master {document.master}`.",
        "",
        "| | |",
        "|---|---|",
        f"| analysis, session included | {document.analysis_s:,.1f} s |",
        f"| records/s | {document.records_per_s:,.0f} |",
        f"| rows/s | {truth['rows'] / document.analysis_s:,.0f} |",
        f"| whole job, with the page | {document.job_s:,.1f} s |",
        f"| peak resident memory of Python and JVM | {document.peak_bytes / 1e9:.2f} GB |",
        f"| most that Spark had on disk | {document.scratch_bytes / 1e9:.2f} GB |",
    ]
    if document.duckdb_s is not None:
        ratio = document.analysis_s / document.duckdb_s
        lines.append(f"| DuckDB, the same figures | {document.duckdb_s:,.1f} s: Spark takes {ratio:.1f} times that |")
    lines += [
        f"| planted | {planted} |",
        f"| figures that agree | {document.agreed} |",
        f"| figures that do not | {len(document.differences)} |",
        "",
        *(f"- differs: {difference}" for difference in document.differences),
        *(f"- {name}: {value}" for name, value in document.host.items()),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The report's analysis at scale, with DuckDB beside it.")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of send, log and recv together")
    parser.add_argument("--damage", type=Amount, choices=list(Amount), default=Amount.LIGHT)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--spark-conf", action="append", default=[], metavar="spark.NAME=VALUE")
    timeout_help = "of the job; it takes longer with heavy damage"
    parser.add_argument("--timeout-s", type=float, default=JOB_TIMEOUT_S, help=timeout_help)
    parser.add_argument("--no-duckdb", action="store_true")
    parser.add_argument("--directory", type=Path, help="where the run log goes (default: the temporary directory)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="analysis-", dir=options.directory) as temporary:
        directory = Path(temporary)
        document = Document(
            date=datetime.date.today().isoformat(),
            command=" ".join(["python -m benchmarks.analysis", *given]),
            host=host_facts(directory),
            master=options.master,
        )
        try:
            if shutil.disk_usage(directory).free < options.rows * BYTES_A_ROW:
                raise EnvironmentFault(f"{directory}: too little room for {options.rows:,} rows, see --directory")
            began_s = time.monotonic()
            records = options.rows // 3
            whole = -(-records // (BATCH * PARTITIONS)) * PARTITIONS  # batches: one chunk where few rows are asked for
            truth = generate(directory, records=records, chunk_batches=min(CHUNK_BATCHES, whole), amount=options.damage)
            document.truth, document.generate_s = asdict(truth), round(time.monotonic() - began_s, 1)
            document.parquet_bytes = sum(path.stat().st_size for path in directory.glob("*/cell=*/*.parquet"))
            say(f"made {truth.rows:,} rows in {document.generate_s:.0f} s")
            cell = run_job(directory, document, spark_conf=options.spark_conf, timeout_s=options.timeout_s)
            peak, scratch = document.peak_bytes / 1e9, document.scratch_bytes / 1e9
            say(f"analysed in {document.analysis_s:.1f} s with at most {peak:.2f} GB, and {scratch:.2f} GB on disk")
            compare_with_truth(cell, truth, document)
            if not options.no_duckdb:
                oracle = Oracle(directory, CELL)
                document.differences += oracle.differences(cell)
                document.agreed += oracle.agreed
                document.duckdb_s = round(oracle.seconds, 1)
        except EnvironmentFault as error:
            say(str(error))
            return int(error.exit_code)
    options.results.mkdir(parents=True, exist_ok=True)
    suffix = "" if options.damage is Amount.LIGHT else f"-{options.damage}"
    stem = options.results / f"{document.date}-analysis{suffix}"
    stem.with_suffix(".json").write_text(json.dumps(asdict(document), indent=1) + "\n")
    stem.with_suffix(".md").write_text(render(document))
    print(stem.with_suffix(".md"))
    return 1 if document.differences else 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
