"""Planted effects come back within their intervals; what cannot be compared is named; the recommendation is honest."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from reports.figures import generator
from reports.figures.figures import figures_of
from reports.figures.overview.forest import forest_of
from reports.figures.statistics.variance import interval
from reports.figures.sweep.choosing import choose
from reports.figures.sweep.effects import FACTORIAL, ONE_AT_A_TIME, Effect, judgement
from reports.figures.sweep.figures import sweep_figures
from reports.figures.sweep.number_words import figure
from reports.figures.sweep.observations import BY_NAME, CLIENT_BOUND, FAILED, NOT_SUSTAINED
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.read.model import CellFacts, IdentitySet, Latency, SetComparison
from reports.render.csv_tables import generator_table
from reports.render.page import render
from reports.render.results import write_results
from reports.render.sweep_json import sweep_record
from runlog.records.codec import to_json
from tests.reports.cells import changed, make_run, stats_of
from tests.reports.sweep_facts import BASELINE, Factors, analysed, cell_facts, judged, one_at_a_time, planted_sweep

CHANGES = {"batch.size": ["4096", "131072"], "linger.ms": ["0", "50"], "compression.type": ["lz4"]}
FACTOR = {"4096": 1.5, "131072": 0.7, "0": 1.1, "50": 2.0, "lz4": 0.9}


def truth(factors: Factors) -> float:
    return 20_000.0 * math.prod(FACTOR.get(value, 1.0) for value in factors.values())


def oaat(seed: int, *, noise: float = 0.05, repetitions: int = 3, round_noise: float = 0.0) -> SweepAnalysis:
    return analysed(
        planted_sweep(
            one_at_a_time(CHANGES), truth, repetitions=repetitions, noise=noise, seed=seed, round_noise=round_noise,
            baseline=BASELINE,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    "round_noise",
    [
        pytest.param(0.0, id="calm host", marks=pytest.mark.long),
        pytest.param(0.3, id="host that drifts between rounds"),
    ],
)
@pytest.mark.thorough
def test_planted_effects_lie_within_their_intervals_as_often_as_stated(round_noise: float) -> None:
    inside = total = 0
    width = []
    for seed in range(10):
        found = oaat(seed, round_noise=round_noise)
        assert found.design == ONE_AT_A_TIME
        for effect in found.effects["p99"].effects:
            inside += effect.estimate.low <= math.log(FACTOR[effect.value]) <= effect.estimate.high
            total += 1
            width.append(effect.estimate.high - effect.estimate.low)
    # More than 95 % of 50, because the five intervals of a sweep hold together; the rounds' drift must not widen them.
    assert total == 50
    assert inside >= 0.95 * total
    assert sum(width) / total < 0.45


def test_main_effects_and_an_interaction_of_a_grid_are_found_and_others_are_not() -> None:
    names = ("batch.size", "linger.ms", "acks")
    grid = [dict(zip(names, values, strict=True)) for values in itertools.product(("1", "2"), ("0", "5"), ("1", "all"))]

    def p99(factors: Factors) -> float:
        both = factors["batch.size"] == "2" and factors["linger.ms"] == "5"
        return 10_000 * (0.5 if factors["batch.size"] == "2" else 1) * (1.5 if both else 1)

    found = analysed(planted_sweep(grid, p99, repetitions=4, noise=0.03, seed=11)).effects["p99"]
    assert found.design == FACTORIAL
    interactions = {item.settings: item.estimate for item in found.interactions}
    assert len(interactions) == 3
    strong = interactions[("batch.size", "linger.ms")]
    assert strong.low <= math.log(1.5) <= strong.high
    assert strong.excludes_zero
    assert not interactions[("acks", "batch.size")].excludes_zero
    main = {effect.setting: effect.estimate for effect in found.effects}
    # Over the grid the effect of batch.size is the mean over both values of linger.ms.
    assert main["batch.size"].low <= math.log(0.5) + math.log(1.5) / 2 <= main["batch.size"].high
    assert not main["acks"].excludes_zero


@pytest.mark.thorough
def test_the_page_calls_an_interaction_clear_only_if_its_interval_excludes_none() -> None:
    grid = [dict(zip(("batch.size", "acks"), values, strict=True)) for values in itertools.product("12", ("1", "all"))]
    items = planted_sweep(grid, lambda f: 1e4 * (2 if dict(f) == grid[0] else 1), repetitions=4, noise=0.03, seed=11)
    figures = figures_of(make_run(directory="r", manifest={}, cells=()), items)
    assert figures.sweep is not None
    told = re.findall(r'<tr><td>[^<]*</td><th scope="row">[^<]* with [^<]*</th>.*?<td>(yes|no)</td>', render(figures))
    assert told == ["yes" if row.clear else "no" for row in figures.sweep.interactions]
    assert set(told) == {"yes", "no"}


def test_a_fractional_design_names_the_pairs_that_it_cannot_tell_apart() -> None:
    half = [
        {"a": a, "b": b, "c": c, "d": d}
        for a, b, c, d in itertools.product("01", repeat=4)
        if (int(a) + int(b) + int(c) + int(d)) % 2 == 0
    ]
    found = analysed(planted_sweep(half, lambda f: 1e4 * 2 ** int(f["a"]), repetitions=2, noise=0.02, seed=4))
    effects = found.effects["p99"]
    assert {effect.setting for effect in effects.effects if effect.clear} == {"a"}
    aliases = {item.settings: item.inseparable for item in effects.interactions}
    assert aliases[("a", "b")] == ("c x d",)


def test_a_setting_with_many_values_gets_one_slope() -> None:
    values = [str(2**power) for power in range(10, 19)]
    cells = [{"batch.size": value, "linger.ms": str(7 * i % 9)} for i, value in enumerate(values)]
    found = analysed(
        planted_sweep(cells, lambda f: 1e6 / math.sqrt(float(f["batch.size"])), repetitions=3, noise=0.02, seed=5)
    ).effects["p99"]
    effect = next(item for item in found.effects if item.setting == "batch.size")
    assert (effect.reference, effect.value) == ("1024", "262144")
    assert effect.estimate.ratio[0] == pytest.approx(1 / 16, rel=0.1)


def test_a_cell_that_did_not_carry_the_rate_is_named_and_its_p99_is_not_compared() -> None:
    cells = [cell_facts(BASELINE, p99_us=9_000, baseline=True)]
    cells.append(cell_facts({**BASELINE, "batch.size": "1024"}, p99_us=4_000_000, throughput=806.0))
    cells.append(cell_facts({**BASELINE, "batch.size": "2048"}, p99_us=900_000, throughput=900.0, cpu_share=0.97))
    found = analysed(judged(cells))
    slow, bound = found.observations[1:]
    assert (slow.state, slow.reason) == (NOT_SUSTAINED, "reached 806 of the 2,000 records/s asked for")
    assert bound.state == CLIENT_BOUND
    assert bound.values == {}
    assert "p99" not in slow.values
    assert any("batch.size=1024" in line and "806 of the 2,000" in line for line in found.warnings)
    assert any("batch.size=2048" in line and "client-bound" in line for line in found.warnings)
    choice = choose(found.points, found.observations, found.means)
    assert choice is not None
    assert dict(choice.winner.configuration)["batch.size"] == "16384"


def test_what_failed_once_or_missed_the_rate_once_is_not_recommended_for_its_good_repetitions() -> None:
    fast = {**BASELINE, "batch.size": "1024"}
    base = [cell_facts(BASELINE, p99_us=10_000 + 10 * r, repetition=r, baseline=True) for r in range(1, 5)]
    good = [cell_facts(fast, p99_us=8_000 + 10 * r, repetition=r) for r in range(1, 4)]
    other = cell_facts(fast, p99_us=8_000, repetition=4)
    three = IdentitySet(count=3)
    comparison = SetComparison(only_observed=three)
    lossy = replace(
        other, observed={"lost": three}, predictions={**other.predictions, "lost": comparison},
    )  # fmt: skip
    slow = cell_facts(fast, p99_us=8_000, repetition=4, throughput=1_500)
    for fourth, state in ((lossy, FAILED), (slow, NOT_SUSTAINED)):
        found = analysed(judged([*base, *good, fourth]))
        assert found.observations[-1].state == state
        assert found.recommendation.point is not None
        assert dict(found.recommendation.point.configuration)["batch.size"] == "16384"
    found = analysed(judged([*base, *good, other]))
    assert found.recommendation.point is not None
    assert dict(found.recommendation.point.configuration)["batch.size"] == "1024"


def test_who_gives_up_on_slow_records_is_none_the_faster_for_it() -> None:
    cells = [cell_facts(BASELINE, p99_us=20_000, baseline=True)]
    cells.append(cell_facts({**BASELINE, "batch.size": "1024"}, p99_us=9_000, failed=800))
    found = analysed(judged(cells))
    dropping = found.observations[1]
    assert dropping.state == NOT_SUSTAINED
    assert dropping.reason == "4.0% of the records never were acknowledged, so that none is the p99"
    assert "p99" not in dropping.values
    choice = choose(found.points, found.observations, found.means)
    assert choice is not None
    assert dict(choice.winner.configuration)["batch.size"] == "16384"


def test_what_nobody_knows_the_scatter_of_is_not_called_better() -> None:
    """One run each: of wire bytes nothing tells how far a second run would differ."""
    cells = [cell_facts(BASELINE, p99_us=10_000, wire_bytes=500.0, baseline=True)]
    cells.append(cell_facts({**BASELINE, "linger.ms": "50"}, p99_us=10_000, wire_bytes=500.4))
    found = analysed(judged(cells))
    [effect] = found.effects["wire_bytes"].effects
    assert not effect.clear
    [row] = [row for row in sweep_figures(found).tables["effects.csv"][1] if row[0] == "wire_bytes"]
    assert row[4:8] == [pytest.approx(1.0008), None, None, "not clear"]
    level = found.points[0].levels["wire_bytes"]
    assert "(" not in figure(level, BY_NAME["wire_bytes"])
    json.dumps(to_json(sweep_record(sweep_figures(found), analysis_id="")), allow_nan=False)


@pytest.mark.long
def test_a_level_on_one_cluster_holds_the_scatter_of_its_rounds() -> None:
    held = 0
    for seed in range(60):
        items = planted_sweep(
            one_at_a_time(CHANGES), truth, repetitions=4, noise=0.02, seed=seed, round_noise=0.2, baseline=BASELINE
        )
        found = analysed(items)
        base = next(item.configuration for item in found.observations if item.baseline)
        level = found.means["p99"].level(base)
        assert level is not None
        held += level.low <= math.log(truth(BASELINE)) <= level.high
    assert held >= 51, "95 % intervals"


def test_the_forecast_of_a_combination_is_one_contrast() -> None:
    """With k settings together the baseline counts k - 1 times: its noise weighs more than once for each."""
    found = oaat(3, repetitions=5)
    own, means = found.recommendation.combination, found.means["p99"]
    assert own is not None
    assert own.p99 is not None
    variances = [float(v) for v in means.mean_variances]
    changed = [name for name, value in own.settings if BASELINE[name] != value]
    configurations = [dict(one) for one in means.configurations]
    base = next(place for place, one in enumerate(configurations) if all(BASELINE[n] == v for n, v in one.items()))
    chosen = [configurations.index({**configurations[base], name: dict(own.settings)[name]}) for name in changed]
    k, shared = len(chosen), means.shared
    assert k >= 2
    assert shared is not None
    noise = (k - 1) ** 2 * variances[base] + sum(variances[place] for place in chosen)
    noise *= 1 - 1 / (shared.groups * ((k - 1) ** 2 + k))
    assert own.p99.standard_error == pytest.approx(math.sqrt(noise + shared.variance / shared.blocks))


def test_where_every_cell_carries_the_rate_the_report_says_that_throughput_shows_nothing() -> None:
    assert any("throughput says nothing about capacity" in line for line in oaat(1).warnings)


def test_the_recommendation_takes_the_lowest_p99_and_says_how_sure_it_is() -> None:
    own = oaat(7, noise=0.01, repetitions=4).recommendation
    assert own.point is not None
    assert dict(own.point.configuration)["batch.size"] == "131072"
    assert own.certainty is not None
    assert own.certainty > 0.95
    assert own.sentences[0].startswith("Clear choice: run ")
    assert own.ties == ()
    # Two settings help, each alone: together they were not measured, and the report says so.
    assert own.combination is not None
    assert dict(own.combination.settings)["compression.type"] == "lz4"
    assert own.combination.p99 is not None
    low, high = own.combination.p99.ratio[1:]
    assert low <= 20_000 * 0.7 * 0.9 <= high
    assert "were not measured" in own.combination.sentence


def test_a_backlog_from_before_the_window_is_no_merit() -> None:
    """More was acknowledged than asked for, because the records before had waited: the rate must not decide by that."""
    quick = cell_facts({**BASELINE, "linger.ms": "5"}, p99_us=40_000, baseline=True)
    behind = cell_facts({**BASELINE, "linger.ms": "0"}, p99_us=200_000, throughput=2400.0)
    sweep = analysed(judged([quick, behind]))
    choice = choose(sweep.points, sweep.observations, sweep.means)
    assert choice is not None
    assert dict(choice.winner.configuration)["linger.ms"] == "5"
    assert max(point.levels["throughput"].value for point in sweep.points) == pytest.approx(math.log(2000.0))


def test_where_another_has_the_better_p99_the_report_says_why_it_was_passed_over() -> None:
    noise = (0.97, 1.0, 1.04, 0.99)
    cells = [
        cell_facts({**BASELINE, "linger.ms": linger}, p99_us=p99_us * share, cpu_us=cpu_us * share, repetition=number)
        for linger, p99_us, cpu_us in (("0", 10_000, 90.0), ("5", 10_050, 60.0))
        for number, share in enumerate(noise if linger == "0" else noise[::-1], 1)
    ]
    own = analysed(judged(cells)).recommendation
    assert own.point is not None
    assert dict(own.point.configuration)["linger.ms"] == "5"
    (why,) = [text for text in own.sentences if "has the best p99 latency of this run" in text]
    assert "linger.ms=0" in why.partition(" has the best")[0]
    assert "takes less of the brokers: broker CPU per record -33 %" in why


def test_what_noise_hides_is_not_taken_for_equal() -> None:
    """The cheaper one is half as slow again by its figure; that the run cannot prove it is no reason to take it."""
    noise = (0.6, 1.0, 1.7, 0.9)
    cells = [
        cell_facts({**BASELINE, "linger.ms": linger}, p99_us=p99_us * share, cpu_us=cpu_us, repetition=number)
        for linger, p99_us, cpu_us in (("0", 10_000, 90.0), ("5", 15_000, 60.0))
        for number, share in enumerate(noise if linger == "0" else noise[::-1], 1)
    ]
    own = analysed(judged(cells)).recommendation
    assert own.point is not None
    assert dict(own.point.configuration)["linger.ms"] == "0"
    assert len(own.ties) == 1, "and it is named as one that the run cannot tell apart"


def test_what_ran_once_is_seen_and_not_recommended() -> None:
    """An interval from inside one run says nothing of the next one: no choice, no certainty, no better or worse."""
    cells = [
        cell_facts({**BASELINE, "linger.ms": linger}, p99_us=p99_us, baseline=linger == "50")
        for linger, p99_us in (("0", 10_000), ("50", 90_000))
    ]
    found = analysed(judged(cells))
    own = found.recommendation
    assert (own.point, own.certainty, own.combination, own.predicted) == (None, None, None, {})
    assert own.sentences[0].startswith("No recommendation: each configuration ran once")
    [seen] = [text for text in own.sentences if text.startswith("Seen in this one run")]
    assert "linger.ms=0" in seen
    assert seen.endswith("had the lowest p99 latency, 10 ms; the baseline had 90 ms.")
    assert "--set sweep.repetitions=4" in own.sentences[-1]
    assert {row[7] for row in sweep_figures(found).tables["effects.csv"][1]} == {"not clear"}


@pytest.mark.thorough
def test_one_of_equals_is_neither_a_clear_nor_a_likely_choice() -> None:
    """Found by `make prove-same`: the best of four equals was called likely, because it happened to be the best."""
    cells = [{**BASELINE, "linger.ms": value} for value in ("5", "6", "7", "8")]
    said = [
        analysed(
            planted_sweep(cells, lambda _: 2e4, repetitions=4, noise=0.3, seed=seed, baseline=cells[0])
        ).recommendation.sentences[0]
        for seed in range(15)
    ]
    assert [text for text in said if not text.startswith("No clear choice")] == []


def test_what_was_repeated_and_counts_once_is_not_said_to_have_run_once() -> None:
    """Found by `make prove-same`: of four rounds on a busy host two cells had a p99 that counts."""
    cells = [
        cell_facts({**BASELINE, "linger.ms": linger}, p99_us=10_000, repetition=repetition, baseline=linger == "50")
        for linger in ("0", "50")
        for repetition in (1, 2, 3, 4)
    ]
    few = {**cells[0].latency, "corrected": Latency(n=500)}  # too few samples carry a p99
    cells = [item if item.cell.record.repetition == 3 else replace(item, latency=few) for item in cells]
    own = analysed(judged(cells)).recommendation
    assert own.point is None
    assert not any("ran once" in text or "one run," in text for text in own.sentences), own.sentences
    assert not any("--set sweep.repetitions" in text for text in own.sentences)


@pytest.mark.parametrize("repetitions", [1, 4])
def test_the_front_page_judges_the_price_of_safety_only_where_it_was_measured_again(repetitions: int) -> None:
    loose = {"acks": "1", "enable.idempotence": "false"}
    cells = []
    for repetition in range(1, repetitions + 1):
        quick, safe = 5_000 + 10 * repetition, 20_000 + 10 * repetition
        cells.append(cell_facts(BASELINE, p99_us=safe, repetition=repetition, baseline=True))
        cells.append(cell_facts({**BASELINE, "acks": "1"}, p99_us=quick, repetition=repetition, properties=loose))
    forest = forest_of(analysed(judged(cells)))
    assert forest is not None
    (row,) = forest.rows
    assert [value and value.judgement for value in row.values] == ["seen once" if repetitions == 1 else "better"]


@pytest.mark.parametrize("carrying", [0, 1])
def test_why_the_rate_decides_is_told_as_it_was(carrying: int) -> None:
    """One of the demo's settings had carried its load on a full host, and the page said that none had."""
    cells = []
    for repetition in (1, 2):
        for place, linger in enumerate(("5", "0", "50")):
            rate = 2000.0 if place < carrying else 400.0 * (place + 1) + repetition
            cells.append(
                cell_facts(
                    {**BASELINE, "linger.ms": linger}, p99_us=9_000, throughput=rate, repetition=repetition,
                    baseline=linger == "5",
                )
            )  # fmt: skip
    sentences = analysed(judged(cells)).recommendation.sentences
    (told,) = [text for text in sentences if "ranked by the rate" in text]
    assert told.startswith(
        "Of the configurations that lose nothing only " if carrying else "No configuration that loses nothing carried"
    )
    assert ("linger.ms=5 " in told) == bool(carrying)


