"""Columns that say nothing are named once, and everything else stays."""

from __future__ import annotations

from reports.figures.told_columns import told_columns


def test_columns_that_are_0_or_unknown_in_every_row_are_named_and_left_out() -> None:
    found = told_columns(["rate", "retries", "garbage"], [(5.0, 0.0, None), (None, 0.0, None)])
    assert (found.headings, found.rows) == (("rate",), ((5.0,), (None,)))
    assert found.left_out == "0 in every row: retries. Recorded in no row: garbage."
    assert told_columns(["retries"], [("0",), ("1",)]).left_out == ""


def test_of_one_row_nothing_is_left_out() -> None:
    assert told_columns(["retries"], [("0",)]).headings == ("retries",)
