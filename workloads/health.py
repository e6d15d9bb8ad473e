"""How well the load generator itself works: CPU, garbage collection, latency of the main loop."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import numpy as np

from workloads.histogram import LogHistogram

HUB_TICK_S = 0.05
_THREADS = Path("/proc/self/task")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class GeneratorHealth:
    """Watches the current process from `start` on."""

    def __init__(self) -> None:
        self._cpu_s = 0.0
        self._wall_s = 0.0
        self._thread_cpu_s: dict[str, float] = {}
        self._collection_started_s = 0.0
        self.gc_ms = 0.0
        self.gc_ms_max = 0.0
        self.hub = LogHistogram()

    def start(self) -> None:
        """Begin, and keep everything made so far out of later collections."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)  # each send makes a short-lived object; the default would collect every 700
        gc.callbacks.append(self._on_collection)
        self.restart_cpu()

    def restart_cpu(self) -> None:
        """Count CPU from now: at the start of the measured window."""
        self._cpu_s = time.process_time()
        self._wall_s = time.monotonic()
        self._thread_cpu_s = _thread_cpu_s()

    def cpu_share(self) -> float:
        """CPU seconds per second; 1.0 is one core, which is all that Python threads can use."""
        return (time.process_time() - self._cpu_s) / max(1e-3, time.monotonic() - self._wall_s)

    def busiest_thread_cpu_share(self) -> float:
        """The same for the thread that used most; 1.0 is all that one thread can use."""
        used = (cpu_s - self._thread_cpu_s.get(thread, 0.0) for thread, cpu_s in _thread_cpu_s().items())
        return max(used, default=0.0) / max(1e-3, time.monotonic() - self._wall_s)

    def note_hub_tick(self, expected_s: float, took_s: float) -> None:
        self.hub.add(np.array([max(0.0, took_s - expected_s) * 1e6], dtype=np.int64))

    def stop(self) -> None:
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_started_s = time.perf_counter()
            return
        took_ms = (time.perf_counter() - self._collection_started_s) * 1e3
        self.gc_ms += took_ms
        self.gc_ms_max = max(self.gc_ms_max, took_ms)


def _thread_cpu_s() -> dict[str, float]:
    """CPU of each thread of this process so far, by the thread's number. A thread that ends during the reading is left
    out."""
    found: dict[str, float] = {}
    for thread in os.listdir(_THREADS):
        try:
            text = (_THREADS / thread / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        user, system = text.rpartition(")")[2].split()[11:13]  # after the name, which may hold spaces
        found[thread] = (int(user) + int(system)) / _TICKS_PER_S
    return found