@pytest.mark.parametrize(
    ("factor", "judged_as"), [(1.001, "negligible"), (0.999, "negligible"), (1.05, "worse"), (0.95, "better")]
)
def test_a_clear_difference_too_small_to_count_is_neither_better_nor_worse(factor: float, judged_as: str) -> None:
    """Bytes hardly scatter: 0.1 % more of them is certain, and decides nothing."""
    cells = []
    for repetition in range(1, 5):
        base, other = 500 + 0.01 * repetition, 500 * factor - 0.01 * repetition
        cells.append(cell_facts(BASELINE, p99_us=9_000, wire_bytes=base, repetition=repetition, baseline=True))
        cells.append(cell_facts({**BASELINE, "linger.ms": "50"}, p99_us=9_000, wire_bytes=other, repetition=repetition))
    found = analysed(judged(cells))
    (effect,) = found.effects["wire_bytes"].effects
    assert effect.clear
    assert judgement(effect) == judged_as
    header, rows = sweep_figures(found).tables["effects.csv"]
    (row,) = [own for own in rows if own[header.index("measure")] == "wire_bytes"]
    assert row[header.index("judgement")] == judged_as


def test_what_lies_across_the_margin_is_not_clear() -> None:
    """1 % that may be 3 %: neither too small to count nor large enough to be called worse."""
    estimate = interval(math.log(1.012), 0.0045, 6)
    effect = Effect(measure="p99", setting="a", reference="0", value="1", estimate=estimate, repeated=True)
    assert effect.clear
    assert judgement(effect) == "not clear"


