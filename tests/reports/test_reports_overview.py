"""The front page: what it says of damage, speed, choice and doubt, from figures that were planted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reports.figures.cell import product
from reports.figures.overview.choice import choice_of
from reports.figures.overview.damage import DamageMatrix
from reports.figures.overview.head import HostState
from reports.figures.overview.silence import silences
from reports.judge.checks import INCONCLUSIVE
from reports.read.cell import Json
from reports.read.model import CellFacts
from reports.render.page import render
from tests.reports.cells import changed, document_of, stats_of
from tests.reports.overview_runs import RECORDS, chaos, demo, every_kind, faulty, figures, swept
from tests.reports.sweep_facts import BASELINE, cell_facts, judged
from tests.reports.test_reports_doubted_cells import unread

KINDS = ("demo", "once", "faults", "sweep", "one", "none", "doubtful")


def matrix_of(*facts: CellFacts) -> DamageMatrix:
    return figures(judged(facts)).overview.damage


def with_document(facts: CellFacts, **parts: object) -> CellFacts:
    document: Json = {**document_of(facts.cell), **parts}
    return replace(facts, cell=changed(facts.cell, document=document))


# --- speed ----------------------------------------------------------------------------------------------------------


def test_the_forest_has_a_row_for_each_setting_with_its_interval() -> None:
    forest = demo().overview.forest
    assert forest is not None
    assert forest.repeated
    assert [column.title for column in forest.columns] == ["p99"]
    assert forest.columns[0].baseline in ("19.7 ms", "19.8 ms", "19.9 ms", "20 ms", "20.1 ms", "20.2 ms")
    rows = {row.label: row for row in forest.rows}
    slow = rows["linger.ms=50"].values[0]
    assert slow is not None
    assert slow.judgement == "worse"
    assert slow.low is not None
    assert slow.high is not None
    assert forest.columns[0].one < slow.low < slow.at < slow.high
    assert all(len(column.ticks) >= 2 for column in forest.columns), "one named tick is no scale"
    assert rows["acks=1"].risk == "may lose records"
    assert rows["linger.ms=50"].risk == ""


def test_without_repetition_a_dot_has_no_whisker_and_no_judgement() -> None:
    forest = demo(repetitions=1).overview.forest
    assert forest is not None
    assert not forest.repeated
    values = [value for row in forest.rows for value in row.values if value is not None]
    assert values != []
    assert {(value.low, value.high, value.judgement) for value in values} == {(None, None, "seen once")}


def test_figures_that_every_setting_shares_are_named_and_not_drawn() -> None:
    forest = demo().overview.forest
    assert forest is not None
    assert forest.left_out == ("throughput", "broker CPU per record", "wire bytes per record")


def test_the_cost_of_safety_is_told_in_one_place() -> None:
    repeated, once = demo().overview.safety, demo(repetitions=1).overview.safety
    assert repeated is not None
    assert once is not None
    rows = {row.title: row for row in repeated.rows}
    assert [*rows] == ["p99", "throughput", "broker CPU a record"]
    assert re.fullmatch(r"-\d\d % \(-\d\d to -\d\d\)", rows["p99"].change), "acks=1 was planted at 0.6 of acks=all"
    assert repeated.direction == "acks=1 against acks=all", "as in the forest"
    assert rows["throughput"].change == "both carried what was asked"
    assert rows["broker CPU a record"].change.endswith("undecided")
    assert re.fullmatch(r"-\d\d %, seen once", once.rows[0].change)


def test_unavailability_is_told_beside_what_safety_costs() -> None:
    def lost(acks: str, gap_us: int) -> CellFacts:
        expect = {"lost": "predicted"} if acks == "1" else None
        made = chaos("leader-loss", acks, {"acks": acks}, expect=expect, seen={"lost": 9} if expect else None)
        return replace(with_document(made, damage="loss"), gap_us=gap_us)

    both = judged([lost("1", 2_560_000), lost("all", 5_680_000)])
    (told,) = silences(both)
    assert told == (
        "longest silence under leader loss: 5.68 s with acks=all, where the faults lasted 2.00 s, and "
        "2.56 s with acks=1, where they lasted 2.00 s; each was seen once"
    )
    assert silences(both[:1]) == []
    with_sweep = figures([*swept(repetitions=1), *both]).overview.safety
    assert with_sweep is not None
    assert with_sweep.silences == (told,)


def test_settings_that_may_duplicate_or_reorder_are_marked_as_those_that_may_lose_are() -> None:
    loose = cell_facts({**BASELINE, "linger.ms": "0"}, p99_us=9_000, properties={"enable.idempotence": "false"})
    forest = figures(judged([cell_facts(BASELINE, p99_us=9_500, baseline=True), loose])).overview.forest
    assert forest is not None
    assert [row.risk for row in forest.rows] == ["may duplicate and reorder"]


def test_a_sweep_without_acks_tells_no_cost_of_safety() -> None:
    items = [cell_facts({"linger.ms": value}, p99_us=9_000, baseline=value == "0") for value in ("0", "5")]
    assert figures(judged(items)).overview.safety is None


def test_a_baseline_that_was_disturbed_is_told_where_every_row_is_drawn_against_it() -> None:
    noise = {"t_us": 5_000_000, "source": "host", "name": "resources", "values": {"foreign_share": 0.4}}
    base = cell_facts(BASELINE, p99_us=32_000, baseline=True)
    items = [
        replace(base, cell=changed(base.cell, stats=[noise])),
        cell_facts({**BASELINE, "acks": "1"}, p99_us=13_000),
    ]
    own = figures(judged(items)).overview
    assert own.forest is not None
    assert own.forest.warnings == ("the baseline was disturbed by the host: every row is drawn against it",)
    assert own.safety is not None
    assert own.safety.warnings == ("acks=all was disturbed by the host",)


def test_the_command_that_would_decide_is_whole_and_takes_another_directory() -> None:
    own = demo(repetitions=1).sweep
    assert own is not None
    argv = ("run", "my suite.yaml", "--run-dir", "runs/a", "--seed", "7")
    wanted = "harness run 'my suite.yaml' --seed 7 --set sweep.repetitions=4"
    assert choice_of(own.recommendation, argv).command == wanted
    assert choice_of(own.recommendation, ("bench", "linger.ms=5")).command == "", "bench has no suite to repeat"
    assert choice_of(own.recommendation, ()).command == "", "nobody recorded it"
    decided = demo().sweep
    assert decided is not None
    assert choice_of(decided.recommendation, argv).command == ""


def test_a_warning_stands_beside_the_setting_that_it_concerns() -> None:
    items = [
        cell_facts(BASELINE, p99_us=9_000, baseline=True),
        cell_facts({**BASELINE, "batch.size": "1024"}, p99_us=4_000_000, throughput=806.0),
        cell_facts({**BASELINE, "batch.size": "2048"}, p99_us=12_000),
    ]
    forest = figures(judged(items)).overview.forest
    assert forest is not None
    assert {row.label: row.warnings for row in forest.rows} == {
        "batch.size=1024": ("did not carry its load",),
        "batch.size=2048": (),
    }


def test_many_cells_that_did_not_carry_their_load_are_one_doubt_and_hide_no_other() -> None:
    """A reader of the demo on a full host saw six of twelve such lines, and not that the host was disturbed."""
    noise = {"t_us": 5_000_000, "source": "host", "name": "resources", "values": {"foreign_share": 0.9}}
    loose = {"enable.idempotence": "false"}
    cells = []
    for repetition in (1, 2):
        values = (("linger.ms", "5"), ("linger.ms", "0"), ("linger.ms", "50"), ("acks", "1"))
        for place, (name, value) in enumerate(values, start=1):
            own = cell_facts(
                {**BASELINE, name: value}, p99_us=4_000_000, throughput=400.0 * place, repetition=repetition,
                baseline=value == "5", properties=loose if name == "acks" else None,
            )  # fmt: skip
            cells.append(replace(own, cell=changed(own.cell, stats=(*stats_of(own.cell), noise))))
    front = figures(judged(cells)).overview
    texts = [doubt.text for doubt in front.doubts]
    (folded,) = [text for text in texts if "did not carry their load" in text]
    assert folded.startswith("8 of 8 cells of the sweep did not carry their load (first ")
    assert any("8 of 8 cells of the sweep were disturbed by the host" in text for text in texts[:6])
    assert not any("other cells were disturbed" in text for text in texts)
    assert front.safety is not None
    assert front.safety.warnings == (
        "both acks=all and acks=1 did not carry their load", "both acks=all and acks=1 were disturbed by the host",
    )  # fmt: skip
    assert front.forest is not None
    assert any(warning.startswith("p99 is not drawn: ") for warning in front.forest.warnings)


# --- head, choice, doubts, table ------------------------------------------------------------------------------------


def test_the_head_counts_the_records_that_were_accounted_for() -> None:
    head = figures(judged(faulty())).overview.head
    assert (head.result, head.cells) == ("pass", "7 cells as expected (damage that was predicted included)")
    assert head.records == f"{7 * RECORDS:,} records accounted for, one by one"
    assert head.culprits == ()
    assert head.client == "client reference"


def test_the_head_names_the_product() -> None:
    assert product("reference", "0.1.0") == "the project's reference broker 0.1.0 (not Apache Kafka)"
    assert product("docker", None) == "the project's reference broker in containers (not Apache Kafka)"
    assert product("kafka", "4.3.1") == "Apache Kafka 4.3.1"
    assert product("kafka", "Apache Kafka 3.9.1, then 4.3.1") == "Apache Kafka 3.9.1, then 4.3.1"  # as cells tell it
    assert product("kafka", None) == "Apache Kafka"
    assert product("external", "external") == "a cluster that the harness did not start"
    (doubt,) = [one for one in figures(judged(faulty()[:2])).overview.doubts if "reference broker" in one.text]
    assert "carries over; speed, capacity and how long an outage lasts do not" in doubt.text


def test_records_of_a_log_that_was_not_read_to_its_end_are_not_accounted_for() -> None:
    first, *others = faulty()
    outcome = {**document_of(first.cell)["outcome"], "final_read": {"complete": False}}
    head = figures(judged([with_document(first, outcome=outcome), *others])).overview.head
    assert head.cells == "1 inconclusive of 7 cells"
    assert head.records.startswith(f"{6 * RECORDS:,} records accounted for, one by one; the logs of 1 cell")
    assert [culprit.result for culprit in head.culprits] == ["inconclusive"]


def test_the_host_carries_a_warning_only_where_speed_was_measured_on_it() -> None:
    noise = {"t_us": 5_000_000, "source": "host", "name": "resources"}
    busy = [{**noise, "values": {"foreign_share": 0.3, "steal_share": 0.1}}]

    def host(kind: str) -> HostState:
        made = cell_facts(BASELINE, p99_us=9_000, kind=kind, cell_id=kind)
        return figures(judged([replace(made, cell=changed(made.cell, stats=busy))])).overview.head.host

    assert "others took up to 40%" in host("sweep").text
    assert [host(kind).is_warning for kind in ("sweep", "chaos")] == [True, False]


def test_the_head_and_the_doubts_count_the_same_disturbed_cells() -> None:
    """The head counts all cells and those of the sweep, the doubt only the latter: each says so."""
    noise = {"t_us": 5_000_000, "source": "host", "name": "resources", "values": {"foreign_share": 0.4}}
    items = [*swept(repetitions=1), *judged(faulty())]
    struck = [0, len(items) - 2, len(items) - 1]
    for place in struck:
        item = items[place]
        items[place] = replace(item, facts=replace(item.facts, cell=changed(item.facts.cell, stats=(noise,))))
    own = figures(items).overview
    number = len(swept(repetitions=1))
    assert f"host disturbed in 3 of {len(items)} cells (1 of {number} of the sweep)" in own.head.host.text
    assert any(doubt.text.startswith(f"1 of {number} cells of the sweep were disturbed") for doubt in own.doubts)


def test_a_cell_of_the_sweep_that_decides_nothing_is_doubted_once() -> None:
    one = cell_facts({"acks": "all"}, p99_us=9_000)
    items = judged([unread(one), cell_facts({"acks": "1"}, p99_us=9_000, cell_id="other")])
    assert items[0].verdict.result == INCONCLUSIVE
    own = figures(items).overview
    assert [doubt.text for doubt in own.doubts if items[0].verdict.reasons[0] in doubt.text] == [
        f"{items[0].facts.cell.title} says nothing either way: {items[0].verdict.reasons[0]}"
    ]


def test_the_copy_is_a_whole_file_for_a_producer() -> None:
    choice = demo().overview.choice
    assert choice is not None
    lines = choice.properties.splitlines()
    names = {line.split("=")[0] for line in lines if not line.startswith("#")}
    assert names >= {"acks", "enable.idempotence", "max.in.flight.requests.per.connection", *BASELINE}
    assert any("min.insync.replicas=2" in line for line in lines), "acks=all promises nothing without it"
    assert choice.how_sure != ()
    assert choice.would_change != ()
    assert not any(line.startswith(("How sure", "What would")) for line in choice.what)


@pytest.mark.thorough
def test_every_doubt_is_told_once_with_its_place() -> None:
    found = every_kind()["doubtful"].overview.doubts
    assert found[0].text == "the run was killed after 2 of 9 cells: this run is no pass"
    assert any(doubt.target == "cell-leader-loss-acks-1" and "says nothing" in doubt.text for doubt in found)
    assert len({doubt.text for doubt in found}) == len(found)


def test_a_run_without_a_cell_is_not_said_to_be_free_of_doubt() -> None:
    (doubt,) = figures([]).overview.doubts
    assert doubt.text == "the run has no cell: nothing was measured"


def test_a_run_of_single_repetitions_doubts_its_speeds() -> None:
    assert any("ran once" in doubt.text for doubt in demo(repetitions=1).overview.doubts)
    assert not any("ran once" in doubt.text for doubt in demo().overview.doubts)


def test_sweep_cells_are_folded_beside_others_and_stand_open_alone() -> None:
    both, alone = demo().overview.table, figures(swept()).overview.table
    assert [(group.name, group.is_folded) for group in both.groups] == [("chaos", False), ("sweep", True)]
    assert [(group.name, group.is_folded) for group in alone.groups] == [("sweep", False)]


def test_columns_in_which_no_cell_has_anything_wait_to_be_chosen() -> None:
    shown = {column.name: column.is_shown for column in figures(swept()).overview.table.columns}
    assert shown["lost"], "that there is no damage is an answer"
    assert shown["corrected_p99_us"]
    assert not shown["unknown"]
    assert not shown["gap_ms"]


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_has_a_front_in_one_order_whose_links_lead_somewhere(kind: str) -> None:
    page = render(every_kind()[kind])
    order = re.findall(r'<section id="(damage|speed|choice|doubts|cells|details)"', page)
    wanted = ["damage", "speed", "choice", "doubts", "cells", "details"]
    assert order == [name for name in wanted if name in order]
    assert {"damage", "doubts", "cells", "details"} <= set(order)
    front = page[page.index('<header class="top') : page.index('<section id="details"')]
    for target in set(re.findall(r'href="#([^"]+)"', front)):
        assert f'id="{target}"' in page, target


@pytest.mark.thorough
def test_titles_on_the_front_cannot_become_markup() -> None:
    named = with_document(faulty()[0], title="<b>x</b>", note="<i>y</i>", scenario="<u>z</u>")
    page = render(figures(judged([named])))
    for markup in ("<b>x</b>", "<i>y</i>", "<u>z</u>"):
        assert markup not in page
