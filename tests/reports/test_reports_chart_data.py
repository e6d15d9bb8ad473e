"""Which cells a chart of one knob shows."""

from __future__ import annotations

from dataclasses import replace

from reports.chart_data import sweep_data
from reports.model import Latency
from reports.outputs import Judged
from reports.verdict import judge
from tests.reports.test_reports_verdict import facts

KNOBS = {"acks": "all", "linger.ms": "5"}


def sweep_cell(cell_id: str, changed: str, knobs: dict[str, str], *, idempotence: str = "true") -> Judged:
    made = facts(kind="sweep")
    document = made.cell.document | {
        "cell_id": cell_id,
        "title": cell_id,
        "changed": changed,
        "baseline": not changed,
        "knobs": KNOBS | knobs,
        "properties": KNOBS | knobs | {"enable.idempotence": idempotence},
    }
    latency = {"corrected": Latency(), "end_to_end": Latency()}
    made = replace(made, latency=latency, cell=replace(made.cell, cell_id=cell_id, document=document))
    return Judged(facts=made, verdict=judge(made))


def test_a_knob_shows_the_baseline_and_the_cells_that_changed_it_alone() -> None:
    judged = [
        sweep_cell("base", "", {}),
        sweep_cell("acks-1", "acks", {"acks": "1"}, idempotence="false"),
        sweep_cell("linger-50", "linger.ms", {"linger.ms": "50"}),
        sweep_cell("plain", "enable.idempotence", {}, idempotence="false"),
    ]
    shown = {knob: {(row["cell_id"], row["role"]) for row in rows} for knob, rows in sweep_data(judged).items()}
    assert shown == {
        "acks": {("base", "baseline"), ("acks-1", "changed")},
        "linger.ms": {("base", "baseline"), ("linger-50", "changed")},
        "enable.idempotence": {("base", "baseline"), ("plain", "changed")},
    }
