"""A check as JSON and as lines for people."""

from __future__ import annotations

import json
import random

from reports.jepsen.check import CASES_MAX, check, removed_of, to_json, to_lines
from reports.jepsen.edn import Map
from reports.jepsen.operations import history_of, read_history
from reports.jepsen.terms import terms_of
from tests.reports import jepsen_histories as plants
from tests.reports.jepsen_histories import Book

TERMS = terms_of({})


def _book() -> Book:
    book = Book(random.Random(5))
    plants.write_cycle(book)
    plants.lost(book)
    return book


def test_what_is_not_lawful_comes_first_and_decides() -> None:
    checked = check(history_of(_book().lines), TERMS)
    assert [(found.anomaly, found.is_lawful) for found in checked.found] == [("lost-write", False), ("G0", True)]
    lines = list(to_lines(checked))
    assert lines[-1] == "fail: lost-write"
    assert lines[1].startswith("lost-write: 3, unlawful (enough in-sync replicas")


def test_a_history_without_anomalies_passes() -> None:
    book = Book(random.Random(2))
    plants.calm(book, steps=10)
    checked = check(history_of(book.lines), TERMS)
    assert checked.is_lawful
    assert list(to_lines(checked))[-1] == "pass: no anomaly that is not lawful"


def test_json_has_all_counts_and_a_bounded_number_of_cases() -> None:
    book = Book(random.Random(5))
    for _ in range(40):
        plants.lost(book)
    checked = check(history_of(book.lines), TERMS)
    document = json.loads(json.dumps(to_json(checked, source="h.edn", settings={"acks": "all"})))
    (lost,) = document["anomalies"]
    assert document["verdict"] == "fail"
    assert document["settings"] == {"acks": "all"}
    assert (lost["anomaly"], lost["lawful"]) == ("lost-write", "unlawful")
    assert lost["count"] == len(book.expected["lost-write"]) > CASES_MAX == len(lost["cases"])
    case = lost["cases"][0]
    key, value = next((key, value) for key, value in book.expected["lost-write"] if f'"{value}"' == case["identity"][1])
    assert case["identity"] == [str(key), f'"{value}"']
    assert [send.value for send in read_history(case["operations"][0]).operations[0].sends] == [value]


def test_values_that_are_sent_twice_are_noted() -> None:
    text = "\n".join(f"{{:type :ok, :f :send, :process {process}, :value [[:send 1 [0 :a]]]}}" for process in (0, 1))
    (note,) = check(read_history(text), TERMS).notes
    assert note.startswith("1 values were sent by several operations, e.g. :a to key 1.")


def test_what_may_have_been_removed_is_not_lost() -> None:
    book = Book(random.Random(5))
    plants.lost(book)
    keys = {key for key, _ in book.expected["lost-write"]}
    text_of = history_of(book.lines)
    removed = Map({key: ((0, 100),) for key in keys})
    settings = {"removed": removed}
    history = type(text_of)(operations=text_of.operations, lines=text_of.lines, settings=settings)
    assert check(history, TERMS).found == ()


def test_what_is_told_of_removals_in_another_shape_counts_for_nothing() -> None:
    assert removed_of({"removed": 3}) == {}
    assert removed_of({"removed": Map({1: 2})}) == {1: ()}
    assert removed_of({"removed": Map({1: ((0,), ("a", 2), 5, (0, 5))})}) == {1: ((0, 5),)}
