"""Loss by the log of a dead leader: by its answers where a proxy saw them, else by time, else it is not known."""

from __future__ import annotations

from typing import Any

from reports.evidence.predict import Prediction, predict
from reports.evidence.topic_events import NEVER_US
from runlog.records.holes import HoleKind
from tests.reports.cells import make_cell

DUMP = {
    "kind": "truncated", "t_us": 9_000, "topic": "t", "partition": 0, "source": "log_dump", "broker": 3,
    "leader_epoch": 0, "from_offset": 120, "to_offset": 100,
}  # fmt: skip


def leader(t_us: int, broker: int, epoch: int) -> dict[str, Any]:
    return {
        "kind": "leader", "t_us": t_us, "topic": "t", "partition": 0, "source": "probe", "leader": broker,
        "leader_epoch": epoch,
    }  # fmt: skip


def process(kind: str, t_us: int, broker: int = 3) -> dict[str, Any]:
    return {"kind": kind, "t_us": t_us, "broker": broker, "source": "process"}


def answer(broker: int, base: int, t_us: int, first_seq: int, **values: Any) -> dict[str, Any]:
    """Ten records of the producer 0 that this broker's proxy saw asked for and answered at t_us."""
    return {
        "proxy": f"client-{broker}", "topic": "t", "partition": 0, "client_id": "p", "crc": first_seq, "records": 10,
        "base_offset": base, "error_code": 0, "outcome": "delivered", "mono_ns": t_us * 1_000, "t_us": t_us,
        "answered_ns": t_us * 1_000, "identities": [[0, 0, first_seq, first_seq + 9]], **values,
    }  # fmt: skip


def predicted(
    events: tuple[dict[str, Any], ...],
    wire: tuple[dict[str, Any], ...] = (),
    dumps: tuple[dict[str, Any], ...] = (DUMP,),
) -> Prediction:
    return predict(
        make_cell(cell_id="c", document={"topic": {"name": "t"}, "properties": {}}, events=(*events, *dumps), wire=wire)
    )


def windows(prediction: Prediction) -> list[tuple[int, int, int, int]]:
    return sorted(
        (each.from_offset, each.end_offset, each.after_us, each.before_us)
        for each in prediction.intervals
        if each.kind == "lost"
    )


# As seen on Apache Kafka on a starved host: broker 3 lost its leadership and did not hear of it. It went on to answer
# as leader of epoch 0 until it was killed, also after the controller had made it the leader of epoch 2.
DEPOSED_THEN_KILLED = (
    leader(100, 3, 0), leader(1_000, 1, 1), leader(2_000, 3, 2), process("killed", 3_000), process("started", 5_000),
    leader(5_100, 1, 3),
)  # fmt: skip


def test_what_a_leader_answered_between_its_replacement_and_its_death_is_lost() -> None:
    found = predicted(DEPOSED_THEN_KILLED, (answer(3, 100, 1_500, 0), answer(3, 110, 2_500, 10)))
    assert windows(found) == [(100, 110, 1_499, NEVER_US), (110, 120, 2_499, NEVER_US)]
    assert found.holes == ()


def test_its_answers_after_it_was_started_again_stand() -> None:
    wire = (answer(3, 100, 1_500, 0), answer(3, 110, 2_500, 10), answer(3, 100, 6_000, 20), answer(3, 110, 6_100, 30))
    assert windows(predicted(DEPOSED_THEN_KILLED, wire)) == [(100, 110, 1_499, 6_000), (110, 120, 2_499, 6_100)]


def test_a_record_that_the_next_leader_answered_for_as_well_is_not_lost() -> None:
    wire = (answer(3, 100, 1_500, 0), answer(1, 100, 6_000, 0))
    assert windows(predicted(DEPOSED_THEN_KILLED, wire)) == []


def test_its_answers_after_the_next_leaders_first_append_are_lost_too() -> None:
    """Broker 1 appended at 100 when the second batch of broker 3 was not answered yet. Each time counts for its own
    offsets: the successor's first append says nothing about what the deposed leader answered later."""
    wire = (answer(3, 100, 900, 0), answer(1, 100, 1_200, 30), answer(3, 110, 1_500, 10))
    assert windows(predicted(DEPOSED_THEN_KILLED, wire)) == [(100, 110, 899, 1_200), (110, 120, 1_499, NEVER_US)]


def test_its_answers_stand_although_it_was_back_before_a_probe_saw_its_successor() -> None:
    """The probe of a busy host saw epoch 1 at 6,000. Broker 3 was killed at 3,000 and back at 3,500, and it leads again
    in epoch 2."""
    events = (
        leader(100, 3, 0), process("killed", 3_000), process("started", 3_500), leader(6_000, 1, 1),
        leader(6_100, 3, 2),
    )  # fmt: skip
    wire = (answer(3, 100, 2_900, 0), answer(3, 100, 6_500, 0), answer(3, 110, 6_600, 10))
    assert windows(predicted(events, wire)) == []


def test_a_record_whose_second_answer_is_gone_as_well_is_lost() -> None:
    """Its producer sent it to both leaders, and both lost it: epoch 1 had begun at 90, and all of it is gone."""
    other = {**DUMP, "broker": 1, "leader_epoch": 1, "from_offset": 100, "to_offset": 90}
    events = (
        leader(100, 3, 0), leader(1_000, 1, 1), process("killed", 3_000), process("killed", 3_000, 1),
        leader(5_100, 2, 2),
    )  # fmt: skip
    wire = (answer(3, 100, 900, 0), answer(1, 90, 1_200, 0))
    assert windows(predicted(events, wire, (DUMP, other))) == [(90, 100, 1_199, NEVER_US), (100, 110, 899, NEVER_US)]
    assert windows(predicted(events, wire)) == [], "the second answer stands"


def test_without_its_answers_nobody_knows_which_leader_answered_after_the_replacement() -> None:
    found = predicted(DEPOSED_THEN_KILLED)
    (hole,) = found.holes
    assert hole.kind is HoleKind.DEAD_LOGS
    assert hole.where == "broker 3, partition 0"
    assert "before it died" in hole.what


def test_a_leader_that_was_replaced_after_its_death_needs_no_answers() -> None:
    events = (leader(100, 3, 0), process("killed", 1_000), leader(2_000, 1, 1), process("started", 5_000))
    found = predicted(events)
    assert windows(found) == [(100, 120, 0, 1_500)]
    assert found.holes == ()


def test_records_of_another_brokers_epoch_are_told_by_time() -> None:
    """Broker 3 was a follower of broker 2 when these records came. The answers of broker 3 say nothing about them."""
    events = (leader(100, 2, 0), process("killed", 1_000, 2), process("killed", 1_000), leader(2_000, 1, 1))
    found = predicted(events, (answer(3, 100, 500, 0),))
    assert windows(found) == [(100, 120, 0, 1_500)]
    assert found.holes == ()


def test_its_answers_stand_although_a_probe_saw_its_leadership_after_its_death() -> None:
    """It was killed at 3,000 and back at 3,800. The probe saw its epoch at 3,500 and the next one at 4,000."""
    events = (process("killed", 3_000), leader(3_500, 3, 0), process("started", 3_800), leader(4_000, 1, 1))
    wire = (answer(3, 100, 2_900, 0), answer(3, 110, 5_000, 10))
    assert windows(predicted(events, wire)) == [(100, 110, 2_899, NEVER_US)]
