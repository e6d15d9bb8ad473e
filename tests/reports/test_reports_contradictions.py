"""A run log that says the opposite of itself carries no verdict, and says where; one that is sound is left alone."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from reports.evidence.contradictions import contradictions
from reports.read.cell import Cell
from reports.read.model import Counts
from tests.reports.cells import make_cell

NOTHING = pd.DataFrame()
LOG = pd.DataFrame({"partition": [0, 1], "end_offset": [10, 5], "records": [10, 5]})
BATCHES = pd.DataFrame({"partition": [0, 0, 1], "end_offset": [4, 10, 5], "records": [4, 6, 5]})


def cell(**final_read: Any) -> Cell:
    sound: dict[str, Any] = {"complete": True, "end_offsets": {"0": 10, "1": 5}, "records": 15, "foreign": 0}
    outcome = {"started_us": 1, "ended_us": 9, "final_read": sound | final_read}
    return make_cell(cell_id="c", document={"outcome": outcome})


@pytest.mark.parametrize(
    ("final_read", "batches", "expected"),
    [
        ({}, BATCHES, ""),
        ({}, NOTHING, ""),  # older runs may have none
        ({"end_offsets": {}}, BATCHES, ""),
        ({"end_offsets": {"0": 10, "1": 5, "2": 0}}, BATCHES, ""),  # an empty partition has nothing to contradict
        ({"complete": False, "records": 3}, BATCHES, ""),  # what was not read to its end is told as that
        ({"end_offsets": {"0": 9, "1": 5}}, NOTHING, "partition 0: a record at offset 9, its end offset is 9"),
        ({"end_offsets": {"0": 11, "1": 5}}, BATCHES, "partition 0: its batches end at 10, its end offset is 11"),
        ({"end_offsets": {"0": 10}}, BATCHES, "partition 1 holds records and the final read has no end offset of it"),
        ({}, BATCHES[:2], "partition 1: its batches end at nowhere, its end offset is 5"),
        ({"records": 16}, BATCHES, "the final read found 16 records, log and foreign ones are 15"),
        ({"records": 16, "foreign": 1}, BATCHES, "the batches have 15 records, log and foreign ones are 16"),
    ],
)
def test_the_final_read_agrees_with_its_streams(
    final_read: dict[str, Any], batches: pd.DataFrame, expected: str
) -> None:
    found = contradictions(cell(**final_read), Counts(), LOG, batches, NOTHING)
    assert (expected in found) if expected else (found == ())


def test_rows_that_are_there_twice_and_times_outside_of_the_cell() -> None:
    repeated = pd.DataFrame({"send_rows": [2], "log_rows": [1]})
    assert contradictions(cell(), Counts(intended_outside=4), LOG, BATCHES, repeated) == (
        "2 row(s) of send are there twice",
        "1 record(s) of log share their offset with another",
        "4 send(s) were due before the cell began or after it ended",
    )


def test_nobody_knows_when_a_cell_began_whose_harness_was_killed() -> None:
    killed = make_cell(cell_id="c", document={"outcome": {"started_us": 5}})
    assert contradictions(killed, Counts(intended_outside=4), LOG, BATCHES, NOTHING) == ()
