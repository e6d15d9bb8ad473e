"""The suites that come with the package: each loads, plans, has a page, and carries no finding that is not meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.lint import findings_of, lint
from harness.plan import build_plan
from harness.run.time_left import CELL_OVERHEAD_MS, CHAOS_OVERHEAD_MS
from harness.scenarios import cases_of
from harness.suite import builtin_suites, load_suite

ROOT = Path(__file__).parents[2]
READY = (
    "sweep", "throughput-ceiling", "latency-at-rate", "catch-up", "many-partitions", "small-records", "compression",
    "beside-perf-test", "transactions",
)  # fmt: skip


def test_all_ready_suites_are_there() -> None:
    assert {*READY, "smoke", "demo"} <= set(builtin_suites())


@pytest.mark.parametrize("name", READY)
def test_a_ready_suite_plans_within_the_time_that_it_states_and_has_a_page(name: str) -> None:
    suite = load_suite(name)
    cells = build_plan(suite, cases_of, seed=suite.seed, client=suite.client)
    overhead = {"sweep": CELL_OVERHEAD_MS, "ceiling": CELL_OVERHEAD_MS, "chaos": CHAOS_OVERHEAD_MS}
    minutes = sum(cell.duration_ms + overhead[cell.kind] for cell in cells) / 60_000
    stated = re.search(r"(\d+) minutes?", suite.description)
    assert stated, suite.description
    assert 0.4 * int(stated.group(1)) <= minutes <= 1.1 * int(stated.group(1)), minutes
    page = (ROOT / "docs" / "guide" / "suites" / f"{name}.md").read_text()
    assert f"harness run {name}" in page
    assert stated.group(0).split()[0] in page


@pytest.mark.parametrize("name", builtin_suites())
def test_a_suite_of_ours_has_no_finding_that_it_does_not_accept_and_accepts_none_that_does_not_occur(name: str) -> None:
    suite = load_suite(name)
    cells = build_plan(suite, cases_of, seed=suite.seed, client=suite.client)
    assert findings_of(suite, cells) == []
    assert {finding.rule for finding in lint(cells)} == set(suite.accepted_findings)
    assert all(suite.accepted_findings.values()), "each with its reason"


@pytest.mark.parametrize("words", [["bench"], ["run", "orders.yaml"]])
def test_what_the_command_line_makes_has_no_finding(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert execute(["init", "suite"]) == ExitCode.PASS
    assert execute([*words, "--dry-run", "--strict"] if words[0] == "run" else [*words, "--dry-run"]) == ExitCode.PASS
    assert "lint:" not in capsys.readouterr().err


def test_an_accepted_finding_that_is_no_rule_is_told(tmp_path: Path) -> None:
    text = (ROOT / "harness" / "templates" / "orders.yaml").read_text()
    (tmp_path / "x.yaml").write_text(f"{text}accepted_findings: {{one-clustr: we have one}}\n")
    suite = load_suite(str(tmp_path / "x.yaml"))
    with pytest.raises(
        UsageError, match=r"x.yaml:\d+: .*one-clustr is no rule of the lint; did you mean 'one-cluster'"
    ):
        findings_of(suite, ())


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
