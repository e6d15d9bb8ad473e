"""A slow probe proves a delay only if no other one is quick (chaos/faults/probes.py)."""

from __future__ import annotations

import pytest

from chaos.faults.probes import Before, LinkProbe, quickest


@pytest.mark.parametrize(
    ("times_ms", "asked", "found_ms"),
    [
        ((120, 90, 100), 3, 90),  # all late: the fault is there
        ((120, 2, 100), 2, 2),  # the first was late because the host was busy
        ((1, 90, 100), 1, 1),
    ],
)
def test_a_slow_probe_proves_nothing_while_another_is_quick(
    times_ms: tuple[int, ...], asked: int, found_ms: int
) -> None:
    left = list(times_ms)

    def probe() -> LinkProbe:
        return LinkProbe(outcome="answered", elapsed_us=left.pop(0) * 1000)

    assert quickest(probe, lambda each: each.elapsed_us >= 80_000).elapsed_us == found_ms * 1000
    assert len(times_ms) - len(left) == asked


@pytest.mark.parametrize(
    ("found_us", "before_us", "tried"),
    [
        ([700, 400, 900, 1], 400, 3),
        ([33_000, 32_000, 31_000, 30_000, 600, 1], 600, 5),  # a broker that was just let run again
        ([30_000] * 20, 30_000, 12),  # a link that is slow by itself
        ([400_000] * 20, 400_000, 3),  # one between continents, over which twelve would take five seconds
    ],
)
def test_what_is_compared_with_is_no_moment_of_slowness(found_us: list[int], before_us: int, tried: int) -> None:
    left = list(found_us)
    before = Before()
    before.take(["client-1"], lambda link: LinkProbe(outcome="answered", elapsed_us=left.pop(0)))
    assert (before["client-1"], len(found_us) - len(left)) == (before_us, tried)
