"""Cycles: components as by asking who reaches whom, least cycles as by measuring all ways, and no recursion."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from reports.jepsen.cycles import Edges, components, cycle_cases, least_cycle
from reports.jepsen.facts import facts_of
from reports.jepsen.operations import Action, History, Operation, Outcome, Send
from tests.amount import seeds
from tests.reports.jepsen_histories import Book, ring
from tests.reports.naive_jepsen import groups, reaches


def _edges(pairs: set[tuple[int, int]]) -> Edges:
    edges: Edges = {}
    for one, other in sorted(pairs):
        edges.setdefault(one, {})[other] = (0, one, other)
    return edges


def _random_pairs(rng: random.Random, nodes: int) -> set[tuple[int, int]]:
    pairs = {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randint(0, nodes * 2))}
    return {(one, other) for one, other in pairs if one != other}


def test_components_are_those_that_reach_one_another() -> None:
    for seed in seeds(400, fast=60):
        rng = random.Random(seed)
        pairs = _random_pairs(rng, rng.randint(2, 14))
        assert {frozenset(part) for part in components(_edges(pairs))} == groups(pairs), f"seed {seed}"


def test_the_cycle_that_is_shown_is_the_least_and_has_an_edge_of_the_kind() -> None:
    shown = 0
    for seed in seeds(400, fast=60):
        rng = random.Random(seed)
        nodes = rng.randint(2, 10)
        ww, wr = _random_pairs(rng, nodes), _random_pairs(rng, nodes)
        for part in components(_edges(ww | wr)):
            of_reads = [(one, other) for one, other in wr if one in part and other in part]
            if not of_reads:
                continue
            cycle = least_cycle(part, {"wr": _edges(wr), "ww": _edges(ww)}, ("wr",))
            distance = reaches(ww | wr)
            assert len(cycle.nodes) == min(1 + distance[other][one] for one, other in of_reads), f"seed {seed}"
            assert cycle.is_least
            assert "wr" in cycle.kinds
            for one, other, kind in zip(cycle.nodes, (*cycle.nodes[1:], cycle.nodes[0]), cycle.kinds, strict=True):
                assert (one, other) in (wr if kind == "wr" else ww - wr), f"seed {seed}: an edge that is none"
            shown += 1
    assert shown > 20


def test_a_search_that_reaches_its_bound_says_so() -> None:
    pairs = {(node, (node + 1) % 50) for node in range(50)} | {(10, 9)}
    whole = least_cycle(set(range(50)), {"ww": _edges(pairs)}, ("ww",))
    assert (len(whole.nodes), whole.is_least) == (2, True)
    cut = least_cycle(set(range(50)), {"ww": _edges(pairs)}, ("ww",), searched_max=10)
    assert (len(cut.nodes), cut.is_least) == (50, False)


def _calls(work: Callable[[], object]) -> int:
    """How many functions it calls, of Python and of C: the same on each host, unlike its time."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.thorough
def test_a_chain_of_a_hundred_thousand_operations_needs_no_recursion_and_one_look_at_each() -> None:
    count = 100_000
    pairs = {(node, node + 1) for node in range(count)}
    edges = _edges(pairs | {(count, count - 2)})
    assert components(edges) == [{count - 2, count - 1, count}]
    assert _calls(lambda: components(edges)) < 20 * count


@pytest.mark.thorough
def test_work_grows_with_the_operations_and_not_with_their_square() -> None:
    """Four times as many operations take less than five times as many calls. A quadratic rule would take sixteen."""

    def calls(count: int) -> int:
        operations = tuple(
            Operation(
                index=number, time_ns=number, type=Outcome.OK, process=number % 10, f=Action.TXN,
                value=(Send(number % 4, number, number), Send((number + 1) % 4, number, -number - 1)),
            )
            for number in range(count)
        )  # fmt: skip
        history = History(operations=operations, lines=count, settings={})
        return _calls(lambda: cycle_cases(facts_of(history)))

    assert 5_000 < calls(8_000) < 5 * calls(2_000)


def test_a_case_names_each_step() -> None:
    book = Book(random.Random(1))
    one, other = ring(book, ["ww", "wr"])
    (case,) = cycle_cases(facts_of(_history(book)))
    assert case.anomaly == "G1c"
    assert case.edges == ("wr", "ww")
    assert case.words == (
        f'operation {other} sent "v2" to key 102, read by operation {one}; '
        f'operation {one} sent "v1" to key 101 before "v3" of operation {other}'
    )


def _history(book: Book) -> History:
    done = tuple(line for line in book.lines if line.type is not Outcome.INVOKE)
    return History(operations=done, lines=len(book.lines), settings={})
