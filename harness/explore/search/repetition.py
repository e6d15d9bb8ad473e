"""After so many repetitions: is a suspicion a finding, is it none, or are more repetitions needed? Pure.

A host that damages some of all trials, disturbed or not, must not have a client accused. So it counts in how many
repetitions the suspicion shows, and whether any control shows it; one control is enough to refute. Three repetitions
tell a bug that always shows from damage of the host. They do not tell one that shows in every second trial, and many
bugs are such: they depend on what is under way when a request is refused. Such a suspicion is repeated in rounds of
three, as long as its controls stay clean. Each round asks for more, so that a host has no better chance to have a
client accused than with six repetitions at the most, of which four are needed. decisions/0023-search.md has the
figures. Where there is no control, because nothing was disturbed, nothing protects the client in further rounds: there
are two at the most. Shown by tests/harness/test_harness_explore_repetition.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

REPETITIONS: Final = 3  # of one round, each beside its control


class Verdict(StrEnum):
    FINDING = "finding"
    MORE = "more repetitions"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """After each round: in how many of all repetitions it must have shown to be a finding, and to be repeated once
    more. After the last round it is never repeated."""

    needed: tuple[int, ...]
    to_go_on: tuple[int, ...]


BESIDE_CONTROLS: Final = Rule(needed=(3, 5, 6, 6, 7), to_go_on=(1, 2, 3, 4))
WITHOUT_CONTROLS: Final = Rule(needed=(3, 4), to_go_on=(2,))


def verdict(rule: Rule, rounds: int, shown: int, *, is_first_trial: bool) -> Verdict:
    """No control has shown it. `is_first_trial`: no other trial with this suspicion was repeated before and refuted.
    Otherwise one round is never enough: with several trials one of them shows it three times by chance sooner."""
    place = rounds - 1
    if shown >= rule.needed[place] and (place > 0 or is_first_trial):
        return Verdict.FINDING
    return Verdict.MORE if place < len(rule.to_go_on) and shown >= rule.to_go_on[place] else Verdict.NONE
