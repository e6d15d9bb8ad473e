"""CPU that a JVM spends on itself: its just-in-time compiler and its garbage collector, by the names of its threads.

/proc/PID/task/*/stat has name and CPU time of every thread, and asks nothing of the JVM, which may be in a container.
HotSpot names its own threads; the kernel keeps 15 bytes of a name. HotSpot's own counters (jvmstat) measure elapsed
time of compilations, which includes the time in which a compiler waited for a core.
docs/decisions/0006-cpu-of-the-compiler.md compares the two. Knows nothing of brokers or cells. Shown by
tests/harness/test_harness_jvm_threads.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Kind = Literal["compiler", "collector"]

PROC: Final = Path("/proc")
# C1 and C2, or a compiler behind JVMCI (JEP 243). G1 (JEP 248) names its threads by their work. "VM Thread" leads its
# pauses, but does other things too, so it is left out.
_PREFIXES: Final[tuple[tuple[str, Kind], ...]] = (
    ("C1 Compiler", "compiler"),
    ("C2 Compiler", "compiler"),
    ("JVMCI Compiler", "compiler"),
    ("GC Thread#", "collector"),
    ("G1 ", "collector"),
)
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_LOOKS: Final = 2  # a thread has its parent's name until it has run, and has given itself its own


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmCpu:
    """CPU seconds since the process began, as far as its threads were looked at."""

    compiler_s: float
    collector_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStat:
    name: str
    cpu_s: float


def parse_stat(text: str) -> ThreadStat:
    """One line of /proc/PID/task/TID/stat (proc_tid_stat(5)); ValueError if it is none. A name may hold anything."""
    head, closing, rest = text.rpartition(")")
    _, opening, name = head.partition("(")
    fields = rest.split()
    if not (closing and opening) or len(fields) < 13:
        raise ValueError(f"expected `TID (NAME) STATE ...` of a thread, got {text[:80]!r}")
    return ThreadStat(name=name, cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S)


def kind_of(name: str) -> Kind | None:
    return next((kind for prefix, kind in _PREFIXES if name.startswith(prefix)), None)


@dataclass(slots=True)
class _Thread:
    kind: Kind | None
    looks: int = 1
    cpu_s: float = 0.0


@dataclass(slots=True)
class JvmThreads:
    """Looks at one process again and again. If HotSpot has several compiler threads of a kind, it ends idle ones and
    starts new ones later. The CPU that a thread had used at the last look stays counted. What it used between that look
    and its end is not seen."""

    pid: int
    proc: Path = PROC
    _threads: dict[str, _Thread] = field(default_factory=dict)
    _ended_s: dict[Kind, float] = field(default_factory=dict)

    def look(self) -> JvmCpu | None:
        """CPU of the JVM's own threads. None for a process without compiler threads (no JVM, or one that only
        interprets), and for a process that is gone."""
        directory = self.proc / str(self.pid) / "task"
        try:
            present = os.listdir(directory)
        except OSError:
            return None
        for tid in self._threads.keys() - set(present):
            self._forget(tid)
        for tid in present:
            known = self._threads.get(tid)
            if known is None or known.kind is not None or known.looks < _LOOKS or not known.cpu_s:
                self._read(directory, tid)
        if not self._ended_s.get("compiler") and not any(own.kind == "compiler" for own in self._threads.values()):
            return None
        return JvmCpu(compiler_s=self._total("compiler"), collector_s=self._total("collector"))

    def _read(self, directory: Path, tid: str) -> None:
        try:
            found = parse_stat((directory / tid / "stat").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return  # it ended just now; the next look counts it among the threads that are gone
        known = self._threads.get(tid)
        if known is None:
            self._threads[tid] = _Thread(kind=kind_of(found.name), cpu_s=found.cpu_s)
            return
        if found.cpu_s < known.cpu_s:  # another thread with the same number
            self._forget(tid)
            self._threads[tid] = _Thread(kind=kind_of(found.name), cpu_s=found.cpu_s)
            return
        known.kind, known.cpu_s, known.looks = kind_of(found.name), found.cpu_s, known.looks + 1

    def _forget(self, tid: str) -> None:
        ended = self._threads.pop(tid)
        if ended.kind is not None:
            self._ended_s[ended.kind] = self._ended_s.get(ended.kind, 0.0) + ended.cpu_s

    def _total(self, kind: Kind) -> float:
        living = sum(own.cpu_s for own in self._threads.values() if own.kind == kind)
        return round(living + self._ended_s.get(kind, 0.0), 3)
