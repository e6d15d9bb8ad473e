"""Where a broker's processor time goes, by perf: what the kernel does for it, and what runs in the process itself.

A sample is the kernel's if a system call is in its chain of calls, and then it belongs to that call. Otherwise it
belongs to the library that it was taken in. Shown by tests/benchmarks/test_benchmarks_limits.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_CALLS: Final = (  # in the order in which they are looked for
    (re.compile(r"sys_pwritev?2?64|sys_pwrite"), "kernel: writes to the log"),
    (re.compile(r"sys_(recv|read)"), "kernel: receives"),
    (re.compile(r"sys_(send|write)"), "kernel: sends"),
    (re.compile(r"sys_epoll"), "kernel: waits for sockets"),
)
_LIBRARIES: Final = (
    (re.compile(r"crc32c"), "CRC-32C"),
    (re.compile(r"_record_check"), "compiled check of records"),
    (re.compile(r"uvloop|libuv"), "uvloop"),
    (re.compile(r"libc[.-]|\[vdso\]"), "C library: copies, allocation"),
    (re.compile(r"python"), "Python's interpreter"),
)
_FRAME: Final = re.compile(r"^\s+[0-9a-f]+ (?P<symbol>.*) \((?P<library>[^()]*(?:\([^()]*\))?)\)$")
OTHER: Final = "other"


def is_there() -> bool:
    return shutil.which("perf") is not None


class Recorder:
    """`perf record` of one process, which begins at once and ends with `stop`, or with the process."""

    def __init__(self, pid: int, target: Path) -> None:
        self._target = target
        command = ["perf", "record", "-g", "-e", "cpu-clock", "-F", "1999"]
        self._process = subprocess.Popen(
            [*command, "-p", str(pid), "-o", str(target)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stop(self) -> Mapping[str, float]:
        """The shares, by what they are for, largest first. They add up to 1. Empty if perf took no sample."""
        self._process.terminate()
        self._process.wait(30)
        done = subprocess.run(
            ["perf", "script", "-i", str(self._target), "-F", "ip,sym,dso"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
        )
        return shares(done.stdout.splitlines())


def shares(lines: Iterable[str]) -> dict[str, float]:
    """From what `perf script` prints: a block of frames for each sample, the innermost first."""
    found = Counter(_owner(frames) for frames in _samples(lines))
    total = found.total()
    return {name: count / total for name, count in found.most_common()}


def _samples(lines: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    frames: list[tuple[str, str]] = []
    for line in lines:
        match = _FRAME.match(line)
        if match is not None:
            frames.append((match["symbol"], match["library"]))
        elif not line.strip() and frames:
            yield frames
            frames = []
    if frames:
        yield frames


def _owner(frames: list[tuple[str, str]]) -> str:
    is_kernel = "kernel" in frames[0][1]
    if is_kernel:
        for pattern, name in _CALLS:
            if any(pattern.search(symbol) for symbol, _ in frames):
                return name
        return "kernel: other"
    for pattern, name in _LIBRARIES:
        if pattern.search(frames[0][1]):
            return name
    return OTHER
