"""The matrix of damage on the front page: what permits it, what does not, and what kept every record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from reports.figures.overview.damage import DamageCell, DamageMatrix, DamageRow
from reports.figures.overview.safe_settings import safe_settings
from reports.figures.overview.small_timeline import POINTS_MAX, small_timeline
from reports.read.cell import Json
from reports.read.model import CellFacts, IdentitySet
from tests.reports.cells import changed, document_of
from tests.reports.overview_runs import RECORDS, chaos, faulty, figures
from tests.reports.sweep_facts import BASELINE, cell_facts, judged


def matrix_of(*facts: CellFacts) -> DamageMatrix:
    return figures(judged(facts)).overview.damage


def with_document(facts: CellFacts, **parts: object) -> CellFacts:
    document: Json = {**document_of(facts.cell), **parts}
    return replace(facts, cell=changed(facts.cell, document=document))


def told(row: DamageRow) -> tuple[list[str], list[str]]:
    """Both sides in words."""

    def words(side: Sequence[DamageCell]) -> list[str]:
        return [f"{cell.setting}: {' '.join(f'{f.text} {f.against}'.strip() for f in cell.findings)}" for cell in side]

    return words(row.permits), words(row.does_not)


def test_each_fault_is_a_row_with_what_permits_the_damage_against_what_does_not() -> None:
    rows = matrix_of(*faulty()).rows
    assert [row.fault for row in rows] == ["leader loss", "response lost", "request refused"]
    assert told(rows[0]) == (["acks=1: 2,034 lost = predicted"], ["acks=all, min ISR 2: none lost"])
    assert told(rows[1]) == (["idempotence off: 95 duplicated = predicted"], ["idempotence on: none duplicated"])
    assert told(rows[2]) == (
        ["5 in flight, idempotence off: 24 reordered = predicted"],
        ["1 in flight: none reordered", "5 in flight, idempotence on: none reordered"],
    )
    assert rows[0].steps == "killed on leader"


def test_settings_that_kept_every_record_are_named_by_what_they_were_tried_against() -> None:
    own = figures(judged(faulty())).overview
    assert [one.text for one in own.safe] == [
        "nothing lost with acks=all, min ISR 2",
        "nothing duplicated with idempotence on",
        "nothing reordered with 1 in flight; 5 in flight, idempotence on",
    ]
    whole = "acks=all, idempotence on, in-flight 5, RF 3, min ISR 2"
    assert own.safe_whole == f"met all 3 faults without damage: {whole}"


def test_where_no_configuration_met_every_fault_nothing_is_pieced_together() -> None:
    own = figures(judged(faulty()[:-1])).overview
    assert own.safe_whole == "no one configuration met all 3 faults without damage: safety is known piece by piece only"
    assert figures(judged(faulty()[:2])).overview.safe_whole == "", "one fault: its row says it"


def test_every_setting_in_which_the_two_sides_differ_is_told_and_of_how_many_records() -> None:
    row = matrix_of(*faulty()).rows[0]
    off = ("acks=1", "enable.idempotence=false", "max.in.flight=1")
    assert row.permits[0].differing == off
    assert row.does_not[0].differing == (
        "acks=all", "enable.idempotence=true", "max.in.flight=5",
    )  # fmt: skip
    assert {finding.of for cell in row.cells for finding in cell.findings} == {f"of {RECORDS:,} records"}


def test_a_setting_that_lost_records_under_another_fault_is_not_called_safe() -> None:
    lost = {"lost": "predicted"}
    found = matrix_of(
        chaos("leader-loss", "one", {"acks": "1"}, expect=lost, seen={"lost": 9}),
        chaos("leader-loss", "all", {"acks": "all"}),
        chaos("power-loss", "all", {"acks": "all"}, expect=lost, seen={"lost": 3}),
    )
    assert safe_settings(found.rows) == ()


def test_damage_that_was_not_predicted_is_told_against_what_was() -> None:
    row = matrix_of(
        chaos("leader-loss", "one", {"acks": "1"}, expect={"lost": "predicted"}, seen={"lost": 100}, unpredicted=7)
    ).rows[0]
    finding = row.permits[0].findings[0]
    assert (finding.text, finding.against, finding.is_unexpected) == ("100 lost", "≠ 93 predicted", True)
    assert row.permits[0].result == "fail"


def test_a_cell_whose_fault_is_not_proved_is_not_said_to_have_lost_nothing() -> None:
    cell = matrix_of(chaos("leader-loss", "all", {"acks": "all"}, proved=False)).rows[0].does_not[0]
    assert [finding.text for finding in cell.findings] == ["nothing can be said"]
    assert cell.result == "inconclusive"
    assert "no proof" in cell.why


def test_cells_that_the_deciding_settings_do_not_tell_apart_carry_their_case() -> None:
    same = [chaos("leader-loss", case, {"acks": "all"}) for case in ("eager", "lazy")]
    assert [cell.setting for cell in matrix_of(*same).rows[0].does_not] == [
        "acks=all, min ISR 2 · eager",
        "acks=all, min ISR 2 · lazy",
    ]


def test_a_run_without_faults_says_what_its_records_came_to() -> None:
    found = matrix_of(cell_facts(BASELINE, p99_us=9_000, cell_id="a"), cell_facts(BASELINE, p99_us=9_000, cell_id="b"))
    assert found.rows == ()
    assert (
        found.calm == "2 cells without faults: 40,000 records sent and read back, none lost, duplicated or reordered."
    )


def test_damage_without_a_fault_has_a_row_of_its_own() -> None:
    struck = chaos("x", "calm", {"acks": "all"}, seen={"lost": 4})
    found = matrix_of(with_document(struck, kind="sweep"))
    assert [row.fault for row in found.rows] == ["no fault"]
    assert found.rows[0].does_not[0].findings[0].text == "4 lost"
    assert found.calm == "1 of 1 cell without faults had damage."


def test_records_in_the_wrong_topic_are_damage_and_the_client_is_the_suspect() -> None:
    calm = cell_facts(BASELINE, p99_us=9_000, cell_id="a")
    struck = replace(calm, observed={**calm.observed, "misrouted": IdentitySet(count=1_500)})
    found = matrix_of(struck)
    assert [row.fault for row in found.rows] == ["no fault"]
    (finding,) = found.rows[0].does_not[0].findings
    assert (finding.text, finding.against) == ("1,500 in the wrong topic or partition", "suspect the client")
    assert finding.is_unexpected
    assert found.calm == "1 of 1 cell without faults had damage."


def test_the_small_time_line_has_the_dip_under_its_band() -> None:
    cell = matrix_of(*faulty()).rows[0].permits[0]
    own = cell.timeline
    assert own is not None
    assert len(own.rates) <= POINTS_MAX
    (band,) = own.bands
    assert (round(band.start, 2), round(band.end, 2), band.label) == (0.2, 0.4, "killed on leader")
    middle = own.rates[round(len(own.rates) * 0.3)]
    assert middle == 0 < own.rates[0] == own.top


def test_what_is_caught_up_in_an_instant_does_not_press_the_rest_flat() -> None:
    facts = faulty()[0]
    asked = int(facts.slots["intended"].max())
    facts.slots.loc[facts.slots.index[-1], "acked"] = asked * 40
    own = figures(judged([facts])).cells[0].over_time
    peak = max((rate for rate in own.rates if rate.series == "acked"), key=lambda rate: rate.rate)
    top = max(rate.drawn for rate in own.rates)
    assert peak.above
    assert peak.rate == pytest.approx(40 * max(rate.rate for rate in own.rates if rate.series == "asked"), rel=0.01)
    assert top == pytest.approx(1.5 * max(rate.rate for rate in own.rates if rate.series == "asked"), rel=0.01)
    small = small_timeline(own)
    assert small is not None
    assert small.top <= top


def test_nothing_is_drawn_of_a_cell_that_acknowledged_nothing() -> None:
    facts = faulty()[0]
    facts.slots["acked"] = 0
    facts.slots["intended"] = 0
    own = figures(judged([facts])).cells[0].over_time
    assert small_timeline(own) is None