@pytest.mark.thorough
def test_in_noise_no_choice_is_called_clear() -> None:
    sure = sum("Clear choice" in oaat(seed, noise=0.8).recommendation.sentences[0] for seed in range(12))
    assert sure <= 2


def test_settings_that_may_lose_records_are_never_recommended_but_their_price_is_told() -> None:
    loose = {**BASELINE, "acks": "1"}
    cells = [cell_facts(BASELINE, p99_us=20_000 + 10 * r, repetition=r, baseline=True) for r in (1, 2, 3)]
    cells += [
        cell_facts(loose, p99_us=5_000 + 10 * r, repetition=r, properties={"enable.idempotence": "false"})
        for r in (1, 2, 3)
    ]
    cells.append(
        cell_facts(
            {}, cell_id="chaos", kind="chaos", p99_us=50_000, damage={"lost": 412},
            properties={"acks": "1", "enable.idempotence": "false"},
        )
    )  # fmt: skip
    found = analysed(judged(cells))
    own = found.recommendation
    assert own.point is not None
    assert dict(own.point.configuration)["acks"] == "all"
    assert any(
        "if losing acknowledged records is acceptable, " in text and "412 of 20,000 lost" in text
        for text in own.sentences
    )
    damage = {dict(point.configuration)["acks"]: point.damage for point in found.points}
    assert (damage["1"].lost, damage["1"].cells) == (412, 1)
    assert damage["all"].lost == 0


