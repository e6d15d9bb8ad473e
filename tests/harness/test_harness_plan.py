"""A plan is a pure function of suite and seed, and from a sweep's cells each setting's effect can be read off."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model import Scenario
from harness.plan import ScenarioCase, build_plan
from harness.suite import KNOBS, ChaosEntry, Suite, load_suite
from runlog.records.cell import Expectation, Expectations, Shown


def no_cases(_entry: ChaosEntry) -> Sequence[ScenarioCase]:
    return ()


def two_cases(entry: ChaosEntry) -> Sequence[ScenarioCase]:
    scenario = Scenario.model_validate(
        {
            "name": entry.scenario, "title": "t", "damage": "loss", "source": "s",
            "timeline": [{"id": "in-sync", "when": "isr == 3"}],
            "cases": {
                name: {"title": name, "expect": {"lost": lost}, "properties": {"acks": name}}
                for name, lost in (("1", "predicted"), ("all", "none"))
            },
        }
    )  # fmt: skip
    return [ScenarioCase(reference=entry.scenario, scenario=scenario, name=name) for name in scenario.cases]


@pytest.fixture(scope="module")
def demo() -> Suite:
    return load_suite("demo")


@settings(deadline=None)  # reads a file each time: slow on a busy host
@given(seed=st.integers(min_value=0, max_value=2**32))
@pytest.mark.thorough
def test_plan_is_determined_by_the_seed(seed: int) -> None:
    suite = load_suite("smoke")
    assert build_plan(suite, two_cases, seed=seed, client="x") == build_plan(suite, two_cases, seed=seed, client="x")


def test_another_seed_shuffles_the_same_cells(demo: Suite) -> None:
    orders = [[cell.cell_id for cell in build_plan(demo, no_cases, seed=seed, client="x")] for seed in range(8)]
    assert len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_demo_sweep_has_at_least_twelve_cells_over_all_five_knobs(demo: Suite) -> None:
    cells = build_plan(demo, no_cases, seed=7, client="reference")
    assert 12 <= len(cells) <= 14
    baseline = next(cell for cell in cells if cell.baseline)
    for knob in KNOBS:
        assert any(cell.record.knobs[knob] != baseline.record.knobs[knob] for cell in cells), knob


def test_each_sweep_cell_differs_from_the_baseline_by_one_setting_and_what_that_demands(demo: Suite) -> None:
    cells = build_plan(demo, no_cases, seed=7, client="reference")
    baseline = next(cell for cell in cells if cell.baseline)
    for cell in cells:
        changed = {name for name in cell.properties if cell.properties[name] != baseline.properties.get(name)}
        if cell.baseline:
            assert changed == set()
        else:
            assert cell.record.changed in changed
            assert changed == {cell.record.changed} or cell.record.note, (
                f"{cell.cell_id} changes {changed} and does not say why"
            )


def test_acks_below_all_turn_idempotence_off_and_say_so(demo: Suite) -> None:
    cells = {cell.cell_id: cell for cell in build_plan(demo, no_cases, seed=7, client="reference")}
    for cell_id in ("sweep-acks-0", "sweep-acks-1"):
        assert cells[cell_id].properties["enable.idempotence"] == "false"
        assert "idempotence" in cells[cell_id].title


def test_cell_ids_are_safe_as_directory_names(demo: Suite) -> None:
    for cell in build_plan(demo, two_cases, seed=7, client="reference"):
        assert "=" not in cell.cell_id
        assert "/" not in cell.cell_id
        assert cell.marked("harness-1").topic_name == f"harness-1-{cell.cell_id}"


def test_chaos_cells_are_proxied_and_carry_the_case_over_the_baseline(demo: Suite) -> None:
    cells = [cell for cell in build_plan(demo, two_cases, seed=7, client="reference") if cell.kind == "chaos"]
    first = cells[0]
    assert (first.cell_id, first.record.proxied, first.properties["acks"]) == ("chaos-leader-loss-1", True, "1")
    assert first.record.expect == Expectations(
        lost=Expectation.PREDICTED, lost_unacked=Shown.NONE, passed_over=Shown.NONE
    )
    assert first.properties["batch.size"] == "16384"


def test_repetitions_have_ids_of_their_own(demo: Suite) -> None:
    assert demo.sweep is not None
    twice = demo.model_copy(update={"sweep": demo.sweep.model_copy(update={"repetitions": 2})})
    ids = [cell.cell_id for cell in build_plan(twice, no_cases, seed=7, client="reference")]
    assert len(ids) == len(set(ids)) == 2 * len(build_plan(demo, no_cases, seed=7, client="reference"))
    assert "sweep-baseline-r2" in ids
