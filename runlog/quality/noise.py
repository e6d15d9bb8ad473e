"""Whether others disturbed a cell: stolen and foreign CPU in the measured window, and stretches in which the host stood
still. Pure.

Only what the system under test cannot cause is taken for the host's. Pressure stall, and a thread that wakes up late
while the cores are busy, may be the brokers' own doing. They are told, and decide nothing.

A mean over the window hides what makes a p99: one percent of the time. So the same evidence is asked once more at the
resolution in which it was taken. Shown by tests/runlog/test_runlog_noise.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from runlog.quality.criteria import CRITERIA
from runlog.records.stats import HOST, HostFigure, Resources, StallSample, StatsSample

FOREIGN_SHARE: Final = HostFigure.FOREIGN_SHARE
STEAL_SHARE: Final = HostFigure.STEAL_SHARE
DISTURBED: Final = "disturbed host"  # how the reason begins
_Window = tuple[int, int]


def means(samples: Iterable[StatsSample], window_us: _Window | None) -> dict[str, float]:
    """Means of the host's samples by name; with a window only of those in it."""
    return {name: round(sum(found) / len(found), 4) for name, found in host_values(samples, window_us).items()}


def host_values(samples: Iterable[StatsSample], window_us: _Window | None) -> dict[str, list[float]]:
    """What the host sampler saw, by name and in order of time; no name without a value."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        if not isinstance(sample, Resources) or sample.source != HOST:
            continue
        if window_us is not None and not window_us[0] <= sample.t_us <= window_us[1]:
            continue
        for name, value in sample.values.items():
            found.setdefault(name, []).append(float(value))
    return found


def others_share(samples: Iterable[StatsSample], window_us: _Window) -> float:
    """The share of all cores in the window that other programs and guests took. 0 if nothing was recorded."""
    found = means(samples, window_us)
    return found.get(FOREIGN_SHARE, 0.0) + found.get(STEAL_SHARE, 0.0)


def disturbance_of(samples: Iterable[StatsSample], window_us: _Window) -> str:
    """Why the host was not the cell's own; empty if it was, or if nothing was recorded.

    Also asked between two cells, whether to repeat the last one.
    """
    samples = list(samples)
    found = means(samples, window_us)
    foreign, stolen = found.get(FOREIGN_SHARE, 0.0), found.get(STEAL_SHARE, 0.0)
    reasons = []
    if foreign > CRITERIA.foreign_share_max:
        reasons.append(f"other programs took {foreign:.0%} of all cores")
    if stolen > CRITERIA.steal_share_max:
        reasons.append(f"other guests of the machine took {stolen:.0%}")
    if reasons:
        return f"{DISTURBED}: {' and '.join(reasons)} in the measured window"
    taken_us = _length_us(_taken(samples), window_us)
    whole_us = window_us[1] - window_us[0]
    if taken_us <= CRITERIA.taken_time_share_max * whole_us:
        return ""
    return (
        f"{DISTURBED}: for {taken_us / 1e6:.1f} of the {whole_us / 1e6:.1f} s of the measured window others held it "
        f"up, and {CRITERIA.taken_time_share_max:.0%} of the time makes a p99"
    )


def untold_stalls_of(samples: Iterable[StatsSample], window_us: _Window) -> str:
    """How long processes waited for the processor while programs of this host used it. Nobody can tell whether the
    system under test was the cause, so this counts as its own. Empty if it was not long enough for a p99."""
    untold = [
        (sample.t_us - sample.took_us, sample.t_us)
        for sample in _stalls(samples)
        if sample.late_us >= CRITERIA.stall_us_min and not _is_of_the_host(sample)
    ]
    us = _length_us(untold, window_us)
    if us <= CRITERIA.taken_time_share_max * (window_us[1] - window_us[0]):
        return ""
    return (
        f"for {us / 1e6:.1f} s of the measured window a thread that only sleeps did not get the processor, while "
        "programs of this host used it: the brokers' part of that cannot be told from the host's, so it counts"
    )


def _taken(samples: Sequence[StatsSample]) -> Iterator[_Window]:
    """Stretches in which others took the host, as far as it was recorded when each began."""
    before_us: int | None = None
    for sample in samples:
        if not isinstance(sample, Resources) or sample.source != HOST:
            continue
        others = sample.values.get(FOREIGN_SHARE, 0.0) + sample.values.get(STEAL_SHARE, 0.0)
        if before_us is not None and others >= CRITERIA.taken_share_at_once_max:
            yield before_us, sample.t_us
        before_us = sample.t_us
    yield from ((stall.t_us - stall.took_us, stall.t_us) for stall in _stalls(samples) if _is_of_the_host(stall))


def _stalls(samples: Iterable[StatsSample]) -> Iterator[StallSample]:
    return (sample for sample in samples if isinstance(sample, StallSample))


def _is_of_the_host(stall: StallSample) -> bool:
    """Other guests took the processor, or nobody here used it and a thread that wanted it did not get it."""
    if stall.stolen_share >= CRITERIA.taken_share_at_once_max:
        return True
    return stall.late_us >= CRITERIA.stall_us_min and stall.busy_share <= CRITERIA.stall_busy_share_max


def _length_us(stretches: Iterable[_Window], window_us: _Window) -> int:
    """How much of the window they cover together."""
    covered, end_us = 0, window_us[0]
    for first_us, last_us in sorted(stretches):
        begin, end = max(first_us, end_us), min(last_us, window_us[1])
        if end > begin:
            covered, end_us = covered + end - begin, end
    return covered