def test_without_a_usable_cell_there_is_no_recommendation_but_a_reason() -> None:
    cells = [cell_facts({"linger.ms": v}, p99_us=1e4, properties={"acks": "0"}) for v in ("0", "5")]
    own = analysed(judged(cells)).recommendation
    assert own.point is None
    assert own.sentences[0].startswith("No recommendation: no configuration keeps every acknowledged record")


def test_one_repetition_is_called_what_it_is() -> None:
    found = oaat(1, repetitions=1)
    assert not any(effect.repeated for effect in found.effects["p99"].effects)
    assert not found.sensitivities[0].repeated


@pytest.mark.thorough
def test_the_smallest_effect_is_found_four_times_in_five() -> None:
    cells = one_at_a_time({"linger.ms": ["50"], "batch.size": ["4096"], "compression.type": ["lz4"]})
    equal = analysed(planted_sweep(cells, lambda _: 1e4, repetitions=5, noise=0.05, seed=2, baseline=BASELINE))
    own = next(item for item in equal.sensitivities if item.measure == "p99")
    effect = 1 + own.smallest_effect * 0.05 / own.scatter
    seen = 0
    for seed in range(20):
        found = analysed(
            planted_sweep(
                cells, lambda f: 1e4 * (effect if f["linger.ms"] == "50" else 1.0), repetitions=5, noise=0.05,
                seed=seed, baseline=BASELINE,
            )
        )  # fmt: skip
        seen += next(item for item in found.effects["p99"].effects if item.setting == "linger.ms").clear
    assert 0.6 <= seen / 20 <= 0.95


