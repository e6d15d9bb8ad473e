"""Every broker mutant and buggy client has a scenario that must catch it; the tables in docs/ say whether it did."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest

from broker.mutants import MUTANTS
from chaos.model import builtin_scenarios, parse_scenario
from harness.mutation.hunt import BUGGY_CLIENTS, Caught, make_buggy_clients_known, read_run, scenario_text
from harness.mutation.page import MARKERS, TABLES, read_table, rewritten, table, with_table
from harness.mutation.trials import BROKER_TRIALS, CLIENT_TRIALS, SIMULATED_ONLY, Trial

ROOT = Path(__file__).parents[2]
GAPS = Path("docs/gaps.md")
TRIALS = (*BROKER_TRIALS, *CLIENT_TRIALS)


def test_every_mutant_is_tried_or_has_its_reason() -> None:
    named = [*{trial.mutant for trial in BROKER_TRIALS}, *SIMULATED_ONLY]
    assert sorted(named) == sorted(MUTANTS)


def test_every_buggy_client_is_tried() -> None:
    project = tomllib.loads((ROOT / BUGGY_CLIENTS / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"]["kafka_harness.clients"]) == {trial.client for trial in CLIENT_TRIALS}


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_a_trial_is_a_valid_scenario_with_one_case(trial: Trial) -> None:
    assert trial.scenario in builtin_scenarios()
    scenario = parse_scenario(scenario_text(trial))
    assert list(scenario.cases) == [trial.case]
    assert scenario.broker_settings.get("harness.mutant", "") == trial.mutant
    assert (scenario.name, scenario.clients) == (trial.name, ())


@pytest.mark.thorough
def test_the_table_is_replaced_between_its_markers_and_says_what_lives() -> None:
    dead = Caught(trial=BROKER_TRIALS[0], verdict="fail", by=("lost: none expected",), reason="")
    alive = Caught(trial=BROKER_TRIALS[1], verdict="pass", by=(), reason="")
    made = table("brokers", [dead, alive])
    assert "lost: none expected" in made
    assert "**lives** (pass)" in made
    begin, end = MARKERS["brokers"]
    assert with_table(f"# Head\n\n{begin}\nold\n{end}\n\ntail\n", "brokers", made) == f"# Head\n\n{made}\ntail\n"
    with pytest.raises(ValueError, match="has no"):
        with_table("# Head\n", "brokers", made)


def test_what_no_run_has_stays_as_the_table_has_it() -> None:
    dead = Caught(trial=BROKER_TRIALS[3], verdict="fail", by=("lost: none expected", "none x"), reason="")
    alive = Caught(trial=BROKER_TRIALS[1], verdict="inconclusive", by=(), reason="")
    page = f"# Head\n\n{table('brokers', [dead, alive])}"
    found = {each.trial.name: (each.verdict, each.by) for each in read_table(page, "brokers", BROKER_TRIALS)}
    assert found == {each.trial.name: (each.verdict, each.by) for each in (dead, alive)}
    assert read_table(page, "brokers", BROKER_TRIALS[4:]) == []


def test_the_trials_of_a_run_are_read_from_its_verdicts(tmp_path: Path) -> None:
    trial = CLIENT_TRIALS[0]
    passed, failed = ({"name": name, "result": name, "reason": "why"} for name in ("pass", "fail"))
    cell = {"cell_id": f"chaos-{trial.name}-{trial.case}", "verdict": "fail", "reasons": [], "checks": [passed, failed]}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "verdicts.json").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    assert read_run(CLIENT_TRIALS, tmp_path) == [Caught(trial=trial, verdict="fail", by=("fail",), reason="why")]


def test_each_has_its_row_in_docs_and_what_lives_is_named_as_a_gap() -> None:
    text, gaps = ((ROOT / page).read_text(encoding="utf-8") for page in (TABLES, GAPS))
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    for name in (*MUTANTS, *(trial.client for trial in CLIENT_TRIALS)):
        its = [line for line in rows if line.startswith(f"| `{name}` |")]
        assert its, f"no trial of {name}: python -m harness.mutation"
        assert f"`{name}`" in gaps or not all("**lives**" in line for line in its)


@pytest.mark.parametrize("kind", list(MARKERS))
def test_the_page_says_what_the_mutants_say_of_themselves(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    make_buggy_clients_known(tmp_path)
    page = TABLES.read_text(encoding="utf-8")
    assert rewritten(page, kind) == page, f"python -m harness.mutation {kind} --texts"
