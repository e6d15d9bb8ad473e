"""Loss by answers: a deposed leader's answers beyond the end of its epoch, unless the record stands elsewhere too."""

from __future__ import annotations

from typing import Any

from reports.evidence.predict import predict
from reports.evidence.topic_events import NEVER_US
from tests.reports.cells import make_cell

TRUNCATED = {
    "kind": "truncated", "t_us": 900, "topic": "t", "partition": 0, "source": "wire", "broker": 1, "leader_epoch": 3,
    "from_offset": 120, "to_offset": 100,
}  # fmt: skip


def line(broker: int, base: int, t_us: int, first_seq: int, records: int = 10, **values: Any) -> dict[str, Any]:
    """A batch of the producer 0 whose request came and was answered at t_us."""
    return {
        "proxy": f"client-{broker}", "topic": "t", "partition": 0, "client_id": "p", "crc": first_seq,
        "records": records,
        "base_offset": base, "error_code": 0, "outcome": "delivered", "mono_ns": t_us * 1_000, "t_us": t_us,
        "answered_ns": t_us * 1_000, "identities": [[0, 0, first_seq, first_seq + records - 1]], **values,
    }  # fmt: skip


def lost(*wire: dict[str, Any], event: dict[str, Any] = TRUNCATED) -> list[tuple[int, int, int, int]]:
    subject = make_cell(cell_id="c", document={"topic": {"name": "t"}, "properties": {}}, events=(event,), wire=wire)
    found = [each for each in predict(subject).intervals if each.kind == "lost"]
    return sorted((each.from_offset, each.end_offset, each.after_us, each.before_us) for each in found)


def test_what_the_deposed_leader_answered_for_is_lost_from_then_on() -> None:
    assert lost(line(1, 90, 10, 0), line(1, 100, 20, 10), line(1, 110, 30, 20)) == [
        (100, 110, 19, NEVER_US),
        (110, 120, 29, NEVER_US),
    ]


def test_a_batch_across_the_end_of_the_epoch_is_lost_in_part() -> None:
    assert lost(line(1, 95, 20, 0)) == [(100, 105, 19, NEVER_US)]


def test_the_successors_later_answer_for_the_same_offsets_ends_it() -> None:
    assert lost(line(1, 100, 20, 10), line(2, 100, 50, 40, records=5)) == [(100, 105, 19, 50), (105, 110, 19, NEVER_US)]


def test_a_paused_leaders_late_answer_counts_from_its_own_time() -> None:
    """Its request had come long before; the successor had answered for these offsets meanwhile."""
    late = line(1, 100, 20, 10, answered_ns=80_000)
    assert lost(line(2, 100, 50, 40), late) == [(100, 110, 79, NEVER_US)]


def test_a_record_that_was_sent_again_in_another_batch_is_not_lost() -> None:
    again = line(2, 100, 50, 13, records=4, crc=99)
    assert [(low, high) for low, high, *_ in lost(line(1, 100, 20, 10), again)] == [(100, 103), (107, 110)]


def test_a_dropped_answer_saves_nothing_and_loses_nothing() -> None:
    assert lost(line(1, 100, 20, 10, outcome="dropped")) == []


def test_from_when_it_leads_again_its_answers_stand() -> None:
    again = line(1, 110, 70, 30)
    assert [
        (low, high) for low, high, *_ in lost(line(1, 100, 20, 10), again, event={**TRUNCATED, "until_us": 70})
    ] == [(100, 110)]


def test_the_first_answer_of_its_new_leadership_stands_although_times_are_cut_to_microseconds() -> None:
    """It was asked at 1.6 us and answered at 2.5 us, and 0.9 us of that are none."""
    first = line(1, 110, 1, 30, mono_ns=1_600, answered_ns=2_500)
    assert lost(first, event={**TRUNCATED, "until_us": 2}) == []


def test_the_page_says_how_it_was_found_out() -> None:
    subject = make_cell(cell_id="c", document={"topic": {"name": "t"}, "properties": {}}, events=(TRUNCATED,), wire=())
    assert "answered for by a leader that was none any more" in predict(subject).how["lost"]
