"""Which cells a chart of one knob shows, and what the timeline of a cell tells."""

from __future__ import annotations

from dataclasses import replace

from reports.figures.knobs import batch_words, knob_rows
from reports.figures.timeline import timeline_steps
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import Latency
from tests.reports import cells
from tests.reports.test_reports_verdict import facts

KNOBS = {"acks": "all", "linger.ms": "5"}


def sweep_cell(cell_id: str, changed: str, knobs: dict[str, str], *, idempotence: str = "true") -> Judged:
    made = facts(kind="sweep")
    document = cells.document_of(made.cell) | {
        "cell_id": cell_id,
        "title": cell_id,
        "changed": changed,
        "baseline": not changed,
        "knobs": KNOBS | knobs,
        "properties": KNOBS | knobs | {"enable.idempotence": idempotence},
    }
    latency = {"corrected": Latency(), "end_to_end": Latency()}
    made = replace(made, latency=latency, cell=cells.changed(made.cell, cell_id=cell_id, document=document))
    return Judged(facts=made, verdict=judge(made))


def test_a_knob_shows_the_baseline_and_the_cells_that_changed_it_alone() -> None:
    judged = [
        sweep_cell("base", "", {}),
        sweep_cell("acks-1", "acks", {"acks": "1"}, idempotence="false"),
        sweep_cell("linger-50", "linger.ms", {"linger.ms": "50"}),
        sweep_cell("plain", "enable.idempotence", {}, idempotence="false"),
    ]
    shown = {knob: {(row.cell_id, row.role) for row in rows} for knob, rows in knob_rows(judged, {}).items()}
    assert shown == {
        "acks": {("base", "baseline"), ("acks-1", "changed")},
        "linger.ms": {("base", "baseline"), ("linger-50", "changed")},
        "enable.idempotence": {("base", "baseline"), ("plain", "changed")},
    }


def line(fault_id: str, kind: str, target: str, phase: str, t_us: int, **detail: object) -> dict[str, object]:
    resolved = [] if kind == "wait" else ["internal-1-3", "internal-2-3"]
    return {
        "t_us": t_us,
        "id": fault_id,
        "kind": kind,
        "target": target,
        "resolved": resolved,
        "phase": phase,
        "detail": detail,
    }


def test_an_awaited_condition_is_a_moment_and_no_fault_window() -> None:
    cell = cells.changed(
        facts().cell,
        faults=(
            line("cut", "link_cut", "followers->leader", "applied", 1_000_000, label="link cut", took_us=9),
            line("cut", "link_cut", "followers->leader", "proved", 1_100_000, label="link cut", broker={"pid": 7}),
            line("isr", "wait", "isr == 1", "proved", 2_000_000, isr=[3], waited_us=900_000),
            line("cut", "link_cut", "followers->leader", "healed", 3_000_000, label="link cut"),
        ),
    )
    cut, wait = timeline_steps(cell)
    assert [(step.t, step.t_end) for step in (cut, wait) if not step.wait] == [(1.0, 3.0)]
    assert cut.label == "link cut on followers->leader (internal-1-3, internal-2-3)"
    assert cut.proof == "broker: pid 7"
    assert (wait.label, wait.t, wait.proof) == ("condition: isr == 1", 2.0, "isr 3; waited 0.90 s")


def test_a_fault_without_effect_never_reads_as_a_proof() -> None:
    begun = line("f", "pause", "leader", "applied", 1_000_000)
    silent = line("f", "pause", "leader", "not_effective", 2_000_000)
    for last, proof in ((silent, "had no effect"), ({**silent, "detail": {"why": "gone"}}, "had no effect: why gone")):
        (step,) = timeline_steps(cells.changed(facts().cell, faults=(begun, last)))
        assert (step.proof, step.proved) == (proof, False)


def test_counters_of_links_are_words_and_links_without_any_are_left_out() -> None:
    """A page showed `links: client-1 {'matched': 20, 'acted': 3}, client-2 {}`."""
    links = {"client-1": {"matched": 20, "acted": 3}, "client-2": {}}
    proved = line("f", "kafka_drop_response", "client->all", "proved", 2_000, acted=3, links=links)
    made = facts().cell
    (step,) = timeline_steps(cells.changed(made, faults=(line("f", "x", "y", "applied", 1_000), proved)))
    assert step.proof == "requests acted on 3; links: client-1 (requests looked at 20, requests acted on 3)"
    idle = line("f", "x", "y", "proved", 2_000, links={"client-2": {}})
    (step,) = timeline_steps(cells.changed(made, faults=(line("f", "x", "y", "applied", 1_000), idle)))
    assert step.proof == "proved"


def test_records_per_batch_are_named_as_a_reason_only_where_they_differ() -> None:
    rows = knob_rows([sweep_cell("base", "", {}), sweep_cell("linger-50", "linger.ms", {"linger.ms": "50"})], {})
    base, changed = rows["linger.ms"]
    alike = [replace(base, records_per_batch=3.0), replace(changed, records_per_batch=3.1)]
    assert batch_words(alike).startswith("Records per batch are alike at all values (3.0 to 3.1)")
    differ = [replace(base, records_per_batch=3.0), replace(changed, records_per_batch=6.7)]
    assert batch_words(differ) == "Records per batch differ (3.0 to 6.7): that tells part of why."
    assert batch_words([replace(base, records_per_batch=None)]) == ""
