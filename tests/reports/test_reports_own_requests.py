"""What the page says of a locustfile's requests: all names in the table, the most frequent ones over time."""

from __future__ import annotations

from typing import Any

from reports.figures.own_requests import SERIES_MAX, own_requests
from reports.read.cell import Cell
from tests.reports.cells import make_cell

DOCUMENT = {
    "workload": {"locust": {"file": "shop.py", "users": 5}},
    "outcome": {"started_us": 1_000_000, "ended_us": 9_000_000},
}


def second(t_us: int, name: str, requests: int, failures: int = 0, p99_us: int = 0) -> dict[str, Any]:
    return {"name": "requests", "t_us": t_us, "source": "send", "request": name, "requests": requests,
            "failures": failures, "p99_us": p99_us}  # fmt: skip


def whole(name: str, requests: int, failures: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": "requests_in_all", "t_us": 9_000_000, "source": "send", "request": name, "requests": requests,
            "failures": failures, **more}  # fmt: skip


def cell(*stats: dict[str, Any]) -> Cell:
    return make_cell(document=DOCUMENT, stats=stats)


def test_a_cell_without_a_locustfile_has_no_such_section() -> None:
    assert own_requests(make_cell()) is None


def test_rows_are_those_of_the_whole_with_the_most_frequent_first() -> None:
    found = own_requests(cell(whole("rare", 2, 1, errors={"no leader": 1}), whole("often", 10, p99_us=5_000)))
    assert found is not None
    assert [(row.name, row.requests, row.failed_share, row.errors) for row in found.rows] == [
        ("send often", 10, 0.0, ()),
        ("send rare", 2, 0.5, (("no leader", 1),)),
    ]
    assert (found.users, found.file) == (5, "shop.py")


def test_seconds_stand_for_a_whole_that_was_never_told() -> None:
    """The process was killed while a user waited in C, and the page said that no request was told."""
    found = own_requests(cell(second(2_000_000, "order", 4, 1, p99_us=9), second(4_000_000, "order", 2)))
    assert found is not None
    assert found.is_cut_short
    assert [(row.name, row.requests, row.failures, row.p99_us) for row in found.rows] == [("send order", 6, 1, None)]
    assert [point.requests for point in found.points] == [4, 0, 2]


def test_the_whole_that_was_told_last_counts() -> None:
    found = own_requests(cell(second(2_000_000, "order", 5), whole("order", 5), whole("order", 7)))
    assert found is not None
    assert not found.is_cut_short
    assert [row.requests for row in found.rows] == [7]


def test_a_second_without_a_request_is_drawn_as_none() -> None:
    found = own_requests(
        cell(second(2_000_000, "order", 4, p99_us=1_500), second(4_000_000, "order", 1, 1), whole("order", 5, 1))
    )
    assert found is not None
    assert [(point.t, point.requests, point.failures, point.p99_ms) for point in found.points] == [
        (1.0, 4, 0, 1.5),
        (2.0, 0, 0, None),
        (3.0, 1, 1, None),
    ]


def test_only_the_most_frequent_names_are_drawn() -> None:
    names = [f"n{number}" for number in range(SERIES_MAX + 2)]
    found = own_requests(
        cell(
            *(second(2_000_000, name, 10 - number) for number, name in enumerate(names)),
            *(whole(name, 10 - number) for number, name in enumerate(names)),
        )
    )
    assert found is not None
    assert {point.series for point in found.points} == {f"send {name}" for name in names[:SERIES_MAX]}
    assert len(found.rows) == SERIES_MAX + 2
    assert found.not_drawn == 2
