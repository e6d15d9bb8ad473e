"""Planted histories are found exactly, and plain loops agree: on them, and on random disorder."""

from __future__ import annotations

import random
from typing import Any

import pytest

from reports.jepsen.anomalies import RULES, cases_of
from reports.jepsen.cycles import cycle_cases
from reports.jepsen.facts import Removed, facts_of
from reports.jepsen.operations import History, history_of, line_of, read_history
from tests.amount import examples, seeds
from tests.reports.jepsen_histories import PLANTS, Book, calm, disorder, planted
from tests.reports.naive_jepsen import Naive

_HISTORIES = 1_000


def _found(history: History, removed: Removed | None = None) -> dict[str, set[tuple[Any, ...]]]:
    facts = facts_of(history, removed)
    found: dict[str, set[tuple[Any, ...]]] = {}
    cases = [*cases_of(facts), *cycle_cases(facts)]
    for case in cases:
        found.setdefault(case.anomaly, set()).add(case.identity)
    assert sum(map(len, found.values())) == len(cases), "each case has an identity of its own"
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(4))
def test_planted_anomalies_are_found_to_the_case_and_nothing_else(part: int) -> None:
    for seed in range(part, examples(_HISTORIES), 4):
        book = planted(seed)
        history = history_of(book.lines)
        assert _found(history) == book.expected, f"seed {seed}"
        assert Naive(history.operations).found() == book.expected, f"seed {seed}: the plain loops"


def test_every_anomaly_is_planted() -> None:
    names = {name for seed in range(len(PLANTS)) for name in planted(seed).expected}
    assert names == set(RULES)


def test_a_calm_history_shows_nothing() -> None:
    for seed in seeds(100, fast=20):
        book = Book(random.Random(seed))
        calm(book, steps=30)
        assert _found(history_of(book.lines)) == {}, f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(4))
def test_random_disorder_is_judged_as_by_plain_loops(part: int) -> None:
    for seed in range(part, examples(4_000), 4):
        operations = disorder(seed)
        rng = random.Random(f"removed {seed}")
        removed = {rng.randrange(3): ((low := rng.randrange(6), low + rng.randint(1, 4)),)} if seed % 3 == 0 else {}
        history = History(operations=tuple(operations), lines=len(operations), settings={})
        assert _found(history, removed) == Naive(operations, removed).found(), f"seed {seed}"


def test_disorder_meets_every_anomaly() -> None:
    names = {name for seed in range(300) for name in _found(_of(disorder(seed)))}
    assert names == set(RULES)


def _of(operations: list[Any]) -> History:
    return History(operations=tuple(operations), lines=len(operations), settings={})


def test_a_planted_history_says_the_same_after_it_was_text() -> None:
    for seed in range(examples(200)):
        book = planted(seed)
        text = "".join(f"{line_of(line)}\n" for line in book.lines)
        assert _found(read_history(text)) == book.expected, f"seed {seed}"
