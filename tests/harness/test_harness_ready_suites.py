"""The suites that come with the package: each loads, plans, has a page, and carries no finding that is not meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.lint import lint
from harness.plan import build_plan
from harness.run.time_left import CELL_OVERHEAD_MS, CHAOS_OVERHEAD_MS
from harness.scenarios import cases_of
from harness.suite import builtin_suites, load_suite

ROOT = Path(__file__).parents[2]
READY = (
    "sweep", "throughput-ceiling", "latency-at-rate", "catch-up", "many-partitions", "small-records", "compression",
)  # fmt: skip
# Findings that belong to what the suite shows; its page says so.
MEANT = {
    "sweep": {"mixed-durability", "compression-of-made-up-data"},
    "throughput-ceiling": {"compression-of-made-up-data"},
    "latency-at-rate": {"too-short-for-p999"},
}


def test_all_ready_suites_are_there() -> None:
    assert {*READY, "smoke", "demo"} <= set(builtin_suites())


@pytest.mark.parametrize("name", READY)
def test_a_ready_suite_plans_within_the_time_that_it_states_and_has_a_page(name: str) -> None:
    suite = load_suite(name)
    cells = build_plan(suite, cases_of, seed=suite.seed, client=suite.client)
    overhead = {"sweep": CELL_OVERHEAD_MS, "chaos": CHAOS_OVERHEAD_MS}
    minutes = sum(cell.duration_ms + overhead[cell.kind] for cell in cells) / 60_000
    stated = re.search(r"(\d+) minutes?", suite.description)
    assert stated, suite.description
    assert 0.4 * int(stated.group(1)) <= minutes <= 1.1 * int(stated.group(1)), minutes
    page = (ROOT / "docs" / "guide" / "suites" / f"{name}.md").read_text()
    assert f"harness run {name}" in page
    assert stated.group(0).split()[0] in page
    assert {finding.rule for finding in lint(cells)} == MEANT.get(name, set())


def test_smoke_stays_below_two_minutes_and_has_a_page() -> None:
    suite = load_suite("smoke")
    cells = build_plan(suite, cases_of, seed=1, client="reference")
    assert sum(cell.duration_ms + CHAOS_OVERHEAD_MS for cell in cells) < 60_000
    assert "harness run smoke" in (ROOT / "docs" / "guide" / "suites" / "smoke.md").read_text()


def test_the_rate_search_has_a_page_and_stays_within_its_time() -> None:
    suite = load_suite("max-rate")
    assert suite.search is not None
    each_ms = suite.workload.warmup_ms + suite.workload.measure_ms + CELL_OVERHEAD_MS
    cells = suite.search.probes_max + suite.search.repetitions * len(suite.search.fractions)
    assert cells * each_ms / 60_000 < 5.5
    assert "harness run max-rate" in (ROOT / "docs" / "guide" / "suites" / "max-rate.md").read_text()


def test_the_corpus_is_found_beside_its_suite_and_a_missing_one_is_named(tmp_path: Path) -> None:
    corpus = load_suite("compression").workload.corpus
    assert corpus is not None
    assert corpus.is_absolute()
    assert len(corpus.read_text().splitlines()) == 700
    (tmp_path / "own.txt").write_text("one\n")
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nworkload: {rate_per_s: 10, corpus: own.txt}\nsweep: {baseline: {acks: all}, vary: {}}\n")
    assert load_suite(str(path)).workload.corpus == tmp_path / "own.txt"
    with pytest.raises(UsageError, match=r"--set workload.corpus=gone.txt: workload.corpus: no such file"):
        load_suite(str(path), ["workload.corpus=gone.txt"])