def test_tables_and_json_are_written_behind_every_chart(tmp_path: Path) -> None:
    items = planted_sweep(one_at_a_time(CHANGES), truth, repetitions=2, noise=0.05, seed=1, baseline=BASELINE)
    run = make_run(directory=str(tmp_path), manifest={}, cells=())
    write_results(figures_of(run, items), tmp_path)
    document = json.loads((tmp_path / "results" / "sweep.json").read_text())
    assert document["recommendation"]["settings"]["batch.size"]
    for name in ("effects", "interactions", "surface", "sensitivity", "behaviour"):
        lines = (tmp_path / "results" / f"{name}.csv").read_text().splitlines()
        assert len(lines) > 1 or name == "interactions"
    assert figures_of(run, items[:1]).sweep is None


def host_line(t_us: int, foreign: float) -> dict[str, object]:
    return {
        "t_us": t_us,
        "source": "host",
        "name": "resources",
        "values": {"foreign_share": foreign, "steal_share": 0.0},
    }


def test_a_cell_whose_host_was_taken_is_marked_and_keeps_its_figures() -> None:
    def with_host(value: str, foreign: float) -> CellFacts:
        facts = cell_facts({"linger.ms": value}, p99_us=1e4)
        # What happened before the measured window does not count.
        lines = (host_line(-1, 0.9), *(host_line(t, foreign) for t in range(0, 9_000_000, 500_000)))
        return replace(facts, cell=changed(facts.cell, stats=(*stats_of(facts.cell), *lines)))

    items = judged([with_host("0", 0.01), with_host("5", 0.4)])
    found = analysed(items)
    assert [bool(item.disturbed) for item in found.observations] == [False, True]
    assert "p99" in found.observations[1].values
    assert any(line.startswith("1 of 2 cells of the sweep were disturbed by the host") for line in found.warnings)
    assert "other programs took 40% of all cores" in items[1].verdict.notes[0]
    header, rows = generator_table(generator.generator_figures(items, None))
    assert rows[1][header.index("foreign_share")] == 0.4
    assert "disturbed host" in str(rows[1][-1])
    assert rows[0][-1] == ""


