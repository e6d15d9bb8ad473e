"""`python -m broker.sim.invariants_page`: writes the list of invariants into docs/internals/simulation.md.

Each line is the docstring of the invariant's class. The rest of the page is written by hand. Shown by
tests/broker_sim/test_sim_pages.py.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from broker.sim.invariants import INVARIANTS
from broker.sim.invariants.invariant import Group, Invariant

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "simulation.md"
BEGIN = "<!-- begin of the list that `python -m broker.sim.invariants_page` writes -->"
END = "<!-- end of the list -->"


def sentence(invariant: type[Invariant]) -> str:
    """The sentence that the invariant proves."""
    return " ".join((invariant.__doc__ or "").split())


def listed() -> str:
    lines: list[str] = []
    for group in Group:
        lines += ["", f"### {group.value}", ""]
        lines += [_line(each) for each in INVARIANTS if each.GROUP is group]
    return "\n".join([*lines, ""])


def _line(invariant: type[Invariant]) -> str:
    path = Path(inspect.getfile(invariant)).relative_to(ROOT)
    return f"- [{invariant.NAME}](../../{path}): {sentence(invariant)}"


def page(text: str) -> str:
    """The page with the present list. Raises ValueError if the page does not have the marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no list to be written: the marks {BEGIN!r} and {END!r} are missing")
    return f"{before}{BEGIN}\n{listed()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
