"""Capacity is of cells at the ceiling and p99 of cells at the common rate; a generator's limit is no capacity."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from reports.figures.cell import cell_figures
from reports.figures.compare.comparison import SAME, UNDECIDED, WHOLE_RUN, WORSE, compare, pair_up
from reports.figures.figures import figures_of
from reports.figures.measurements import measure
from reports.figures.overview.forest import forest_of
from reports.figures.overview.safety_cost import safety_cost
from reports.figures.overview.table import cell_table
from reports.figures.price import price_of_safety
from reports.figures.sweep.capacity import capacities
from reports.figures.sweep.figures import sweep_figures
from reports.figures.sweep.observations import CAPACITY, CLIENT_BOUND, OK, P99, THROUGHPUT, observe
from reports.figures.sweep.surface_names import ON_LOG_AXIS
from reports.figures.sweep.sweep_analysis import SweepAnalysis, analyse_sweep
from reports.judge.checks import PASS
from reports.judge.judged import Judged
from reports.judge.run_limits import run_limits
from reports.read.model import CellFacts
from reports.render.chart_payload import charts_of, payload
from reports.render.charts import specifications
from reports.render.markdown import summary
from reports.render.page import render
from runlog.records.cell import CellKind
from runlog.records.measurements import Measurement
from runlog.records.run import RunLimitRecord
from tests.reports.cells import changed, make_run, stats_of
from tests.reports.sweep_facts import BASELINE, cell_facts, judged

CHANGES = {"batch.size": "131072", "linger.ms": "50", "compression.type": "gzip", "acks": "1", "retries": "7"}
BASE = {**BASELINE, "retries": "5"}
CEILING_OF = {"131072": 2.0, "50": 1.0, "gzip": 0.5, "1": 1.5, "7": 1.002}
P99_OF = {"131072": 0.8, "50": 3.0, "gzip": 1.6, "1": 0.6, "7": 1.003}


def configurations() -> list[dict[str, str]]:
    return [BASE, *({**BASE, name: value} for name, value in CHANGES.items())]


def two_windows(*, rounds: int = 2, noise: float = 0.01, limited: Sequence[str] = ()) -> list[CellFacts]:
    """Each configuration in each round at 3,000 records/s and at its ceiling. `limited`: values whose ceilings are
    those of the load generator."""
    chance = random.Random(5)
    cells = []
    for number in range(1, rounds + 1):
        shift = chance.gauss(0, 0.1)  # of the whole round
        for own in configurations():
            changed = next((value for name, value in own.items() if value != BASE[name]), "")
            luck = [2.718 ** (shift + chance.gauss(0, noise)) for _ in range(2)]
            common = {"repetition": number, "baseline": not changed}
            properties = {"enable.idempotence": "false"} if own["acks"] == "1" else {}
            p99_us = 20_000 * P99_OF.get(changed, 1.0) * luck[0]
            cells.append(
                cell_facts(own, p99_us=p99_us, throughput=3000, asked=3000, properties=properties, **common)  # type: ignore[arg-type]  # the types of `common` are those of its parameters
            )
            at_most = cell_facts(
                own, p99_us=900_000, throughput=30_000 * CEILING_OF.get(changed, 1.0) * luck[1], kind="ceiling",
                cell_id=f"ceiling-{changed or 'baseline'}-r{number}", properties=properties,
                cpu_share=0.95 if changed in limited else 0.6, **common,  # type: ignore[arg-type]  # as above
            )  # fmt: skip
            cells.append(at_most)
    return cells


def analysed(cells: Sequence[CellFacts]) -> tuple[SweepAnalysis, list[Judged]]:
    items = judged(cells)
    found = analyse_sweep(items, observe(items))
    assert found is not None
    return found, items


def test_a_ceiling_gives_capacity_and_nothing_else() -> None:
    for item in observe(judged(two_windows())):
        wanted = {CAPACITY} if item.at_ceiling else {THROUGHPUT, P99, "broker_cpu", "wire_bytes"}
        assert set(item.values) == wanted, item.cell_id


def test_two_repetitions_give_intervals_that_hold_the_truth_and_call_the_small_effect_undecided() -> None:
    found, _ = analysed(two_windows())
    for name, truth in ((CAPACITY, CEILING_OF), (P99, P99_OF)):
        for effect in found.effects[name].effects:
            value, low, high = effect.estimate.ratio
            assert effect.repeated
            assert low < truth[effect.value] < high, f"{name} {effect.value}: {value:.3f} ({low:.3f} to {high:.3f})"
            assert effect.clear == (truth[effect.value] not in (1.0, 1.002, 1.003)), f"{name} {effect.value}"


def test_a_capacity_of_one_round_has_no_interval_that_holds_for_the_next() -> None:
    found, _ = analysed(two_windows(rounds=1))
    assert not found.means[CAPACITY].repeated
    forest = forest_of(found)
    assert forest is not None
    assert {value.judgement for row in forest.rows for value in row.values if value} == {"seen once"}


def test_where_the_generator_was_the_limit_no_capacity_is_claimed_and_the_cell_still_passes() -> None:
    found, items = analysed(two_windows(limited=["131072"]))
    own = [item for item in found.observations if dict(item.configuration)["batch.size"] == "131072"]
    assert {item.state for item in own if item.at_ceiling} == {CLIENT_BOUND}
    assert {item.state for item in own if not item.at_ceiling} == {OK}, "its latency is not touched"
    assert "131072" not in {effect.value for effect in found.effects[CAPACITY].effects}
    assert "131072" in {effect.value for effect in found.effects[P99].effects}
    assert {item.verdict.result for item in items} == {PASS}
    assert any("no capacity is claimed" in warning for warning in found.warnings)
    assert not any("131072" in cell_id for cell_id in capacities(found.observations))


def test_a_library_with_threads_outside_python_is_full_when_one_of_its_threads_is() -> None:
    health = {"cpu_share_by_process": [1.3], "cores_by_process": [[0, 1]]}
    room, full = ({**health, "thread_cpu_share_by_process": [share]} for share in (0.7, 0.9))
    for own, state in ((room, OK), (full, CLIENT_BOUND)):
        cells = [cell_facts(BASE, p99_us=1, throughput=9e4, kind="ceiling", health=own)]
        assert [item.state for item in observe(judged(cells))] == [state]


def test_a_client_whose_processor_time_nobody_recorded_claims_no_capacity() -> None:
    made = cell_facts(BASE, p99_us=1, throughput=9e4, kind="ceiling")
    java = replace(made, cell=replace(made.cell, record=replace(made.cell.record, client="java")))
    (item,) = observe(judged([java]))
    assert item.state == CLIENT_BOUND
    assert not item.values


def test_a_ceiling_that_is_the_librarys_stays_a_capacity_and_says_so_beside_the_figure() -> None:
    def with_confluent(made: CellFacts) -> CellFacts:
        return replace(made, cell=replace(made.cell, record=replace(made.cell.record, client="confluent")))

    words = "its capacity is the client library's"
    found, items = analysed([with_confluent(made) for made in two_windows()])
    forest = forest_of(found)
    assert forest is not None
    told = {row.label: row.warnings for row in forest.rows}
    assert told == {label: () if label == "acks=1" else (words,) for label in told}, "acks=1 is without idempotence"
    assert f"the baseline: {words}" in forest.warnings
    assert any("10 of 12 ceilings" in warning and "one request in flight" in warning for warning in found.warnings)
    assert "131072" in {effect.value for effect in found.effects[CAPACITY].effects}, "its users get no more"
    reasons = [check.reason for item in items for check in item.verdict.checks if check.name == "generator kept up"]
    assert sum("one request in flight" in reason for reason in reasons) == 10

    reference, _ = analysed(two_windows())
    other = forest_of(reference)
    assert other is not None
    assert words not in str(other)


def test_the_front_shows_capacity_p99_and_cpu_and_says_what_more_repetitions_would_decide() -> None:
    found, _ = analysed(two_windows())
    forest = forest_of(found)
    assert forest is not None
    assert [column.title for column in forest.columns][:2] == ["capacity", "p99"]
    rows = {row.label: row for row in forest.rows}
    capacity = rows["batch.size=131072"].values[0]
    assert capacity is not None
    assert capacity.judgement == "better"
    assert capacity.low is not None
    undecided = rows["retries=7"].values[0]
    assert undecided is not None
    assert undecided.judgement == "undecided"
    assert any(
        line.startswith("capacity: 2 of 5 undecided. With 2 repetitions a difference of") for line in forest.undecided
    )
    assert rows["batch.size=131072"].cell_id.startswith("16384") or "ceiling" not in rows["batch.size=131072"].cell_id


def test_what_safety_costs_is_told_in_capacity_and_latency() -> None:
    found, _ = analysed(two_windows())
    cost = safety_cost(found)
    assert cost is not None
    rows = {row.title: row for row in cost.rows}
    assert list(rows)[:2] == ["capacity", "p99"]
    assert cost.direction == "acks=1 against acks=all"
    assert rows["capacity"].change.startswith("+50 %"), rows["capacity"]  # 42,707 records/s against 28,534
    assert "undecided" not in rows["capacity"].change


@pytest.mark.thorough
def test_the_recommendation_is_by_p99_at_the_common_rate_and_names_who_carries_more() -> None:
    found, _ = analysed(two_windows())
    own = found.recommendation
    assert own.objective == P99
    assert own.point is not None
    assert "ceiling" not in own.point.cell_id
    assert dict(own.point.configuration)["batch.size"] == "131072"
    assert any("capacity" in sentence for sentence in own.sentences)


def test_both_cells_of_a_configuration_show_its_capacity_and_a_ceiling_shows_no_latency() -> None:
    _, items = analysed(two_windows())
    found = capacities(observe(items))
    cells = [cell_figures(item, found.get(item.facts.cell.cell_id)) for item in items]
    assert all(cell.capacity_records_per_s for cell in cells)
    table = cell_table(cells)
    assert [group.name for group in table.groups] == ["sweep", "ceiling"]
    columns = {column.name: column for column in table.columns}
    for cell in cells:
        assert (columns["corrected_p99_us"].sort_key(cell) == "") == (cell.kind is CellKind.CEILING)
        assert columns["capacity_records_per_s"].sort_key(cell) == cell.capacity_records_per_s


@pytest.mark.thorough
def test_tables_and_the_summary_hold_the_capacity() -> None:
    found, items = analysed(two_windows())
    header, rows = sweep_figures(found).tables["surface.csv"]
    place = header.index("capacity_value")
    assert all(isinstance(row[place], float) for row in rows)
    text = summary(figures_of(make_run(cells=[item.facts.cell for item in items]), items))
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert "capacity" in table[0]
    assert len(table) - 1 == len(items) // 2, "a ceiling that passed has no row of its own"


@pytest.mark.thorough
def test_every_chart_of_a_sweep_with_ceilings_has_a_specification() -> None:
    """A chart whose specification is missing stays an empty place on the page, without a message."""
    _, items = analysed(two_windows())
    own = figures_of(make_run(cells=[item.facts.cell for item in items]), items)
    told = payload(own, charts_of(own))
    named = {name: chart["spec"] for name, chart in told["charts"].items()}
    assert "surface-capacity" in named
    assert not [name for name in named if "throughput" in name], (
        "a paced cell's rate is the asked one, or told to be less"
    )
    knobs = [name for name in named if name.startswith("sweep-capacity-")]
    assert knobs
    drawn = [layer["mark"] for layer in told["specs"]["sweep_capacity"]["layer"]]
    assert not [mark for mark in drawn if mark.get("style") == "interval"], (
        "an interval from inside one cell says nothing"
    )
    assert {name: spec for name, spec in named.items() if spec not in told["specs"]} == {}


@pytest.mark.thorough
def test_every_axis_of_capacities_is_logarithmic() -> None:
    """One setting carried ten times as much as the six others, and pressed them into one line."""
    specs = specifications(
        p99_max_ms=1.0, capacity_min=10.0, capacity_max=1_000.0, throughput_max=1.0, records_per_batch_max=1.0
    )
    scales = [
        layer["encoding"]["x"]["scale"] for layer in specs["price_at_ceilings"]["layer"]
        if "scale" in layer["encoding"]["x"]
    ]  # fmt: skip
    assert scales == [{"type": "log", "nice": False, "padding": 24}]
    layers = [layer["encoding"]["y"] for layer in specs["sweep_capacity"]["layer"]]
    knob = next(y["scale"] for y in layers if "scale" in y)
    assert (knob["type"], knob["domain"]) == ("log", [10.0, 1_000.0])
    assert CAPACITY in ON_LOG_AXIS


@pytest.mark.parametrize("limited", [[], ["131072", "50", "gzip", "1", "7", ""]])
def test_without_any_capacity_nothing_is_drawn_of_it(limited: list[str]) -> None:
    found, _ = analysed(two_windows(limited=limited))
    forest = forest_of(found)
    assert forest is not None
    assert ("capacity" in [column.title for column in forest.columns]) == (not limited)


@pytest.mark.thorough
def test_compare_finds_a_capacity_that_fell_and_says_nothing_of_the_latency_of_ceilings() -> None:
    def measured(share: float) -> list[Measurement]:
        cells = [
            replace(facts, throughput_records_per_s=facts.throughput_records_per_s * share)
            if facts.cell.kind is CellKind.CEILING
            else facts
            for facts in two_windows(rounds=5)
        ]
        items = judged(cells)
        return measure(items, observe(items))

    fell = compare(pair_up(measured(1.0), measured(0.7)))
    whole = {row.measure: row.result for row in fell.rows if row.cell == WHOLE_RUN}
    assert whole[CAPACITY] == WORSE
    assert whole[P99] != WORSE
    assert not [row for row in fell.rows if row.cell.startswith("ceiling") and row.measure == P99]
    same = compare(pair_up(measured(1.0), measured(1.0)))
    assert {row.result for row in same.rows if row.measure == CAPACITY} <= {SAME, UNDECIDED}


def test_a_limit_without_cells_is_not_about_ceilings() -> None:
    _, items = analysed(two_windows())
    for text in ("median(p99_ms) <= 100", "total(acked) >= 1"):
        with_ceilings = run_limits((RunLimitRecord(limit=text, cells=("*",)),), items, None)
        without = run_limits((RunLimitRecord(limit=text, cells=()),), items, None)
        assert with_ceilings != without, text
        assert not any("ceiling" in str(one) for one in without)


@pytest.mark.thorough
def test_the_price_of_safety_is_capacity_with_its_interval_where_there_are_ceilings() -> None:
    found, items = analysed(two_windows(limited=("gzip",)))
    price = price_of_safety(items, found)
    assert price.at_ceilings
    assert len(price.points) == len(CHANGES), "one point a configuration, but for the one without a capacity"
    assert [title for title in price.without if "gzip" in title] == list(price.without)
    (loose,) = [one for one in price.points if one.safety == "may lose acknowledged records"]
    (safe,) = [one for one in price.points if "linger.ms=50" in one.title]
    assert loose.figure == safe.figure == CAPACITY
    for one, factor in ((loose, 1.5), (safe, 1.0)):
        assert one.rate_low is not None
        assert one.rate_high is not None
        assert one.rate_low < one.rate < one.rate_high
        assert 0.7 < one.rate / (30_000 * factor) < 1.4, "the ceiling, and not the 3,000 records/s that all carried"
    assert 30 < safe.p99 < 110, "milliseconds"
    assert not safe.front, "batch.size=131072 carries more with less latency"
    figures = figures_of(make_run("r", manifest={}, cells=tuple(item.facts.cell for item in items)), items)
    drawn = charts_of(figures)["price"]
    assert drawn.specification == "price_at_ceilings"
    assert None not in drawn.data["price"]["rate_low"]
    page = render(figures)
    assert "Capacity against p99 at the common rate" in page
    assert "a capacity or a p99 is missing: " in page


def test_a_disturbed_ceiling_is_a_cell_of_the_sweep_and_is_counted_once() -> None:
    noise = {"t_us": 5_000_000, "source": "host", "name": "resources", "values": {"foreign_share": 0.9}}
    cells = [replace(own, cell=changed(own.cell, stats=(*stats_of(own.cell), noise))) for own in two_windows()]
    items = judged(cells)
    figures = figures_of(make_run("r", manifest={}, cells=tuple(item.facts.cell for item in items)), items)
    told = [doubt.text for doubt in figures.overview.doubts if "disturbed by the host" in doubt.text]
    assert len(told) == 1
    assert told[0].startswith(f"{len(cells)} of {len(cells)} cells of the sweep were disturbed")


def test_a_lone_contender_is_no_clear_choice() -> None:
    cells = [
        *(cell_facts(BASE, p99_us=20_000, throughput=3000, asked=3000, baseline=True, repetition=n) for n in (1, 2)),
        *(
            cell_facts({**BASE, "linger.ms": "50"}, p99_us=50_000, throughput=1000, asked=3000, repetition=n)
            for n in (1, 2)
        ),
        *(
            cell_facts(
                {**BASE, "acks": "1"}, p99_us=9_000, throughput=3000, asked=3000, repetition=n,
                properties={"enable.idempotence": "false"},
            )
            for n in (1, 2)
        ),
    ]  # fmt: skip
    found, _ = analysed(cells)
    first, *_rest = found.recommendation.sentences
    assert first.startswith("The only configuration without loss that this run can recommend: run ")
    assert any("nothing to choose" in sentence for sentence in found.recommendation.sentences)
