"""Evidence with a hole: what rests on it is inconclusive, and everything else is judged as if there were none."""

from __future__ import annotations

from reports.judge.anomalies import ANOMALIES
from reports.judge.damage_checks import JUDGED_ELSEWHERE
from reports.judge.holes import ALL, RESTS, TOUCHES
from reports.read.model import PREDICTED_KINDS
from runlog.records.holes import HoleKind


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
