"""Makes a run directory and its manifest, which names versions, host and command.

Owns manifest.json. Its layout is in docs/internals/contracts.md. Shown by tests/harness/test_harness_ci.py.
"""

from __future__ import annotations

import errno
import os
import platform
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from harness import VERSION
from harness.clusters.broker_process import start_ticks
from harness.errors import EnvironmentFault, UsageError
from harness.kafka_releases import Release
from harness.limit_cells import run_limits_of
from harness.run.directory.reproduce import reproduce_command
from harness.suite import Suite
from runlog.files.clock import RunClock
from runlog.files.place import here
from runlog.files.redaction import Redactor
from runlog.files.strangers import strange_entry
from runlog.records.run import HostRecord, OwnerRecord, RunRecord, RunStatus
from runlog.streams.schema import SCHEMA_VERSION

_DISTRIBUTIONS: Final = (
    "locust", "toxiproxy-python", "pyspark", "pandas", "kio", "uvloop", "crc32c", "cramjam", "zstandard",
    "pyarrow", "numpy", "confluent-kafka", "aiokafka", "kafka-python",
)  # fmt: skip

RUNS: Final = Path("runs")  # A run that is given no --run-dir goes there.
# A run belongs to the user who ran it. Nobody else on this host can enter the directory, whatever the modes of its
# files.
PRIVATE_DIRECTORY: Final = 0o700
# The path is wrong, and not the disk or its rights.
_APACHE_KAFKA: Final = "Apache Kafka"
_WRONG_PATH: Final = (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EINVAL, errno.ENAMETOOLONG, errno.ELOOP)


def new_run_path(parent: Path, name: str) -> Path:
    """RUNS/20261121-150405-demo-3f9a; nothing is made yet."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return parent / f"{stamp}-{name}-{secrets.token_hex(2)}"


def create_run_directory(parent: Path, name: str, explicit: Path | None = None) -> Path:
    """A new directory, or `explicit`, which must be absent or empty. EnvironmentFault if the disk or its rights are
    why it cannot be made, else UsageError."""
    directory = explicit or new_run_path(parent, name)
    try:
        if directory.exists() and any(directory.iterdir()):
            raise UsageError(f"--run-dir {directory}: exists and is not empty; a run never writes over another one")
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        directory.chmod(PRIVATE_DIRECTORY)  # one that was there already
    except OSError as error:
        kind = UsageError if error.errno in _WRONG_PATH else EnvironmentFault
        raise kind(f"cannot make the run directory {directory}: {error.strerror}: {error.filename}") from error
    return directory.resolve()


def check_run_directory(directory: Path) -> None:
    """UsageError unless a run wrote this directory."""
    if not directory.is_dir():
        why = "it is a file" if directory.exists() else "it does not exist"
        raise UsageError(f"{directory} is no run directory: {why}")
    if problem := strange_entry(directory):
        raise UsageError(f"{directory} is not read: {problem}")
    if not (directory / "manifest.json").is_file():
        raise UsageError(f"{directory} is no run directory: it has no manifest.json")


def new_run_record(
    *,
    run_dir: Path,
    clock: RunClock,
    argv: Sequence[str],
    engine: str,
    client: str,
    seed: int,
    suite: Suite,
    cells: Sequence[str],
    redactor: Redactor,
    mark: str,
    store: str | None = None,
    releases: Sequence[Release] = (),
) -> RunRecord:
    """The record of a new run, without secrets. If there was one, `harness confirm` and a repeated command must give it
    again. `releases` are those of Apache Kafka that its brokers have."""
    argv = redactor.arguments(argv)
    return RunRecord(
        schema_version=SCHEMA_VERSION,
        run_id=run_dir.name,
        suite=suite.name,
        description=suite.description,
        argv=tuple(argv),
        command=reproduce_command(argv, seed),
        engine=engine,
        client=client,
        seed=seed,
        t0_monotonic_ns=clock.t0_monotonic_ns,
        t0_wall=datetime.now().astimezone().isoformat(timespec="milliseconds"),
        t0_wall_s=time.time(),
        cells=tuple(cells),
        versions=versions() | ({_APACHE_KAFKA: ", ".join(map(str, releases))} if releases else {}),
        host=host_facts(),
        suite_document=redactor.document(suite.model_dump(mode="json", by_alias=True)),
        status=RunStatus.RUNNING,
        limits=run_limits_of(suite),
        owner=own_identity(),
        mark=mark,
        store=store,
    )


def own_identity() -> OwnerRecord:
    """Who writes this directory. It includes the start time, so that a later process with the same pid is not taken for
    it."""
    return OwnerRecord(pid=os.getpid(), start_ticks=start_ticks(os.getpid()) or 0, place=here())


def versions() -> dict[str, str]:
    found = {"kafka-harness": VERSION, "python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    commit = _git_commit()
    return found | ({"commit": commit} if commit else {})


def host_facts() -> HostRecord:
    return HostRecord(
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python_executable=Path(sys.executable).name,
    )


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _git_commit() -> str | None:
    """The commit of a checkout; None when installed from a package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True, text=True, timeout=5,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
