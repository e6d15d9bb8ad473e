"""The verdict as a table: facts in, pass, fail or inconclusive out; and the rulings of `lawful.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.evidence.completeness import hole_of_file
from reports.evidence.configuration import Configuration, configuration_of
from reports.evidence.share_groups import Fate, ShareStory
from reports.figures import generator
from reports.figures.figures import figures_of
from reports.figures.overview.doubts import late_faults
from reports.figures.sweep.observations import CLIENT_BOUND, OK, observe
from reports.judge import evidence_checks
from reports.judge.anomalies import ANOMALIES
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, worst
from reports.judge.evidence_checks import EVIDENCE_CHECKS
from reports.judge.judged import Judged, exit_code
from reports.judge.lawful import ALWAYS, IMPOSSIBLE, LAWFUL, RULES, UNLAWFUL, rule, table
from reports.judge.verdict import judge
from reports.read.model import Basis, CellFacts, Counts, Finding, IdentitySet, Latency, Recovery, SetComparison
from reports.render.csv_tables import certificate_table
from reports.render.junit import junit
from reports.render.lawful_page import render
from reports.render.markdown import summary
from reports.render.verdicts_json import cell_record
from reports.render.words import three_digits
from runlog.quality.criteria import CRITERIA as LIMITS
from runlog.records.fault import PLANNED_US
from tests.reports.cells import changed, document_of, make_cell, make_run
from tests.reports.made_slots import made_slots

SOME = IdentitySet(count=5, hash=1)
PROVED = ({"id": "f", "phase": "applied", "kind": "kill", "target": "leader"}, {"id": "f", "phase": "proved"})


def comparison(both: int = 0, only_predicted: int = 0, only_observed: int = 0) -> SetComparison:
    return SetComparison(
        both=IdentitySet(count=both),
        only_predicted=IdentitySet(count=only_predicted),
        only_observed=IdentitySet(count=only_observed),
    )


def facts(
    *,
    kind: str = "chaos",
    expect: dict[str, str] | None = None,
    sets: dict[str, SetComparison] | None = None,
    observed: dict[str, IdentitySet] | None = None,
    faults: tuple[dict[str, Any], ...] = PROVED,
    status: str = "done",
    complete: bool = True,
    missing: tuple[str, ...] = (),
    acked: int = 10_000,
    sent_per_slot: int = 100,
    cpu_share: float | None = 0.3,
    steady: float | None = 0.97,
    rate: int = 1000,
    throughput: float = 1000.0,
    failed: int = 0,
    unknown: int = 0,
    basis: Basis = Basis.ACKNOWLEDGED,
    client: dict[str, str] | None = None,
    topic: dict[str, str] | None = None,
    load_hosts: tuple[dict[str, Any], ...] = (),
) -> CellFacts:
    outcome = {
        "status": status,
        "measure_start_us": 0,
        "measure_end_us": 5_000_000,
        "final_read": {"complete": complete, "reason": "" if complete else "partition 2 has no leader"},
        "effective": {"client": client or {}, "topic": topic or {}},
        "health": {} if cpu_share is None else {"cpu_share": cpu_share},
        "load_hosts": list(load_hosts),
    }
    document = {"kind": kind, "expect": expect or {}, "outcome": outcome, "workload": {"rate_per_s": rate}}
    slots = made_slots(5_000_000, 100_000, sent_per_slot)
    return CellFacts(
        cell=make_cell(cell_id="c", document=document, faults=faults if kind == "chaos" else ()),
        counts=Counts(
            acked=acked, acked_total=acked, failed_total=failed, unknown_total=unknown, log_in_window=unknown
        ),
        throughput_basis=basis,
        predictions={name: (sets or {}).get(name, comparison()) for name in ("lost", "duplicated", "reordered")},
        observed=observed or {},
        latency={kind: Latency() for kind in ("schedule_lag", "corrected", "uncorrected", "end_to_end")},
        holes=tuple(map(hole_of_file, missing)),
        steady_ratio=steady,
        throughput_records_per_s=throughput,
        slots=slots,
    )


CASES: list[tuple[str, CellFacts, str]] = [
    ("a safe cell without damage", facts(), PASS),
    ("damage where none is expected", facts(sets={"lost": comparison(only_observed=1)}), FAIL),
    ("predicted damage where none is expected", facts(sets={"lost": comparison(both=1)}), FAIL),
    ("predicted but unseen where none is expected", facts(sets={"lost": comparison(only_predicted=1)}), INCONCLUSIVE),
    ("exactly what was predicted", facts(expect={"lost": "predicted"}, sets={"lost": comparison(both=9)}), PASS),
    (
        "one too many",
        facts(expect={"lost": "predicted"}, sets={"lost": comparison(both=9, only_observed=1)}),
        FAIL,
    ),
    (
        "one too few",
        facts(expect={"duplicated": "predicted"}, sets={"duplicated": comparison(both=9, only_predicted=1)}),
        FAIL,
    ),
    (
        "a compaction may have removed the first copy of a duplicate",
        facts(
            expect={"duplicated": "exact"},
            sets={"duplicated": comparison(both=9, only_predicted=1)},
            topic={"cleanup.policy": "compact"},
        ),
        INCONCLUSIVE,
    ),
    (
        "and then its second one seems to come late",
        facts(
            expect={"duplicated": "exact"},
            sets={"duplicated": comparison(both=9), "reordered": comparison(only_observed=1)},
            topic={"cleanup.policy": "compact"},
        ),
        INCONCLUSIVE,
    ),
    (
        "but it adds no duplicate",
        facts(
            expect={"duplicated": "exact"},
            sets={"duplicated": comparison(both=9, only_observed=1)},
            topic={"cleanup.policy": "compact"},
        ),
        FAIL,
    ),
    (
        "and a duplicate that nobody expects is one",
        facts(sets={"duplicated": comparison(both=2, only_predicted=7)}, topic={"cleanup.policy": "compact"}),
        FAIL,
    ),
    (
        "and without duplicates the order is that of the log",
        facts(sets={"reordered": comparison(only_observed=1)}, topic={"cleanup.policy": "compact"}),
        FAIL,
    ),
    (
        "all duplicates that were predicted are there",
        facts(
            expect={"duplicated": "exact"},
            sets={"duplicated": comparison(both=9)},
            topic={"cleanup.policy": "compact"},
        ),
        PASS,
    ),
    ("damage was to be shown and was not", facts(expect={"reordered": "predicted"}), INCONCLUSIVE),
    ("any number", facts(expect={"lost": "any"}, sets={"lost": comparison(only_observed=3)}), PASS),
    ("fault not proved", facts(faults=PROVED[:1]), INCONCLUSIVE),
    (
        "all load hosts held",
        facts(load_hosts=({"name": "one", "state": "done"}, {"name": "two", "state": "done"})),
        PASS,
    ),
    (
        "a load host was lost",
        facts(load_hosts=({"name": "one", "state": "done"}, {"name": "two", "state": "dead", "reason": "gone"})),
        INCONCLUSIVE,
    ),
    (
        # What a step waited for came. That proves nothing of its fault, which has the same id.
        "fault without effect after a wait that ended",
        facts(
            faults=(
                {"id": "f", "kind": "wait", "phase": "proved"},
                {"id": "f", "phase": "applied"},
                {"id": "f", "phase": "not_effective"},
            )
        ),
        INCONCLUSIVE,
    ),
    ("fault without effect", facts(faults=({"id": "f", "phase": "not_effective"},)), INCONCLUSIVE),
    ("no fault at all", facts(faults=()), INCONCLUSIVE),
    (
        "one of two faults not proved",
        facts(faults=(*PROVED, {"id": "g", "phase": "applied"})),
        INCONCLUSIVE,
    ),
    ("final read incomplete", facts(complete=False), INCONCLUSIVE),
    (
        "final read incomplete hides whether records are lost",
        facts(complete=False, sets={"lost": comparison(only_observed=4)}),
        INCONCLUSIVE,
    ),
    (
        "duplicates are seen even so",
        facts(complete=False, sets={"duplicated": comparison(only_observed=4)}),
        FAIL,
    ),
    (
        "with acks=0 loss breaks no promise",
        facts(client={"acks": "0"}, observed={"lost_unacked": SOME}, expect={"lost_unacked": "some"}),
        PASS,
    ),
    (
        "and is to be seen where it is to be shown",
        facts(client={"acks": "0"}, expect={"lost_unacked": "some"}),
        INCONCLUSIVE,
    ),
    ("a client that waits for answers cannot lose without one", facts(observed={"lost_unacked": SOME}), FAIL),
    ("interrupted", facts(status="interrupted"), INCONCLUSIVE),
    ("nearly every send failed", facts(kind="sweep", acked=4_000, failed=6_000), INCONCLUSIVE),
    ("nearly every send is unknown", facts(kind="sweep", acked=4_000, unknown=6_000), INCONCLUSIVE),
    ("a fault may keep most sends from being accepted", facts(acked=1_000, failed=9_000), PASS),
    ("and hardly all of them", facts(acked=400, failed=9_600), INCONCLUSIVE),
    ("acks=0 acknowledges nothing", facts(acked=0, unknown=9_000, basis=Basis.IN_LOG), PASS),
    (
        "with acks=0 nearly every send failed",
        facts(acked=0, unknown=400, failed=9_000, basis=Basis.IN_LOG),
        INCONCLUSIVE,
    ),
    ("a try above the limit may time out", facts(kind="search", acked=400, unknown=9_600), PASS),
    ("stream missing", facts(missing=("log: no file",)), INCONCLUSIVE),
    ("too few records", facts(acked=99), INCONCLUSIVE),
    ("few records hide no loss", facts(acked=99, sets={"lost": comparison(only_observed=4)}), FAIL),
    ("few records hide no record that nobody sent", facts(acked=0, observed={"unexpected": SOME}), FAIL),
    ("many refused sends hide no loss", facts(acked=400, failed=9_600, sets={"lost": comparison(1, 2, 3)}), FAIL),
    ("corrupt records", facts(observed={"corrupt": SOME}), FAIL),
    ("records in the wrong topic", facts(observed={"misrouted": SOME}), FAIL),
    ("records that nobody sent", facts(observed={"unexpected": SOME}), FAIL),
    ("delivered twice", facts(observed={"dup_delivered": SOME}), FAIL),
    ("copies of nothing", facts(observed={"copy_unexpected": SOME}), FAIL),
    ("a committed copy passed over", facts(observed={"copy_passed_over": SOME}), FAIL),
    ("acknowledged where nothing is", facts(observed={"ack_misplaced": SOME}), FAIL),
    ("answered twice", facts(observed={"answered_twice": SOME}), FAIL),
    ("a partition that a reader got nothing of", facts(observed={"unread": SOME}), INCONCLUSIVE),
    ("recovered records are no damage", facts(observed={"recovered": SOME}), PASS),
    ("a slow generator in a chaos cell is no matter", facts(sent_per_slot=10, cpu_share=1.0), PASS),
    ("sweep as asked", facts(kind="sweep"), PASS),
    ("sweep with a saturated generator", facts(kind="sweep", sent_per_slot=80, cpu_share=0.97), INCONCLUSIVE),
    ("sweep short of the rate, cause unknown", facts(kind="sweep", sent_per_slot=80, cpu_share=None), INCONCLUSIVE),
    ("sweep beyond what the brokers carry", facts(kind="sweep", sent_per_slot=80, cpu_share=0.4), PASS),
    ("unsteady sweep: the brokers stall too", facts(kind="sweep", steady=0.3), PASS),
    ("sweep whose records were all acknowledged after the window", facts(kind="sweep", throughput=0.0), INCONCLUSIVE),
    ("sweep with loss", facts(kind="sweep", sets={"lost": comparison(only_observed=1)}), FAIL),
]


@pytest.mark.parametrize(("given", "expected"), [(case[1], case[2]) for case in CASES], ids=[case[0] for case in CASES])
def test_verdict(given: CellFacts, expected: str) -> None:
    verdict = judge(given)
    assert verdict.result == expected, verdict.checks
    assert verdict.reasons


@pytest.mark.parametrize(
    ("results", "expected"),
    [([], 4), ([PASS], 0), ([PASS, INCONCLUSIVE], 4), ([INCONCLUSIVE, FAIL, PASS], 1)],
)
def test_the_exit_code_is_that_of_the_worst_cell(results: list[str], expected: int) -> None:
    samples = {PASS: facts(), FAIL: facts(observed={"corrupt": SOME}), INCONCLUSIVE: facts(status="failed")}
    judged = [Judged(facts=samples[result], verdict=judge(samples[result])) for result in results]
    assert [item.verdict.result for item in judged] == results
    assert exit_code(judged) == expected
    assert worst(results) == {0: PASS, 1: FAIL, 4: INCONCLUSIVE}[expected]


def test_junit_has_failures_and_errors_where_the_checks_have_them() -> None:
    bad = facts(observed={"corrupt": SOME}, complete=False)
    text = junit(figures_of(make_run(directory="/", manifest={}, cells=()), [Judged(facts=bad, verdict=judge(bad))]))
    assert text.count("<failure ") == 1
    open_checks = [check for check in judge(bad).checks if check.result == INCONCLUSIVE]
    assert text.count("<error ") == len(open_checks)
    # The read itself, loss, and whatever else cannot be excluded in a log that nobody has read.
    assert {"final read complete", "lost: none expected", "none never sent"} <= {check.name for check in open_checks}
    assert judge(bad).reasons == ["5 corrupt (unlawful: " + rule("corrupt", configuration_of(bad.cell)).reason + ")"]
    assert 'failures="1"' in text


def test_damage_of_which_any_number_is_allowed_is_called_so_everywhere() -> None:
    given = facts(expect={"reordered": "any"}, sets={"reordered": comparison(only_observed=226)})
    judged = [Judged(facts=given, verdict=judge(given))]
    found = figures_of(make_run(directory="/", manifest={}, cells=()), judged)
    assert "| 226 (allowed) |" in summary(found)
    assert "of 0 predicted" not in summary(found)
    assert "<system-out>226 reordered (allowed): any number is accepted" in junit(found)
    assert cell_record(found.cells[0]).predicted.reordered.expected == "any"
    assert cell_record(found.cells[0]).predicted.lost.expected == "none"


@pytest.mark.parametrize(("ceiling", "expected"), [(1_400.0, PASS), (1_300.0, INCONCLUSIVE), (None, PASS)])
def test_a_rate_near_what_the_generator_reaches_by_itself_is_never_the_clusters(
    ceiling: float | None, expected: str
) -> None:
    own = facts(kind="sweep")
    document = {**document_of(own.cell), "certificate": {"records_per_s": ceiling, "exact": True} if ceiling else {}}
    near = replace(own, cell=changed(own.cell, document=document), throughput_records_per_s=1_000.0)
    verdict = judge(near)
    assert verdict.result == expected
    assert ("client-bound" in verdict.reasons[0]) is (expected == INCONCLUSIVE)
    item = Judged(facts=near, verdict=verdict)
    assert generator.figures(item)["ceiling_records_per_s"] == ceiling
    (observed,) = observe([item])
    assert observed.state == (CLIENT_BOUND if expected == INCONCLUSIVE else OK)
    assert bool(observed.values) is (expected == PASS)


def test_the_page_of_the_generator_says_what_it_reached_by_itself_or_why_nobody_knows() -> None:
    one = {"id": "shape-1", "client": "c", "shape": "1 KiB", "properties": {"acks": "1"}, "records_per_s": 123_456.7,
           "cpu_share_by_process": [0.5, 0.9], "disturbed": True}  # fmt: skip
    found = told_of({"status": "done", "seconds": 4.0, "certificates": [one], "problems": ["p"]})
    assert "1 shape in 4 s. Others ran" in found.certification
    assert three_digits(found.certificates[0].shown()[0]) == "123,457"
    header, rows = certificate_table(found)
    assert dict(zip(header, rows[0], strict=True))["cpu_share_busiest"] == 0.9
    skipped = {"status": "skipped", "why": "--no-certify", "certificates": []}
    assert "skipped: --no-certify" in told_of(skipped).certification
    assert "not certified" in told_of(None).certification


def told_of(certification: dict[str, Any] | None) -> generator.GeneratorFigures:
    return generator.generator_figures([], make_run(manifest={"certification": certification}).record.certification)


RULINGS = [
    ("lost", Configuration(acks="0"), IMPOSSIBLE),
    ("lost", Configuration(acks="1"), LAWFUL),
    ("lost", Configuration(acks="1", replication_factor=1), UNLAWFUL),
    ("lost", Configuration(acks="all", min_isr=2), UNLAWFUL),
    ("lost", Configuration(acks="all", min_isr=1), UNLAWFUL),
    ("lost", Configuration(acks="all", min_isr=2, unclean_election=True), LAWFUL),
    ("duplicated", Configuration(), LAWFUL),
    ("duplicated", Configuration(retries=0), UNLAWFUL),
    ("duplicated", Configuration(idempotence=True), UNLAWFUL),
    ("reordered", Configuration(max_in_flight=5), LAWFUL),
    ("reordered", Configuration(max_in_flight=1), UNLAWFUL),
    ("reordered", Configuration(max_in_flight=5, idempotence=True), UNLAWFUL),
    ("dup_delivered", Configuration(), UNLAWFUL),
    ("dup_delivered", Configuration(truncated=True), LAWFUL),
    ("lost", Configuration(min_isr=2, lost_power=True), LAWFUL),
    ("lost", Configuration(min_isr=2, lost_power=True, flushes_each=True), UNLAWFUL),
    ("offset_reused", Configuration(min_isr=2), UNLAWFUL),
    ("offset_reused", Configuration(acks="1"), LAWFUL),
    ("two_leaders_ack", Configuration(acks="1"), LAWFUL),
    ("two_leaders_ack", Configuration(acks="all"), UNLAWFUL),
    ("acked_below_min_isr", Configuration(acks="1"), IMPOSSIBLE),
    ("acked_below_min_isr", Configuration(min_isr=2), UNLAWFUL),
    ("read_above_hw", Configuration(unclean_election=True), LAWFUL),
    ("read_above_hw", Configuration(acks="1"), UNLAWFUL),
    ("phantom", Configuration(), UNLAWFUL),
    ("misrouted", Configuration(acks="0"), UNLAWFUL),
    ("misrouted", Configuration(acks="1"), UNLAWFUL),
    ("poll_skip", Configuration(), UNLAWFUL),
    ("poll_skip", Configuration(subscribes=True), LAWFUL),
    ("dup_delivered", Configuration(subscribes=True), LAWFUL),
    ("lost_in_delivery", Configuration(subscribes=True), UNLAWFUL),
    ("recovered", Configuration(), LAWFUL),
    ("unexpected", Configuration(), UNLAWFUL),
    ("corrupt", Configuration(), UNLAWFUL),
]


@pytest.mark.parametrize(("anomaly", "configuration", "expected"), RULINGS)
def test_ruling(anomaly: str, configuration: Configuration, expected: str) -> None:
    ruling = rule(anomaly, configuration)
    assert ruling.lawful == expected
    assert ruling.reason
    assert ruling.source


def test_the_configuration_in_force_is_what_was_read_back() -> None:
    document = {
        "properties": {"acks": "1", "enable.idempotence": "true"},
        "topic": {"replication_factor": 3, "config": {"min.insync.replicas": "2"}},
        "outcome": {"effective": {"client": {"acks": "-1"}, "broker": {"min.insync.replicas": "1"}}},
    }
    found = configuration_of(make_cell(cell_id="c", document=document))
    assert found == Configuration(acks="all", idempotence=True, replication_factor=3, min_isr=2)


def test_the_table_rules_on_every_anomaly_and_is_the_one_in_docs() -> None:
    assert [name for name, _ in table()] == [anomaly.name for anomaly in ANOMALIES]
    assert all(ruling.reason and ruling.source for _, rulings in table() for ruling in rulings)
    assert (Path(__file__).parents[2] / "docs" / "reference" / "lawful.md").read_text() == render()


def test_every_exception_of_a_rule_and_every_check_stands_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = render()
    for name, cases in RULES.items():
        assert [case.condition for case in cases].index(ALWAYS) == len(cases) - 1, name  # the last, and no other
        for case in cases:
            assert case.condition.text in page
            assert case.ruling.reason in page
    # A cell that has all that some checks are for: load hosts, share groups, requests that fault hosts saw.
    with_hosts = facts(load_hosts=({"name": "load-1", "state": "done"},))
    story = ShareStory(
        group="g", fates=dict.fromkeys(Fate, 0), again=0, deliveries=0, lost=(), after_done=(), over_limit=(),
        is_end_known=True,
    )  # fmt: skip
    monkeypatch.setattr(evidence_checks, "share_stories", lambda cell: [story])
    monkeypatch.setattr(evidence_checks, "has_host_clocks", lambda cell: True)
    evidence = {check.name for check in judge(with_hosts).checks[: len(EVIDENCE_CHECKS)]}
    assert evidence == set(EVIDENCE_CHECKS)
    assert f"at least {LIMITS.records_min} records" in page
    assert "Two brokers are not compared" in page


def test_a_recreation_excuses_what_readers_were_given_with_acks_0_too() -> None:
    """Nothing can be lost there, but what was read may be gone all the same."""
    for configuration in (
        Configuration(acks="0", topic_recreated=True),
        Configuration(acks="0", lost_power=True),
    ):
        assert rule("read_above_hw", configuration).lawful == LAWFUL
    assert rule("hw_regression", Configuration(acks="0", lost_power=True)).lawful == LAWFUL


def test_what_the_table_calls_impossible_fails_a_run_that_shows_it() -> None:
    given = replace(facts(), observed={"acked_below_min_isr": SOME})
    assert rule("acked_below_min_isr", configuration_of(given.cell)).lawful == IMPOSSIBLE
    assert judge(given).result == FAIL


def test_a_run_log_that_contradicts_itself_is_inconclusive_and_says_where() -> None:
    verdict = judge(replace(facts(), contradictions=("2 row(s) of send are there twice",)))
    assert verdict.result == INCONCLUSIVE
    assert verdict.reasons == ["the run log contradicts itself: 2 row(s) of send are there twice"]


def test_a_batch_with_a_wrong_crc_is_corrupt_though_none_of_its_records_can_be_read() -> None:
    given = facts()
    outcome = document_of(given.cell)["outcome"] | {
        "final_read": {"complete": True, "corrupt": ["partition 0: offsets 3 to 9"]}
    }
    cell = changed(given.cell, document=document_of(given.cell) | {"outcome": outcome})
    assert judge(replace(given, cell=cell)).result == FAIL


def test_findings_of_events_fail_with_their_first_case() -> None:
    given = replace(facts(), findings={"two_controllers": Finding(count=2, examples=("epoch 7: 1 and 2",))})
    verdict = judge(given)
    assert verdict.result == FAIL
    assert "epoch 7: 1 and 2" in verdict.reasons[0]


CRITERIA = [
    ("elect", 5.0, PASS),
    ("elect", 1.9, FAIL),
    ("first ack", 3.0, PASS),
    ("recover", 60.0, INCONCLUSIVE),
    ("area", 10.0, FAIL),
]


@pytest.mark.parametrize(("figure", "limit", "expected"), CRITERIA)
def test_a_scenarios_limits_on_recovery(figure: str, limit: float, expected: str) -> None:
    base = facts()
    document = document_of(base.cell) | {
        "criteria": [{"text": f"{figure} <= {limit}", "figure": figure, "limit": limit}]
    }
    found = Recovery(fault="kill on leader", fault_us=0, elect_us=2_000_000, first_ack_us=2_500_000,
                     area_record_seconds=99.0)  # fmt: skip
    given = replace(base, cell=changed(base.cell, document=document), recovery=found)
    assert judge(given).result == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [(2.6, PASS), (2.504, INCONCLUSIVE), (2.5, INCONCLUSIVE), (2.496, INCONCLUSIVE), (2.4, FAIL)]
)
def test_a_limit_that_the_clocks_of_load_hosts_leave_open_is_inconclusive(limit: float, expected: str) -> None:
    base = facts()
    document = document_of(base.cell) | {
        "criteria": [{"text": f"first ack <= {limit}", "figure": "first ack", "limit": limit}]
    }
    found = Recovery(fault="kill on leader", fault_us=0, first_ack_us=2_500_000, clock_error_us=5_000.0)
    verdict = judge(replace(base, cell=changed(base.cell, document=document), recovery=found))
    assert verdict.result == expected
    assert (expected != INCONCLUSIVE) or "it can be wrong by 5.000 ms" in verdict.reasons[0]


@pytest.mark.parametrize(("gap_us", "expected"), [(2_900_000, PASS), (4_000_000, FAIL), (None, INCONCLUSIVE)])
def test_a_limit_on_silence_needs_no_fault(gap_us: int | None, expected: str) -> None:
    base = facts()
    criteria = [{"text": "gap <= 3s", "figure": "gap", "limit": 3.0}]
    cell = changed(base.cell, document=document_of(base.cell) | {"criteria": criteria, "has_faults": False})
    assert judge(replace(base, cell=cell, recovery=None, gap_us=gap_us)).result == expected


def test_an_unsteady_cell_is_marked() -> None:
    notes = judge(facts(kind="sweep", steady=0.3)).notes
    assert "unsteady: the slowest third had 30% of the fastest third's rate; it counts" in notes


def test_what_a_planned_fault_does_to_the_rate_is_no_mark() -> None:
    """The chart has the fault's band, and the recovery its figures. A control run has no fault that explains it."""
    struck = facts(kind="chaos", steady=0.0)
    assert not [note for note in judge(struck).notes if "unsteady" in note]
    document = {**document_of(struck.cell), "has_faults": False}
    control = replace(struck, cell=changed(struck.cell, document=document, faults=()))
    assert [note for note in judge(control).notes if "unsteady" in note]


