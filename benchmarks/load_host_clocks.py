"""Load hosts: whether stated bounds of clocks hold. Part of `python -m benchmarks.load_hosts`.

Each trial is an agent whose monotonic clock is ahead by a planted skew and gains or loses by a planted drift, behind a
link with another delay in each direction. The hub states an offset with an error, three times; the truth must be inside
each time. Shown by tests/benchmarks/test_benchmarks_load_hosts.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.clusters.ports import free_port
from tests.workloads.load_hosts import Agent, Hub, Link
from tests.workloads.namespace import skewed
from workloads.hosts.keys import new_keys

LOOK_S: Final = 0.5
SKEW_NS_MAX: Final = 5_000_000
DRIFT_PPM: Final = 50.0
AT_ONCE: Final = 25  # agents of one hub
SAMPLES: Final = (8, 20, 40)  # round trips after which the bound is asked for
NO_ANSWER: Final = "never answered"  # ClockBoundError of a host without a round trip
TRIAL_S_MAX: Final = 300.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A clock that was made wrong: its offset to ours at our time `t_ns` is known."""

    skew_ns: int
    drift_ppm: float
    origin_ns: int  # The origin of our clock.
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
