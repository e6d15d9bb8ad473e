"""The benchmark of the load generator: what a ceiling is, and one small run with real processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.load_generator import Document, Measured, main, render

FINE = Measured(
    client="reference", processes=1, rate_per_s=50_000, scheduled=350_000, rows=350_000, acked=350_000,
    acked_per_s=50_000.0, lag_us_p50=400, lag_us_p99=1_500, lag_us_max=4_000, latency_us_p50=3_000,
    latency_us_p99=9_000, backpressure_sends=0, cpu_share_by_process=(0.4,), client_cpu_share=0.0,
    broker_cpu_share=0.1, gc_ms_max=0.5, hub_lag_us_p99=900,
)  # fmt: skip


def _document(*measured: Measured) -> Document:
    return Document(date="2026-01-01", command="x", host={"processor": "p"}, seconds=5.0, measured=list(measured))


def test_the_ceiling_is_the_highest_rate_below_the_first_that_failed() -> None:
    late = replace(FINE, rate_per_s=100_000, lag_us_p99=2_001)
    fine_again = replace(FINE, rate_per_s=150_000, acked_per_s=150_000.0)
    assert _document(fine_again, FINE, late).ceilings() == {("reference", 1): 50_000}
    assert _document(FINE, replace(fine_again, acked_per_s=149_000)).ceilings() == {("reference", 1): 150_000}


def test_a_rate_that_is_late_is_carried_as_long_as_acknowledgements_keep_up() -> None:
    late = replace(FINE, rate_per_s=100_000, acked_per_s=99_000, lag_us_p99=2_001)
    behind = replace(late, rate_per_s=150_000, acked_per_s=140_000)
    document = _document(FINE, late, behind)
    assert (document.ceilings(), document.carried()) == ({("reference", 1): 50_000}, {("reference", 1): 100_000})
    assert "| reference | 1 | 50,000 | 100,000 |" in render(document)


@pytest.mark.parametrize("change", [{"rows": 349_999}, {"acked": 349_999}, {"problem": "it ended"}])
def test_a_row_that_is_missing_or_an_error_is_beyond_the_ceiling(change: dict[str, object]) -> None:
    assert _document(replace(FINE, **change)).ceilings() == {("reference", 1): 0}  # type: ignore[arg-type]


def test_the_page_names_ceilings_and_what_was_measured() -> None:
    page = render(_document(FINE, replace(FINE, rate_per_s=100_000, problem="it ended")))
    assert "| reference | 1 | 50,000 |" in page
    assert "350,000 of 350,000" in page
    assert "it ended" in page


@pytest.mark.slow
def test_a_small_run_accounts_for_every_record(tmp_path: Path) -> None:
    main(
        ["--clients", "reference", "--rates", "2000", "--processes", "1", "--seconds", "1", "--results", str(tmp_path)]
    )
    (result,) = tmp_path.glob("*-load-generator.json")
    (found,) = json.loads(result.read_text())["measured"]
    assert found["problem"] == ""
    assert found["rows"] == found["acked"] == found["scheduled"] == 6_000
    assert found["lag_us_p50"] >= 0
    assert result.with_suffix(".md").exists()