@pytest.mark.thorough
def test_in_a_factorial_design_every_cell_speaks_for_every_configuration() -> None:
    names = ("batch.size", "linger.ms", "compression.type", "other")
    grid = [dict(zip(names, values, strict=True)) for values in itertools.product("12", repeat=4)]

    def p99(factors: Factors) -> float:
        return 10_000 * (0.6 if factors["batch.size"] == "2" else 1) * (0.8 if factors["linger.ms"] == "2" else 1)

    hits, widths, plain = 0, [], []
    for seed in range(6):
        items = planted_sweep(grid, p99, repetitions=2, noise=0.15, seed=seed)
        found = analysed(items)
        own = found.recommendation.point
        assert own is not None
        best = dict(own.configuration)
        hits += (best["batch.size"], best["linger.ms"]) == ("2", "2")
        level = own.standing["p99"]
        widths.append(level.high - level.low)
        raw = replace(found.means["p99"], projection=None).standing(own.configuration)
        assert raw is not None
        plain.append(raw.high - raw.low)
    assert hits >= 5
    assert sum(widths) < 0.7 * sum(plain), "the model's interval is that of all 32 cells"
    own_p99 = next(item for item in found.sensitivities if item.measure == "p99")
    assert own_p99.smallest_effect < 0.3, "two single configurations would need a difference of half"


def test_a_model_that_does_not_fit_is_not_used_to_smooth() -> None:
    names = ("a", "b", "c")
    grid = [dict(zip(names, values, strict=True)) for values in itertools.product("12", repeat=3)]
    # Only the three together act: no sum of main effects and pairs says that.
    found = analysed(
        planted_sweep(
            grid, lambda f: 1e4 * (5 if set(f.values()) == {"2"} else 1) ** (1 if f["a"] == "2" else 0),
            repetitions=3, noise=0.01, seed=1,
        )
    )  # fmt: skip
    level = found.means["p99"].level(tuple(sorted({"a": "2", "b": "2", "c": "2"}.items())))
    assert level is not None
    assert level.ratio[0] == pytest.approx(50_000, rel=0.05)
