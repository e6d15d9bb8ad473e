"""`python -m reports.judge.limit_page > docs/reference/limits.md`: every figure that a limit may name."""

from __future__ import annotations

from reports.judge.figure import Better
from reports.judge.limit_figures import FIGURES, RUN_FIGURES, SYNONYMS

_WORDS = {Better.LOW: "less is better", Better.HIGH: "more is better", Better.NEITHER: ""}
_HEAD = """# Figures for limits

A limit of a suite compares one of these figures with a number, or with the baseline's figure
([Limits](../guide/limits.md)). Units stand in the names.
The figures with a direction are those that a busy host makes worse.

A record that never was acknowledged, or end to end never was read, is infinitely late. A percentile that falls on such
records is not reached, and a limit on it is broken. So is a limit on the mean or the maximum, if there is one such
record.

Written by `python -m reports.judge.limit_page > docs/reference/limits.md`.

| figure | unit | what it is | |
|---|---|---|---|
"""


def page() -> str:
    rows = [
        f"| `{one.name}` | {one.unit} | {one.about.replace('|', chr(92) + '|')} | {_WORDS[one.better]} |"
        for one in FIGURES.values()
    ]
    synonyms = ", ".join(f"`{short}` means `{name}`" for short, name in SYNONYMS.items())
    of_run = "\n".join(f"- `{one.name}` ({one.unit}): {one.about}." for one in RUN_FIGURES.values())
    return _HEAD + "\n".join(rows) + f"\n\nShort names: {synonyms}.\n\nOf the run itself, not of a cell:\n\n{of_run}\n"


if __name__ == "__main__":
    print(page(), end="")
