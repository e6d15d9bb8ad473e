"""Facts of the host and of the software under test, written beside every figure. Reads, never changes anything."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import confluent_kafka

from harness.clusters.kafka.jars import VERSION as KAFKA_VERSION
from harness.clusters.kafka.jars import java_command
from harness.errors import EnvironmentFault

_ASK_TIMEOUT_S = 20.0


def host_facts(directory: Path) -> dict[str, str]:
    """What a reader needs to judge the figures. `directory` is where the brokers' logs lie."""
    load_1_min, load_5_min, _ = os.getloadavg()
    return {
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} usable cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "file system of the logs": _file_system(directory),
        "kernel": f"{platform.system()} {platform.release()}",
        "load average at the start": f"{load_1_min:.2f} (1 min), {load_5_min:.2f} (5 min)",
        "reference broker": f"commit {_commit()}, Python {platform.python_version()}",
        "Apache Kafka": f"{KAFKA_VERSION}, {_java_version()}",
        "client": f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    resolved = str(directory.resolve())
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [mount for mount in mounts if f"{resolved}/".startswith(f"{mount[0].rstrip('/')}/")]
    return max(holding, key=lambda mount: len(mount[0]))[1] if holding else "unknown"


def _commit() -> str:
    root = Path(__file__).resolve().parent.parent
    commit = _first_line(["git", "-C", str(root), "rev-parse", "--short", "HEAD"])
    changed = _first_line(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
    return f"{commit or 'unknown'}{' with local changes' if changed else ''}"


def _java_version() -> str:
    try:
        return _first_line([java_command(), "--version"]) or "unknown Java"
    except EnvironmentFault:
        return "no Java"


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else ""
