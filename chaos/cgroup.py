"""What the kernel's control groups say about one process: its limits, and how often they limited it.

It reads version 1 (one hierarchy per controller) and version 2 (one hierarchy for all) on the host. The processes of
containers have the same files there. It knows no container engine and changes nothing. Shown by
tests/harness/test_harness_docker.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
_CHARGE_BATCH_BYTES: Final = 64 * 4096  # The kernel charges memory in advance, up to this much for each core.
_UNLIMITED: Final = 1 << 62  # Version 1 writes "no limit" as the largest multiple of a page.


def cgroup_file(pid: int, controller: str, v1_name: str, v2_name: str) -> Path | None:
    """The file of the process' group. It has one name in version 1 and another in version 2. None if there is
    neither."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            found = ROOT / controller / path.lstrip("/") / v1_name
        elif not names:
            found = ROOT / path.lstrip("/") / v2_name
        else:
            continue
        if found.is_file():
            return found
    return None


def cpu_cores_max(pid: int) -> float | None:
    """How many cores the group may use. None if there is no limit."""
    quota = _text(cgroup_file(pid, "cpu", "cpu.cfs_quota_us", "cpu.max")).split()
    if not quota or quota[0] in ("-1", "max"):
        return None
    period = quota[1] if len(quota) > 1 else _text(cgroup_file(pid, "cpu", "cpu.cfs_period_us", "cpu.max")).split()[0]
    return int(quota[0]) / int(period)


def cpu_throttled(pid: int) -> int:
    """In how many periods the group was stopped because it had used up its share."""
    return _counter(_text(cgroup_file(pid, "cpu", "cpu.stat", "cpu.stat")), "nr_throttled")


def memory_bytes_max(pid: int) -> int | None:
    """The memory limit of the group. None if there is no limit."""
    text = _text(cgroup_file(pid, "memory", "memory.limit_in_bytes", "memory.max"))
    return int(text) if text.isdigit() and int(text) < _UNLIMITED else None


def memory_limit_hits(pid: int) -> int:
    """How often the group wanted more memory than it may have, so that other memory had to be released.

    Version 1 no longer counts requests that could be satisfied by releasing memory (Linux 6.18). So there the result is
    1 while the group holds as much as it may. To take more, it must first release something.
    """
    text = _text(cgroup_file(pid, "memory", "memory.failcnt", "memory.events"))
    if not text.isdigit():
        return _counter(text, "max")
    limit = memory_bytes_max(pid)
    usage = _text(cgroup_file(pid, "memory", "memory.usage_in_bytes", "memory.current"))
    is_full = (
        limit is not None and usage.isdigit() and limit - int(usage) <= _CHARGE_BATCH_BYTES * (os.cpu_count() or 1)
    )
    return int(text) + (1 if is_full else 0)


def anonymous_bytes(pid: int) -> int:
    """Anonymous memory of the group's processes. It does not include the page cache, which can be released."""
    text = _text(cgroup_file(pid, "memory", "memory.stat", "memory.stat"))
    return _counter(text, "total_rss") or _counter(text, "anon")


def _text(path: Path | None) -> str:
    try:
        return "" if path is None else path.read_text().strip()
    except OSError:  # the group disappeared with its last process
        return ""


def _counter(text: str, name: str) -> int:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
