"""Which configurations a sweep measures: one factor at a time, full grid, fractional factorial, Latin hypercube. Pure.

A level is a value of one setting. The baseline's own value is always one of the levels. Same input, same seed, same
configurations. Shown by tests/harness/test_harness_designs.py; the analysis of each is in
reports/figures/sweep/effects.py.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Final

from harness.errors import UsageError

Levels = Mapping[str, Sequence[str]]  # setting -> its values, the baseline's first
Design = tuple[dict[str, str], ...]

ONE_AT_A_TIME, GRID, FRACTIONAL, LATIN_HYPERCUBE = "one-at-a-time", "grid", "fractional", "latin-hypercube"
CONFIGURATIONS_MAX: Final = 512  # more would run for days; a fraction or a sample tells nearly as much

# Regular two-level fractions of resolution IV or more (Box, Hunter and Hunter, "Statistics for Experimenters", table of
# minimum aberration designs). Main effects are clear of all two-factor interactions. The table maps a number of factors
# to the number of basic factors, and for each further factor to the basic ones whose product it is.
_FRACTIONS: Final[Mapping[int, tuple[int, tuple[str, ...]]]] = {
    4: (3, ("ABC",)),
    5: (4, ("ABCD",)),
    6: (4, ("ABC", "BCD")),
    7: (4, ("ABC", "BCD", "ACD")),
    8: (4, ("BCD", "ACD", "ABC", "ABD")),
    9: (5, ("ABCD", "ABCE", "ABDE", "ACDE")),
    10: (5, ("ABCD", "ABCE", "ABDE", "ACDE", "BCDE")),
}


def one_at_a_time(levels: Levels) -> Design:
    """The baseline, then each other value alone."""
    base = _baseline(levels)
    return (base, *({**base, name: value} for name, values in levels.items() for value in values[1:]))


def grid(levels: Levels) -> Design:
    """Every combination; the baseline first. UsageError beyond the limit."""
    number = math.prod(len(values) for values in levels.values())
    if number > CONFIGURATIONS_MAX:
        sizes = " x ".join(str(len(values)) for values in levels.values())
        raise UsageError(
            f"sweep.design grid: {sizes} = {number:,} configurations, expected at most {CONFIGURATIONS_MAX}; "
            "use design fractional (two values a setting) or latin-hypercube"
        )
    return tuple(dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values()))


def fractional(levels: Levels) -> Design:
    """A regular two-level fraction, baseline first; up to three settings the whole grid."""
    wrong = [f"{name} has {len(values)}" for name, values in levels.items() if len(values) != 2]
    if wrong:
        raise UsageError(
            f"sweep.design fractional: every setting needs two values, the baseline's and one other; {', '.join(wrong)}"
        )
    names = list(levels)
    if len(names) < 4:
        return grid(levels)
    if len(names) not in _FRACTIONS:
        raise UsageError(f"sweep.design fractional: {len(names)} settings, expected at most {max(_FRACTIONS)}")
    basic, generators = _FRACTIONS[len(names)]
    rows = []
    for signs in itertools.product((1, -1), repeat=basic):
        products = [math.prod(signs["ABCDE".index(letter)] for letter in generator) for generator in generators]
        row = [*signs, *products]
        rows.append({name: levels[name][0 if sign == 1 else 1] for name, sign in zip(names, row, strict=True)})
    return tuple(rows)


def latin_hypercube(levels: Levels, samples: int, seed: int) -> Design:
    """The baseline and `samples` points. The values of each setting come equally often, in a random order.

    Several squares are drawn. The one with the least correlation between settings is taken, so that effects can be told
    apart.
    """
    if samples < 2:
        raise UsageError(f"sweep.samples is {samples}, expected at least 2")
    generator = random.Random(f"latin-hypercube/{seed}")
    best = min((_square(levels, samples, generator) for _ in range(200)), key=_entanglement)
    names = list(levels)
    points = [{name: levels[name][place] for name, place in zip(names, row, strict=True)} for row in best]
    base = _baseline(levels)
    unique = {tuple(point.items()): point for point in (base, *points)}
    return tuple(unique.values())


def _square(levels: Levels, samples: int, generator: random.Random) -> list[tuple[int, ...]]:
    columns = []
    for values in levels.values():
        places = [math.floor((stratum + 0.5) * len(values) / samples) for stratum in range(samples)]
        generator.shuffle(places)
        columns.append(places)
    return list(zip(*columns, strict=True))


def _entanglement(rows: Sequence[tuple[int, ...]]) -> float:
    """Largest correlation between two settings' places."""
    columns = list(zip(*rows, strict=True))
    return max(
        (abs(_correlation(one, other)) for one, other in itertools.combinations(columns, 2)),
        default=0.0,
    )


def _correlation(one: Sequence[int], other: Sequence[int]) -> float:
    mean_one, mean_other = sum(one) / len(one), sum(other) / len(other)
    product = sum((a - mean_one) * (b - mean_other) for a, b in zip(one, other, strict=True))
    square = sum((a - mean_one) ** 2 for a in one) * sum((b - mean_other) ** 2 for b in other)
    return product / math.sqrt(square) if square else 0.0


def _baseline(levels: Levels) -> dict[str, str]:
    return {name: values[0] for name, values in levels.items()}


def range_levels(start: float, end: float, number: int) -> list[str]:
    """`number` whole values from start to end, evenly by ratio (by difference when it starts at 0)."""
    if start > 0:
        values = [start * (end / start) ** (place / (number - 1)) for place in range(number)]
    else:
        values = [start + (end - start) * place / (number - 1) for place in range(number)]
    return list(dict.fromkeys(str(round(value)) for value in values))
