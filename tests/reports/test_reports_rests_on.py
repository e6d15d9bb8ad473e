"""What is wrong with the figures of speed is told on the front page: how few records, repetitions and cores."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.figures.generator import generator_figures
from reports.figures.overview.doubts import doubts_of
from reports.figures.overview.forest import forest_of
from reports.figures.overview.rests_on import speed_rests_on
from reports.figures.statistics.variance import interval
from reports.figures.sweep.effects import Effect, judgement
from reports.figures.sweep.number_words import change, decided_change
from reports.judge.judged import Judged
from reports.read.model import Latency
from runlog.records.codec import from_document
from runlog.records.run import CertificationRecord
from tests.reports.cells import changed, document_of
from tests.reports.overview_runs import demo, faulty, swept
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged
from tests.reports.test_reports_sweep import oaat


def short_cell(records: int, *, kind: str = "sweep") -> Judged:
    own = cell_facts(BASELINE, p99_us=9_000, kind=kind)
    document = {**document_of(own.cell), "path": "loopback"}
    latency = {**own.latency, "corrected": Latency(n=records, quantiles={"p99": 9_000.0})}
    (item,) = judged([replace(own, cell=changed(own.cell, document=document), latency=latency)])
    return item


def test_a_p99_of_few_records_is_told_with_the_window_and_with_how_many_lie_beyond_it() -> None:
    first, *_ = speed_rests_on([short_cell(1_600)], None, 2)
    assert first.startswith("the p99 rests on few records: on 1,600 in a window of 10.0 s, 16 of them slower than it")
    assert not any("few records" in text for text in speed_rests_on([short_cell(10_000)], None, 2))


def test_that_all_shared_the_cores_of_one_host_over_loopback_is_told_where_speed_was_measured() -> None:
    (told,) = speed_rests_on([short_cell(10_000)], None, 2)
    assert told.startswith(
        "brokers, load generator and readers shared 2 cores of one host, and every record went over l"
    )
    assert speed_rests_on(judged(faulty()), None, 2) == [], "faults damage records on any host"


@pytest.mark.parametrize(("repetitions", "is_told"), [(1, False), (2, True), (3, True), (4, False)])
def test_few_repetitions_are_told(repetitions: int, is_told: bool) -> None:
    analysis = analysed(swept(repetitions=repetitions))
    told = [text for text in speed_rests_on([], analysis, 2) if "each setting was measured" in text]
    assert bool(told) is is_told


def test_a_disturbed_ceiling_of_the_generator_is_a_doubt() -> None:
    one = {"id": "shape-1", "client": "c", "shape": "s", "properties": {}, "records_per_s": 9.0, "disturbed": True}
    record = from_document(CertificationRecord, {"status": "done", "seconds": 4.0, "certificates": [one]})
    own = generator_figures([], record)
    told = [doubt.text for doubt in doubts_of(judged(faulty()), None, own, problems=(), notes=(), cores=2)]
    assert any("the generator reaches by itself was measured while others ran" in text for text in told)


def test_a_disturbed_host_may_have_moved_all_figures_and_stands_beside_the_choice() -> None:
    noise = {"t_us": 5_000_000, "source": "host", "name": "resources", "values": {"foreign_share": 0.4}}
    items = [
        replace(item, facts=replace(item.facts, cell=changed(item.facts.cell, stats=(noise,))))
        for item in swept(repetitions=3)
    ]
    own = analysed(items)
    assert own.recommendation.sentences[0].startswith("Clear choice, though others disturbed the host: run ")
    (warning,) = [text for text in own.warnings if "disturbed by the host" in text]
    assert warning.endswith("it may have moved all figures to one side, which no interval shows")


def test_what_a_run_may_miss_is_not_said_to_stay_unseen() -> None:
    sweep, forest = demo().sweep, forest_of(oaat(1, noise=0.3))
    assert sweep is not None
    assert forest is not None
    assert any("is seen 4 times in 5; a smaller one may be missed" in text for text in sweep.recommendation.sentences)
    assert forest.undecided != ()
    assert all("is seen 4 times in 5, and a smaller one may be missed" in text for text in forest.undecided)


@pytest.mark.parametrize(
    ("low", "high", "shown", "is_clear"),
    [
        (-0.5, -0.004, "-22 % (-39 to -0.4)", True),
        (-0.5, -0.00004, "-22 % (-39 to -0.004)", True),
        (-0.5, -0.000004, "-22 % (-39 to 0)", False),
        (-0.5, 0.004, "-22 % (-39 to +0.4)", False),
    ],
)
def test_an_interval_is_clear_only_if_it_excludes_zero_as_it_is_shown(
    low: float, high: float, shown: str, is_clear: bool
) -> None:
    estimate = replace(interval(math.log(0.78), 0.1, 6), low=low, high=high)
    effect = Effect(measure="p99", setting="a", reference="0", value="1", estimate=estimate, repeated=True)
    assert change(estimate) == shown
    assert decided_change(estimate) == (shown if is_clear else f"{shown}, undecided")
    assert effect.clear is is_clear
    assert judgement(effect) == ("better" if is_clear else "not clear")