def acted_at(t_us: int) -> tuple[dict[str, Any], ...]:
    return tuple({**line, "t_us": t_us + place} for place, line in enumerate(PROVED))


def test_a_fault_that_came_after_the_load_is_told_on_the_front_and_with_the_damage_that_is_missing() -> None:
    """On a busy host the first fault came 4.6 s after the last record: `no record was lost`, and nobody said why."""
    words = "its first fault came 4.6 s after the load had ended: nothing was sent under it"
    late = facts(expect={"lost": "predicted"}, faults=acted_at(9_600_000))
    verdict = judge(late)
    assert words in verdict.notes
    assert [*verdict.reasons] == [f"damage was to be shown, but no record was lost: {words}"]
    safe = facts(faults=acted_at(9_600_000))
    assert judge(safe).result == PASS, "a fault after the load may be what a scenario wants"
    told = late_faults([Judged(facts=one, verdict=judge(one)) for one in (late, safe, facts())])
    assert [doubt.text for doubt in told] == [f"{safe.cell.title}: {words}"], "the other one is inconclusive, with it"
    in_time = facts(expect={"lost": "predicted"}, faults=acted_at(4_900_000))
    assert [*judge(in_time).reasons] == ["damage was to be shown, but no record was lost"]


@pytest.mark.parametrize(
    ("planned_us", "came_us", "result"),
    [(2_000_000, 9_600_000, "inconclusive"), (2_000_000, 4_900_000, "pass"), (9_000_000, 9_600_000, "pass")],
)
def test_a_cell_whose_fault_was_planned_within_the_load_and_missed_it_shows_nothing(
    planned_us: int, came_us: int, result: str
) -> None:
    applied, proved = acted_at(came_us)
    one = facts(faults=({**applied, "detail": {PLANNED_US: planned_us}}, proved))
    assert judge(one).result == result
    words = "its first fault came 4.6 s after the load had ended: nothing was sent under it"
    assert (words in judge(one).reasons) is (result == "inconclusive")


@pytest.mark.parametrize(("acks", "is_told"), [("0", True), ("all", False)])
def test_only_with_acks_0_a_record_that_nobody_acknowledged_breaks_no_promise(acks: str, is_told: bool) -> None:
    """kafkajs ends a send without an error, and does not say where the record is. The cell failed, and its note said
    that no promise was broken."""
    one = facts(client={"acks": acks}, observed={"lost_unacked": SOME}, expect={"lost_unacked": "some"})
    assert any("no promise was broken" in note for note in judge(one).notes) is is_told
