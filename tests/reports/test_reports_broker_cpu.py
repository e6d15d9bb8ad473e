"""CPU per record with and without the brokers' compilers, on planted compiler time; older runs stay as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reports.figures import generator
from reports.figures.compare.comparison import compare, pair_up
from reports.figures.compare.confirm import CONFIRMED, WORSE, compiler_aside, confirm, values_of
from reports.figures.compare.likeness import compare_surroundings
from reports.figures.sweep.behaviour import behaviour_of
from reports.figures.sweep.figures import sweep_figures
from reports.judge.broker_cpu import broker_cpu, still_warming
from reports.read.model import CellFacts
from reports.render.results import write_measurements
from reports.render.sweep_json import sweep_record
from runlog.records.codec import from_document, to_json
from runlog.records.results import read_measurements
from runlog.records.run import RunRecord
from tests.reports.cells import changed, stats_of
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged, measured, predicted_figures

NOWHERE = from_document(RunRecord, {})


def cell(
    linger: str = "5", *, cpu_us: float = 60.0, compiler_us: float | None = 30.0, repetition: int = 1
) -> CellFacts:
    return cell_facts(
        {**BASELINE, "linger.ms": linger}, p99_us=10_000, cpu_us=cpu_us, compiler_us=compiler_us, collector_us=6.0,
        repetition=repetition, engine="kafka",
    )  # fmt: skip


def test_what_the_compiler_took_is_told_apart_and_the_collector_stays_in() -> None:
    found = broker_cpu(cell())
    assert found is not None
    assert found.whole_us == pytest.approx(90)
    assert found.compiler_us == pytest.approx(30)
    assert found.lasting_us == pytest.approx(60)
    assert found.collector_us == pytest.approx(6)
    assert found.compiler_share == pytest.approx(1 / 3)


def test_a_burst_of_the_compiler_is_no_scatter_of_what_stays() -> None:
    for compiler_us in (None, 300.0):
        found = behaviour_of(cell(compiler_us=compiler_us))
        assert found.broker_cpu_log_error == pytest.approx(0.0, abs=1e-9)


def test_without_samples_of_the_compiler_the_whole_is_all_there_is() -> None:
    found = broker_cpu(cell(compiler_us=None))
    assert found is not None
    assert (found.compiler_us, found.collector_us, found.compiler_share) == (None, None, None)
    assert found.lasting_us == found.whole_us == pytest.approx(60)


def test_a_broker_that_was_started_again_has_no_figure() -> None:
    facts = cell()
    again = [{**line, "t_us": line["t_us"]} for line in stats_of(facts.cell)]
    half = len(again) // 2
    for line in again[half:]:
        line["values"] = {**line["values"], "cpu_s": line["values"]["cpu_s"] / 100}
    assert broker_cpu(replace(facts, cell=changed(facts.cell, stats=tuple(again)))) is None


def test_a_cell_whose_brokers_still_compile_is_marked_and_keeps_its_figures() -> None:
    cells = [cell("0", compiler_us=1.0), cell("5", compiler_us=60.0)]
    items = judged(cells)
    found = analysed(judged([*cells]))
    assert [bool(item.warming) for item in found.observations] == [False, True]
    assert found.observations[1].values["broker_cpu"] == pytest.approx(60)
    assert "p99" in found.observations[1].values
    warming = "1 of 2 cells of the sweep ran on brokers that were still warming"
    assert any(line.startswith(warming) for line in found.warnings)
    assert "brokers still warming: their just-in-time compilers took 50% of" in items[1].verdict.notes[0]
    assert items[0].verdict.notes == ()
    assert "brokers still warming" in generator.mark(items[1])
    assert generator.mark(items[0]) == ""


def test_cells_whose_brokers_a_fault_restarts_are_not_marked() -> None:
    facts = cell_facts(BASELINE, p99_us=1e4, compiler_us=500.0, kind="chaos")
    assert still_warming(facts) == ""
    assert still_warming(cell_facts(BASELINE, p99_us=1e4, compiler_us=500.0)) != ""


def test_a_sweep_compares_what_stays_and_shows_the_compiler_beside_it() -> None:
    """The older brokers of the later cells compile less; by the whole the first configuration would look dear."""
    noise = (0.98, 1.0, 1.02)
    cells = [cell("0", cpu_us=50 * n, compiler_us=200.0, repetition=r) for r, n in enumerate(noise, 1)]
    cells += [cell("5", cpu_us=60 * n, compiler_us=10.0, repetition=r) for r, n in enumerate(noise, 1)]
    found = analysed(judged([*cells]))
    levels = {dict(p.configuration)["linger.ms"]: p.levels["broker_cpu"].ratio[0] for p in found.points}
    assert levels == {"0": pytest.approx(50, rel=0.01), "5": pytest.approx(60, rel=0.01)}
    assert not any("was not recorded" in line for line in found.warnings)
    document = to_json(sweep_record(sweep_figures(found), analysis_id=""))["recommendation"]
    assert document["settings"] == {"linger.ms": "0"}
    assert document["predicted"]["broker_cpu"]["compiler"] == pytest.approx(200)
    assert any("they took 200 µs a record" in line for line in document["sentences"])


def test_an_older_run_says_that_the_compiler_is_in_its_figures() -> None:
    twice = [cell(linger, compiler_us=None, repetition=number) for linger in ("0", "5") for number in (1, 2)]
    found = analysed(judged([*twice]))
    assert any("just-in-time compilers took was not recorded" in line for line in found.warnings)
    assert (
        "compiler"
        not in to_json(sweep_record(sweep_figures(found), analysis_id=""))["recommendation"]["predicted"]["broker_cpu"]
    )
    reference = [cell_facts({**BASELINE, "linger.ms": value}, p99_us=1e4) for value in ("0", "5")]
    assert not any("just-in-time" in line for line in analysed(judged([*reference])).warnings)


def test_a_confirmation_holds_like_against_like(tmp_path: Path) -> None:
    cells = [cell(cpu_us=60 * n, compiler_us=150.0, repetition=r) for r, n in enumerate((0.99, 1.0, 1.01), 1)]
    write_measurements(tmp_path, measured(judged(cells)))
    read_back = read_measurements(tmp_path)
    assert [one.compiler_us_per_record for one in read_back] == [pytest.approx(150)] * 3
    figure = {"value": 60.0, "low": 55.0, "high": 65.0, "unit": "µs"}
    told = predicted_figures({"broker_cpu": {**figure, "compiler": 20.0}})
    [found] = confirm(told, values_of(told, read_back))
    assert found.result == CONFIRMED
    aside = compiler_aside(told, read_back)
    assert aside is not None
    assert (aside.predicted, aside.measured) == (20.0, pytest.approx(150))
    older = predicted_figures({"broker_cpu": figure})  # contains its compiler
    [found] = confirm(older, values_of(older, read_back))
    assert found.result == WORSE
    assert found.measured is not None
    assert found.measured[0] == pytest.approx(210, rel=0.01)
    assert compiler_aside(older, read_back) is None


def test_a_run_is_compared_with_an_older_one_by_the_whole() -> None:
    base, new = measured(judged([cell(compiler_us=None)])), measured(judged([cell(cpu_us=60, compiler_us=30)]))
    for one, other, expected in ((base, new, (60, 90)), (new, base, (90, 60)), (new, new, (60, 60))):
        [row] = [row for row in compare(pair_up(one, other)).rows if row.measure == "broker_cpu"]
        assert (row.base, row.new) == (pytest.approx(expected[0]), pytest.approx(expected[1]))
    warnings = compare_surroundings(NOWHERE, NOWHERE, [(base, new)]).warnings
    assert any("broker CPU of both runs contains" in line for line in warnings)
    assert not any(
        "broker CPU" in line for line in compare_surroundings(NOWHERE, NOWHERE, [(new, new), (base, base)]).warnings
    )
