"""Every column of every table of results is described, has its unit in its name, and stands on the page."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import SET_KINDS, IdentitySet
from reports.render.csv_columns import COMMON, RENAMED, SETTING_PREFIX, TABLES, columns_page, meaning
from reports.render.csv_tables import write_tables
from reports.render.page import render
from reports.render.results import write_results
from runlog.streams.parquet import write_part
from runlog.streams.schema import LOG, STREAMS
from tests.reports.csv_headers import headers
from tests.reports.overview_runs import faulty, figures
from tests.reports.test_reports_reading import swept

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "results-tables.md"
# What a name must end with, or hold, if it is a time, a rate or a size.
_UNITLESS = re.compile(r"^(throughput|p99|rate|latency|duration|size|gap|ms|us|low_per_s)(_low|_high|_value)?$")


@pytest.mark.thorough
def test_every_column_is_described_and_nothing_is_described_that_is_not_written() -> None:
    written = headers()
    assert set(written) == set(TABLES)
    nameless = [(file, column) for file, own in written.items() for column in own if not meaning(file, column)]
    assert nameless == []
    for file, names in RENAMED.items():
        assert not set(names) & set(written.get(file, ())), f"{file} is written with its inner names"


def test_units_stand_in_the_names() -> None:
    bare = [(file, column) for file, own in headers().items() for column in own if _UNITLESS.match(column)]
    assert bare == []
    assert [name for name in COMMON if _UNITLESS.match(name)] == []


def test_cells_have_their_settings_and_repetition(tmp_path: Path) -> None:
    write_tables(tmp_path, swept())
    rows = list(csv.DictReader((tmp_path / "cells.csv").open()))
    assert {(row["repetition"], row[f"{SETTING_PREFIX}linger.ms"]) for row in rows} == {
        (str(number), value) for number in range(1, 5) for value in ("0", "50")
    }
    assert {row[f"{SETTING_PREFIX}acks"] for row in rows} == {"all"}


def test_what_was_aborted_as_planned_is_counted_by_itself(tmp_path: Path) -> None:
    cell = faulty()[1]
    counts = replace(cell.counts, sent_total=9, acked_total=7, failed_total=0, unknown_total=0, aborted_total=2)
    cell = replace(cell, counts=counts, observed={kind: IdentitySet() for kind in SET_KINDS})
    run = figures([Judged(facts=cell, verdict=judge(cell))])
    write_results(run, tmp_path)
    (row,) = csv.DictReader((tmp_path / "results" / "cells.csv").open())
    (found,) = json.loads((tmp_path / "results" / "verdicts.json").read_text())["cells"]
    assert (row["aborted"], row["unknown"]) == ("2", "0")
    assert {name: found[name] for name in ("sent", "acked", "failed", "unknown", "aborted")} == {
        "sent": 9, "acked": 7, "failed": 0, "unknown": 0, "aborted": 2
    }  # fmt: skip
    assert re.search(r'data-col="aborted"[^>]*>2</td>', render(run))


def test_the_page_is_what_is_written() -> None:
    assert PAGE.read_text() == columns_page(headers()), (
        "python -m tests.reports.csv_headers > docs/reference/results-tables.md"
    )


def test_parquet_carries_the_descriptions(tmp_path: Path) -> None:
    path = write_part(tmp_path, LOG, "c", {column.name: [1] for column in LOG.columns})
    found = pq.ParquetFile(path).schema_arrow
    assert found.metadata[b"description"] == b"kafka-harness run log, stream log"
    for column in STREAMS["log"].columns:
        assert found.field(column.name).metadata[b"description"].decode() == column.meaning
        assert found.field(column.name).metadata.get(b"unit", b"").decode() == column.unit


def test_columns_of_the_run_log_that_have_no_unit_are_numbers_codes_and_positions() -> None:
    """A new column with a unit in its name has one. One without must be named here."""
    bare = {column.name for stream in STREAMS.values() for column in stream.columns if not column.unit}
    assert bare == {
        *(
            "producer",
            "incarnation",
            "seq",
            "partition",
            "status",
            "error",
            "offset",
            "consumer",
            "generation",
            "crc_ok",
        ),
        *(
            "reader",
            "leader_epoch",
            "batch_base_offset",
            "base_offset",
            "last_offset",
            "records",
            "codec",
            "producer_id",
        ),
        *("producer_epoch", "base_sequence", "crc", "copier", "copier_incarnation", "txn", "outcome"),
    }
    assert all(column.meaning for stream in STREAMS.values() for column in stream.columns)
