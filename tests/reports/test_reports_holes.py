"""Evidence with a hole: what rests on it is inconclusive, and everything else is judged as if there were none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.report.reporting import print_verdicts
from reports.figures.figures import figures_of
from reports.judge.anomalies import ANOMALIES, BY_NAME
from reports.judge.broker_cpu import broker_cpu
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS
from reports.judge.damage_checks import JUDGED_ELSEWHERE
from reports.judge.evidence_checks import EVIDENCE_CHECKS
from reports.judge.figure_checks import _LIMIT_FIGURES, READER_LATE
from reports.judge.holes import ALL, RESTS, RESTS_OF_CHECKS, RESTS_OF_CRITERIA, TOUCHES, Evidence
from reports.judge.judged import Judged
from reports.judge.noise import disturbance
from reports.judge.verdict import judge
from reports.read.model import (
    PREDICTED_KINDS,
    SET_KINDS,
    CellFacts,
    Finding,
    IdentityRange,
    IdentitySet,
    SetComparison,
)
from reports.render.junit import junit
from reports.render.markdown import summary
from reports.render.page import render
from reports.render.verdicts_json import verdicts_record
from runlog.records.holes import Hole, HoleKind
from runlog.records.hosts import HostState, LoadHostRecord
from runlog.records.verdicts import Result
from tests.amount import examples
from tests.reports.cells import make_run
from tests.reports.test_reports_verdict import facts


def test_each_kind_of_hole_touches_some_evidence_and_all_evidence_can_have_a_hole() -> None:
    assert set(TOUCHES) == set(HoleKind)
    assert all(TOUCHES.values())
    known = {kind: touched for kind, touched in TOUCHES.items() if touched != ALL}
    # Of the harness's own account there is no part: it is lost with cell.json, and then nothing is known.
    assert {str(one) for one in ALL - frozenset().union(*known.values())} == {"the harness's own account of the cell"}


def test_each_anomaly_that_is_judged_rests_on_some_evidence() -> None:
    judged = {anomaly.name for anomaly in ANOMALIES} - set(JUDGED_ELSEWHERE) | set(PREDICTED_KINDS)
    assert set(RESTS) == judged
    assert all(rests.on and rests.undone_by <= rests.on for rests in RESTS.values())


def test_each_check_of_a_cell_says_what_it_rests_on() -> None:
    named = {*EVIDENCE_CHECKS, "measured", "generator kept up", "steady"}
    assert set(RESTS_OF_CHECKS) == named
    assert set(RESTS_OF_CRITERIA) == {*_LIMIT_FIGURES, READER_LATE}
    assert all(rests.undone_by <= rests.on for rests in (*RESTS_OF_CHECKS.values(), *RESTS_OF_CRITERIA.values()))


def with_outcome(of: CellFacts, **changes: Any) -> CellFacts:
    cell = of.cell
    outcome = replace(cell.record.outcome, **changes)
    return replace(of, cell=replace(cell, record=replace(cell.record, outcome=outcome)))


def with_holes(of: CellFacts, *holes: Hole) -> CellFacts:
    return with_outcome(of, holes=holes)


def results(of: CellFacts) -> dict[str, Result]:
    return {check.name: check.result for check in judge(of).checks}


HW_NAME = f"none {BY_NAME['hw_regression'].title.lower()}"
BELOW_ISR_NAME = f"none {BY_NAME['acked_below_min_isr'].title.lower()}"


def test_a_recorder_that_stopped_makes_inconclusive_what_rests_on_it_and_nothing_else() -> None:
    """It was a note that nothing read, and the cell passed."""
    hole = Hole(kind=HoleKind.HIGH_WATERMARKS, what="the recorder of high watermarks stopped: OSError: no descriptors")
    before, after = results(facts()), judge(with_holes(facts(), hole))
    assert {one.name for one in after.checks if one.result != before[one.name]} == {
        HW_NAME,
        "none truncated below the high watermark",
        "recorded throughout",
    }
    assert after.result == INCONCLUSIVE
    assert after.reasons == [f"parts of the evidence were not recorded: {hole.what}"], "it is told once"


@pytest.mark.parametrize(
    ("note", "kind"),
    [
        ("recorder stopped: OSError: [Errno 28] No space left on device", HoleKind.UNKNOWN),
        ("t-0: no leader told where the epochs end", HoleKind.DEAD_LOGS),
        ("log of broker 2, t was not read: the fault host is gone", HoleKind.DEAD_LOGS),
        ("t-1: no leader told where epoch 3 ends", HoleKind.DEPOSED_LEADERS),
        ("the replicas could not be compared: [Errno 5]", HoleKind.REPLICAS),
        ("what no version ever wrote", HoleKind.UNKNOWN),
        ("attempt 1 was put aside: disturbed host: 30 % in the measured window", None),
        ("fault host b recorded 1,024 batches on client-1, by a clock +0.100 ms off, within 0.020 ms", None),
        ("topic t (id x) could not be deleted: refused, or no broker answered", None),
    ],
)
def test_a_note_of_an_older_run_is_a_hole_unless_it_is_known_to_be_none(note: str, kind: HoleKind | None) -> None:
    old = with_outcome(facts(), holes=None, notes=(note,))
    verdict = judge(old)
    assert [hole.kind for hole in verdict.holes] == ([] if kind is None else [kind])
    assert verdict.result == (PASS if kind is None else INCONCLUSIVE)
    assert note in str((verdict.reasons, verdict.notes))
    if kind is HoleKind.UNKNOWN:
        assert results(old)[BELOW_ISR_NAME] == INCONCLUSIVE


def lost_host(state: HostState = HostState.DEAD, *, is_gathered: bool = False) -> LoadHostRecord:
    return LoadHostRecord(
        name="right", state=state, reason="was not heard of for 45 s", producers=(3, 4), is_gathered=is_gathered
    )


def set_of(*producers: int) -> IdentitySet:
    """One record of each."""
    ranges = tuple(IdentityRange(producer=one, incarnation=0, first_seq=0, last_seq=0) for one in producers)
    return IdentitySet(count=len(ranges), hash=1, ranges=ranges)


@pytest.mark.parametrize(
    ("state", "is_gathered"), [(HostState.DEAD, False), (HostState.DEAD, True), (HostState.DONE, False)]
)
def test_what_a_lost_load_host_sent_is_not_called_a_record_that_nobody_sent(
    state: HostState, is_gathered: bool
) -> None:
    """It was: "348 never sent, unlawful"."""
    hosts = (lost_host(state, is_gathered=is_gathered),)
    its_own = with_outcome(facts(observed={"unexpected": set_of(3, 4)}), load_hosts=hosts)
    assert judge(its_own).result == INCONCLUSIVE
    assert "load host right" in judge(its_own).reasons[0]
    of_others = with_outcome(facts(observed={"unexpected": set_of(2, 3)}), load_hosts=hosts)
    assert judge(of_others).result == FAIL, "producer 2 ran elsewhere, and all its sends are known"


def test_a_load_host_that_was_gathered_and_held_is_no_hole() -> None:
    held = replace(lost_host(HostState.DONE, is_gathered=True), reason="")
    assert judge(with_outcome(facts(), load_hosts=(held,))).holes == ()
    cell = with_outcome(facts(observed={"unexpected": set_of(3)}), load_hosts=(held,))
    assert judge(cell).result == FAIL


def test_without_samples_of_the_host_only_what_rests_on_them_is_in_doubt() -> None:
    hole = Hole(kind=HoleKind.SAMPLES, what="the recorder of CPU and memory stopped: OSError")
    cell = with_holes(facts(), hole)
    assert results(cell) == results(facts())
    assert hole.what in disturbance(cell), "a limit that is not held may be the host's fault"
    assert broker_cpu(cell) is None


# --- all kinds, all checks --------------------------------------------------------------------------------------------

JUDGED = sorted(set(RESTS) - {"crashed"})  # and those that are no sets of records: they are findings
SETS = sorted(set(JUDGED) & set(SET_KINDS) - set(PREDICTED_KINDS))
FINDINGS = sorted(set(JUDGED) - set(SET_KINDS))
HOLES = st.builds(
    Hole,
    kind=st.sampled_from(sorted(HoleKind)),
    what=st.sampled_from(["stopped", "torn", "missing"]),
    where=st.sampled_from(["", "broker 1", "load host a"]),
    producers=st.sampled_from([(), (1,), (1, 2)]),
)


@st.composite
def cells(draw: st.DrawFn) -> CellFacts:
    """With any damage, expected or not, and with or without load hosts."""
    expect = {kind: draw(st.sampled_from(["none", "predicted", "exact", "any"])) for kind in PREDICTED_KINDS}
    sets = {kind: SetComparison(**{part: set_of(*draw(PRODUCERS)) for part in PARTS}) for kind in PREDICTED_KINDS}
    seen = draw(st.sets(st.sampled_from(SETS), max_size=3))
    found = {
        kind: Finding(count=1, examples=("seen",)) for kind in draw(st.sets(st.sampled_from(FINDINGS), max_size=2))
    }
    client = {"acks": draw(st.sampled_from(["all", "1", "0"]))}
    made = facts(expect=expect, sets=sets, observed={kind: set_of(*draw(PRODUCERS)) for kind in seen}, client=client)
    held = (replace(lost_host(HostState.DONE, is_gathered=True), reason=""),) if draw(st.booleans()) else ()
    return with_outcome(replace(made, findings=found), load_hosts=held)


PARTS = ("both", "only_predicted", "only_observed")
PRODUCERS = st.lists(st.integers(0, 3), max_size=2, unique=True)


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(300))
@given(cells(), st.lists(HOLES, min_size=1, max_size=3))
def test_no_false_pass_and_no_false_fail_whatever_has_a_hole(whole: CellFacts, holes: list[Hole]) -> None:
    before = {check.name: check for check in judge(whole).checks}
    verdict = judge(with_holes(whole, *holes))
    touched = frozenset().union(*(TOUCHES[hole.kind] for hole in holes))
    for check in verdict.checks:
        first = before[check.name]
        if check.name in ("run log readable", "recorded throughout", "load hosts held", "final read complete"):
            assert check.result == first.result or check.result == INCONCLUSIVE
        elif not first.rests.on & touched:
            assert check == first, "a hole elsewhere changes nothing"
        elif first.result == FAIL and not first.rests.undone_by & touched:
            assert check == first, "what was seen is a violation whatever is missing"
        else:
            assert check.result == INCONCLUSIVE or (first.producers and check == first)
    assert set(verdict.holes) >= set(holes)
    if touched != {Evidence.SAMPLES}:
        assert verdict.result != PASS
    for hole in holes:
        assert hole.text() in str([check.reason for check in verdict.checks]), "it is told where the verdict is"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [HoleKind.JOURNALS, HoleKind.SAMPLES, HoleKind.SEND_ROWS])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_hole_is_shown_on_the_page_in_the_terminal_and_in_both_files(
    kind: HoleKind, is_damaged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    hole = Hole(kind=kind, what="something stopped in the middle")
    cell = with_holes(facts(observed={"corrupt": set_of(1)} if is_damaged else {}), hole)
    figures = figures_of(make_run(directory="/", manifest={}, cells=()), [Judged(facts=cell, verdict=judge(cell))])
    record = verdicts_record(figures)
    assert record.cells[0].holes == (hole,)
    expected = FAIL if is_damaged else PASS if kind is HoleKind.SAMPLES else INCONCLUSIVE
    assert record.verdict == expected
    print_verdicts(record, Path("/report.html"))
    for text in (junit(figures), render(figures), summary(figures), " ".join(capsys.readouterr().out.split())):
        assert hole.what in text
