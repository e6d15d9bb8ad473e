"""A plan is a pure function of suite and seed, and from a sweep's cells each setting's effect can be read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.model import Scenario
from harness.plan import ScenarioCase, build_plan, ceiling_id
from harness.run.time_left import key_of
from harness.suite import ChaosEntry, Suite, load_suite
from runlog.records.cell import Expectation, Expectations, Shown
from workloads.model import Closed


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


@pytest.mark.parametrize(("of_suite", "of_scenario", "planned"), [(1, 1, 1), (1, 2, 2), (3, 2, 3)])
def test_a_chaos_cell_has_the_log_directories_that_its_scenario_needs(
    demo: Suite, of_suite: int, of_scenario: int, planned: int
) -> None:
    def cases(entry: ChaosEntry) -> Sequence[ScenarioCase]:
        return [
            replace(case, scenario=case.scenario.model_copy(update={"log_directories": of_scenario}))
            for case in two_cases(entry)
        ]

    suite = demo.model_copy(
        update={
            "cluster": demo.cluster.model_copy(update={"log_directories": of_suite}),
            "chaos": [ChaosEntry(scenario="leader-kill")],
        }
    )
    cells = build_plan(suite, cases, seed=1, client="x")
    assert {cell.record.log_directories for cell in cells if cell.kind == "chaos"} == {planned}
    assert {cell.record.log_directories for cell in cells if cell.is_of_sweep} == {of_suite}
    assert {key_of(cell, engine="reference", brokers=3).log_directories for cell in cells} == {of_suite, planned}


@pytest.mark.parametrize(
    ("of_suite", "of_scenario", "planned"), [((), (), ()), (("a",), (), ("a",)), (("a",), ("b", "c"), ("b", "c"))]
)
def test_a_chaos_cell_has_the_racks_of_its_scenario_or_else_of_its_suite(
    demo: Suite, of_suite: tuple[str, ...], of_scenario: tuple[str, ...], planned: tuple[str, ...]
) -> None:
    def cases(entry: ChaosEntry) -> Sequence[ScenarioCase]:
        return [
            replace(case, scenario=case.scenario.model_copy(update={"racks": of_scenario})) for case in two_cases(entry)
        ]

    suite = demo.model_copy(
        update={
            "cluster": demo.cluster.model_copy(update={"racks": of_suite}),
            "chaos": [ChaosEntry(scenario="leader-kill")],
        }
    )
    cells = build_plan(suite, cases, seed=1, client="x")
    assert {cell.racks for cell in cells if cell.kind == "chaos"} == {planned}
    assert {cell.racks for cell in cells if cell.is_of_sweep} == {of_suite}
    assert {key_of(cell, engine="reference", brokers=3).racks for cell in cells} == {of_suite, planned}


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


def test_the_demo_varies_the_settings_that_people_ask_about(demo: Suite) -> None:
    cells = build_plan(demo, no_cases, seed=7, client="reference")
    baseline = next(cell for cell in cells if cell.baseline)
    for name in ("batch.size", "linger.ms", "compression.type", "acks", "enable.idempotence"):
        assert any(cell.properties[name] != baseline.properties[name] for cell in cells), name


def test_each_round_measures_each_configuration_at_its_rate_and_at_its_ceiling_in_drawn_order(demo: Suite) -> None:
    cells = build_plan(demo, no_cases, seed=7, client="reference")
    rounds = [[cell for cell in cells if cell.record.round_number == number] for number in (1, 2)]
    assert [*rounds[0], *rounds[1]] == list(cells), "the second round begins when the first has ended"
    orders = []
    for own in rounds:
        paced = [cell for cell in own if cell.kind == "sweep"]
        ceilings = {cell.cell_id: cell for cell in own if cell.kind == "ceiling"}
        assert {ceiling_id(cell.cell_id) for cell in paced} == set(ceilings)
        for cell in paced:
            other = ceilings[ceiling_id(cell.cell_id)]
            assert (other.properties, other.record.factors) == (cell.properties, cell.record.factors)
        assert [cell.kind for cell in own] != sorted(cell.kind for cell in own), "the two kinds are mixed"
        orders.append([cell.cell_id.rpartition("-")[0] for cell in own])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_a_ceiling_is_a_closed_loop_without_readers_and_the_rate_stays_that_of_the_suite(demo: Suite) -> None:
    assert demo.sweep is not None
    assert demo.sweep.ceiling is not None
    for cell in build_plan(demo, no_cases, seed=7, client="reference"):
        if cell.kind == "ceiling":
            assert cell.workload.schedule == Closed(kind="closed", outstanding=demo.sweep.ceiling.outstanding)
            assert cell.workload.consumers == 0
            assert cell.duration_ms == demo.sweep.ceiling.warmup_ms + demo.sweep.ceiling.measure_ms
        else:
            assert cell.workload == demo.workload


def test_the_sweep_may_have_a_client_of_its_own(demo: Suite) -> None:
    assert demo.sweep_client == demo.client
    cells = build_plan(demo, two_cases, seed=7, client="reference", sweep_client="confluent")
    assert {(cell.kind == "chaos", cell.client) for cell in cells} == {(True, "reference"), (False, "confluent")}


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
    for cell_id in ("sweep-acks-1-r1", "ceiling-acks-1-r2"):
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
    once = demo.model_copy(update={"sweep": demo.sweep.model_copy(update={"repetitions": 1})})
    ids = [cell.cell_id for cell in build_plan(demo, no_cases, seed=7, client="reference")]
    again_of_baseline = 4  # paced and at its ceiling, in each round
    assert len(ids) == len(set(ids))
    assert len(ids) == 2 * len(build_plan(once, no_cases, seed=7, client="reference")) + again_of_baseline
    assert {"sweep-baseline-r2", "ceiling-baseline-r2"} <= set(ids)


def test_the_baseline_runs_twice_in_each_round_where_four_others_share_it(demo: Suite) -> None:
    def runs(**changes: object) -> dict[int, list[str]]:
        assert demo.sweep is not None
        suite = demo.model_copy(update={"sweep": demo.sweep.model_copy(update={"ceiling": None, **changes})})
        found: dict[int, list[str]] = {}
        for cell in build_plan(suite, no_cases, seed=7, client="reference"):
            if cell.baseline:
                found.setdefault(cell.record.round_number, []).append(cell.cell_id)
        return {number: sorted(ids) for number, ids in sorted(found.items())}

    assert runs() == {
        1: ["sweep-baseline-r1", "sweep-baseline-r3"],
        2: ["sweep-baseline-r2", "sweep-baseline-r4"],
    }
    once = {1: ["sweep-baseline-r1"], 2: ["sweep-baseline-r2"]}
    assert runs(forks=2) == runs(baseline_runs=1) == once, "on clusters of their own the clusters are the samples"
    assert demo.sweep is not None
    assert runs(vary={"linger.ms": demo.sweep.vary["linger.ms"]}) == once, "too few to pay for it"
    assert runs(repetitions=1) == {1: ["sweep-baseline"]}
    seeds = {cell.cell_id: cell.draw_seed for cell in build_plan(demo, no_cases, seed=7, client="reference")}
    assert seeds["sweep-baseline-r3"] == seeds["sweep-baseline-r1"], "one round has one sequence of arrivals"
