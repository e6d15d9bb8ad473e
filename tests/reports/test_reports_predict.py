"""The rules of prediction, one by one, on hand-made event lines."""

from __future__ import annotations

from typing import Any

import pytest

from reports.evidence.configuration import configuration_of
from reports.evidence.happenings import findings
from reports.evidence.predict import predict
from reports.evidence.removals import Removal, removals
from reports.evidence.topic_events import NEVER_US, Interval
from reports.judge.anomalies import BY_NAME
from reports.judge.lawful import LAWFUL, UNLAWFUL, rule
from reports.read.cell import Cell
from tests.reports.cells import changed, make_cell


def cell(
    *, events: tuple[dict[str, Any], ...] = (), wire: tuple[dict[str, Any], ...] = (), idempotent: bool = False
) -> Cell:
    properties = {"enable.idempotence": str(idempotent).lower()}
    return make_cell(
        cell_id="c", document={"topic": {"name": "t"}, "properties": properties}, events=tuple(events), wire=tuple(wire)
    )


def event(kind: str, t_us: int, **values: Any) -> dict[str, Any]:
    epoch = {"leader_epoch": 0} if kind == "appended" else {}
    return {"kind": kind, "t_us": t_us, "topic": "t", "partition": 0, "source": "journal", **epoch, **values}


def exchange(order: int, crc: int, outcome: str, base: int, **values: Any) -> dict[str, Any]:
    common = {"topic": "t", "partition": 0, "client_id": "p", "records": 10, "error_code": 0 if base >= 0 else 7}
    return {
        **common,
        "mono_ns": order,
        "correlation_id": order,
        "crc": crc,
        "outcome": outcome,
        "base_offset": base,
        **values,
    }


def intervals(subject: Cell, kind: str) -> list[tuple[int, int]]:
    return [(item.from_offset, item.end_offset) for item in predict(subject).intervals if item.kind == kind]


TRUNCATED = event("truncated", 900, broker=1, leader_epoch=3, from_offset=50, to_offset=40)


def test_a_truncation_takes_its_offsets_from_the_time_of_the_next_epochs_leader() -> None:
    changes = (event("became_leader", 100, leader_epoch=3), event("became_leader", 500, leader_epoch=4))
    found = predict(cell(events=(*changes, TRUNCATED))).intervals
    assert found == (Interval(kind="lost", partition=0, from_offset=40, end_offset=50, before_us=500),)


def test_deleted_records_are_removed_up_to_the_highest_start_that_a_leader_told_of_them() -> None:
    def line(phase: str, start: int, partition: int = 0) -> dict[str, Any]:
        detail = {"partition": partition, "start_offset": start}
        return {"kind": "records_deleted", "phase": phase, "detail": detail}

    lines = (line("proved", 70), line("proved", 90), line("not_effective", 500), line("proved", 20, partition=2))
    subject = make_cell(cell_id="c", document={"topic": {"name": "t"}}, faults=lines)
    assert predict(subject).intervals == ()
    assert removals(subject).found == (
        Removal(partition=0, from_offset=0, end_offset=90),
        Removal(partition=2, from_offset=0, end_offset=20),
    )
    configuration = configuration_of(subject)
    assert [rule(name, configuration).lawful for name in ("removed", "lost", "read_above_hw")] == [
        LAWFUL, UNLAWFUL, UNLAWFUL,
    ]  # fmt: skip


def test_a_follower_that_begins_anew_above_its_end_has_lost_only_what_was_given_again() -> None:
    """Its leader's log begins at 100, by retention: what it throws away was removed there, or had diverged."""
    common = {"broker": 1, "producer_id": -1, "producer_epoch": -1, "client_id": "p"}
    events = (
        event("appended", 100, base_offset=40, last_offset=59, crc=1, **{**common, "leader_epoch": 3}),
        event("appended", 600, base_offset=50, last_offset=59, crc=2, **{**common, "leader_epoch": 4}),
        event("truncated", 900, broker=1, leader_epoch=3, from_offset=60, to_offset=40, restarted_at=100),
    )
    found = predict(cell(events=events)).intervals
    assert [(item.from_offset, item.end_offset, item.before_us) for item in found] == [(50, 60, 600)]


def test_copies_and_order_are_predicted_of_what_retention_has_left() -> None:
    """Two batches of ten, the first one sent twice: its copies are at 0 and 20. Retention takes some of it."""
    wire = (exchange(1, 1, "dropped", 0), exchange(2, 2, "delivered", 10), exchange(3, 1, "delivered", 20, attempt=2))
    appends = tuple(
        event("appended", t_us, base_offset=base, last_offset=base + 9, crc=crc, client_id="p", correlation_id=t_us)
        for t_us, base, crc in ((1, 0, 1), (2, 10, 2), (3, 20, 1))
    )

    def found(start: int) -> list[tuple[str, int, int]]:
        document = {"topic": {"name": "t"}, "outcome": {"final_read": {"start_offsets": {"0": start}}}}
        subject = make_cell(document=document, events=appends, wire=wire)
        return [(item.kind, item.from_offset, item.end_offset) for item in predict(subject).intervals]

    assert found(0) == [("duplicated", 0, 10)]
    assert found(4) == [("duplicated", 0, 10)]  # the rows of the final log have 4 to 9 only
    assert found(10) == [("duplicated", 0, 10), ("reordered", 20, 30)]  # no row is left below 10; the copy is late now
    assert found(15) == [("duplicated", 0, 10), ("reordered", 20, 30)]


def recreated(fault: str, t_us: int, phase: str = "proved") -> list[dict[str, Any]]:
    """Asked for at `t_us`; gone 100 us later, there again after 300."""
    detail = {"ends": {"0": 50}, "gone_us": 100, "created_us": 300}
    common = {"id": fault, "kind": "topic_recreated"}
    return [
        {**common, "phase": "applied", "t_us": t_us},
        {**common, "phase": phase, "t_us": t_us + 300, "detail": detail},
    ]


def test_what_was_acknowledged_before_the_topic_was_created_anew_is_lost() -> None:
    lines = (*recreated("b", 5000), *recreated("a", 1000), *recreated("c", 9000, phase="not_effective"))
    subject = make_cell(cell_id="c", document={"topic": {"name": "t"}}, faults=lines)
    assert windows(subject) == [(0, 50 + (1 << 20), 0, 1200), (0, 50 + (1 << 20), 1200, 5200)]
    configuration = configuration_of(subject)
    allowed = {name for name in BY_NAME if rule(name, configuration).lawful == LAWFUL}
    assert {"lost", "offset_reused", "read_above_hw", "lost_in_delivery", "nonmonotonic_poll"} <= allowed
    assert not allowed & {"hw_regression", "truncate_below_hw", "epoch_regression", "phantom"}


def test_watermarks_and_epochs_of_a_topic_begin_again_when_it_is_created_anew() -> None:
    def shown(t_us: int, offset: int) -> dict[str, Any]:
        return event("high_watermark", t_us, broker=1, offset=offset)

    in_one_life = (shown(100, 50), shown(1100, 60), shown(1300, 5), shown(1400, 3))
    subject = cell(events=in_one_life)
    assert findings(subject, ())["hw_regression"].count == 2
    anew = changed(subject, faults=tuple(recreated("a", 1000)))
    assert findings(anew, ())["hw_regression"].examples == ("partition 0: 5 by broker 1, then 3 by broker 1",)


def test_a_broker_may_end_while_a_fault_keeps_from_it_what_it_needs() -> None:
    def line(phase: str, t_us: int, **values: Any) -> dict[str, Any]:
        return {"id": "f", "kind": "limit_memory", "phase": phase, "t_us": t_us, "resolved": ["1"], **values}

    def crashes(exit_us: int, *faults: dict[str, Any]) -> int:
        ended = {"kind": "exited", "t_us": exit_us, "broker": 1, "code": -9}
        return findings(changed(cell(events=(ended,)), faults=faults), ())["crashed"].count

    window = (line("applied", 1_000_000), line("healed", 5_000_000))
    assert [crashes(t_us, *window) for t_us in (999_999, 1_000_000, 6_000_000, 8_000_000)] == [1, 0, 0, 1]
    assert crashes(9_000_000, line("applied", 1_000_000)) == 0
    assert crashes(2_000_000, line("applied", 1_000_000, resolved=["2"])) == 1
    assert crashes(2_000_000, line("applied", 1_000_000, kind="latency")) == 1


def test_order_and_duplicates_are_of_the_log_that_is_there_at_the_end() -> None:
    """Offset 900 of the old topic comes before offset 0 of the new one."""
    old, new = exchange(1, 1, "delivered", 900) | {"t_us": 500}, exchange(2, 2, "delivered", 0) | {"t_us": 1500}
    subject = cell(wire=(old, new))
    assert intervals(subject, "reordered") == [(900, 910)]
    assert intervals(changed(subject, faults=tuple(recreated("a", 1000))), "reordered") == []


def append(t_us: int, base: int, epoch: int, crc: int, broker: int = 1) -> dict[str, Any]:
    return event(
        "appended", t_us, broker=broker, leader_epoch=epoch, base_offset=base, last_offset=base + 4, crc=crc,
        client_id="p", correlation_id=1,
    )  # fmt: skip


def windows(subject: Cell) -> list[tuple[int, int, int, int]]:
    found = [item for item in predict(subject).intervals if item.kind == "lost"]
    return [(item.from_offset, item.end_offset, item.after_us, item.before_us) for item in found]


def test_the_journals_appends_tell_whose_an_answer_was() -> None:
    """40-44 was appended at 100 and again by the next leader at 600, 45-49 never again."""
    journal = (append(100, 40, 3, 1), append(110, 45, 3, 2), append(600, 40, 4, 3, broker=2))
    assert windows(cell(events=(*journal, TRUNCATED))) == [(40, 45, 100, 600), (45, 50, 110, NEVER_US)]


def test_answers_after_a_zombies_append_are_the_zombies() -> None:
    journal = (append(100, 45, 3, 1), append(600, 40, 4, 3, broker=2), append(800, 40, 3, 2))
    assert windows(cell(events=(*journal, TRUNCATED))) == [(45, 50, 100, NEVER_US), (40, 45, 800, NEVER_US)]


def test_a_removed_batch_that_the_client_sent_again_is_not_lost() -> None:
    journal = (append(100, 40, 3, 1), append(110, 45, 3, 2), append(600, 60, 4, 2, broker=2))
    assert windows(cell(events=(*journal, TRUNCATED))) == [(40, 45, 100, NEVER_US)]


def test_a_disk_that_forgot_loses_only_what_the_next_leader_has_not() -> None:
    forgot = {**TRUNCATED, "source": "disk"}
    leader = event("became_leader", 950, broker=2, leader_epoch=5, log_end_offset=44)
    assert [(item.from_offset, item.end_offset) for item in predict(cell(events=(forgot, leader))).intervals] == [
        (44, 50)
    ]
    complete = {**leader, "log_end_offset": 80}
    assert predict(cell(events=(forgot, complete))).intervals == ()


def test_a_disk_that_forgot_takes_what_only_its_leader_had() -> None:
    """40-44 was on a follower too, which truncated it for the next leader. 45-49 was nowhere else."""
    journal = (append(100, 40, 3, 1), append(110, 45, 3, 2))
    forgot = {**TRUNCATED, "source": "disk"}
    leader = event("became_leader", 950, broker=1, leader_epoch=5, log_end_offset=40)
    follower = event("truncated", 960, broker=2, leader_epoch=3, from_offset=45, to_offset=40)
    assert set(windows(cell(events=(*journal, forgot, leader, follower)))) == {
        (40, 45, 100, NEVER_US), (45, 50, 110, NEVER_US),
    }  # fmt: skip


def test_the_probe_stands_in_for_a_missing_journal() -> None:
    probe = event("leader", 620, leader_epoch=4, source="probe")
    dump = {**TRUNCATED, "source": "log_dump"}
    prediction = predict(cell(events=(probe, dump)))
    assert prediction.intervals[0].before_us == 620
    assert "log_dump" in prediction.how["lost"]


def test_a_truncation_of_nothing_or_of_another_topic_predicts_nothing() -> None:
    nothing = {**TRUNCATED, "from_offset": 40}
    assert predict(cell(events=(nothing, {**TRUNCATED, "topic": "__other"}))).intervals == ()


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (exchange(2, 7, "delivered", 130), [(100, 110)]),  # appended again elsewhere
        (exchange(2, 7, "delivered", 100), []),  # recognised: answered with the first offset
        (exchange(2, 7, "delivered", -1), []),  # the retry failed
    ],
)
def test_a_withheld_response_duplicates_when_the_retry_was_appended_elsewhere(
    second: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    assert intervals(cell(wire=(exchange(1, 7, "dropped", 100), second)), "duplicated") == expected


@pytest.mark.parametrize(("idempotent", "expected"), [(False, [(100, 110)]), (True, [])])
def test_a_retry_that_the_wire_did_not_see_duplicates_unless_the_producer_is_idempotent(
    idempotent: bool, expected: list[tuple[int, int]]
) -> None:
    assert intervals(cell(wire=(exchange(1, 7, "dropped", 100),), idempotent=idempotent), "duplicated") == expected


def test_the_journal_decides_whether_a_batch_was_appended_twice() -> None:
    def appended(base: int, crc: int) -> dict[str, Any]:
        return event("appended", 5, base_offset=base, last_offset=base + 9, crc=crc, client_id="p", correlation_id=1)

    again = exchange(3, 7, "unanswered", -1)
    wire = (exchange(1, 7, "dropped", 100), exchange(2, 8, "dropped", 110), again)
    journal = (appended(100, 7), appended(110, 8), appended(120, 8))
    assert intervals(cell(events=journal, wire=wire), "duplicated") == [(110, 120)]


def test_more_responses_are_withheld_than_the_fault_dropped_and_the_prediction_says_why() -> None:
    """The fault had acted on 8 and 12 were withheld: the others were in flight on connections that ended with those."""
    wire = (
        exchange(1, 7, "dropped", 100, connection=1), exchange(2, 8, "dropped", 110, connection=1),
        exchange(3, 9, "dropped", 120, connection=2),
    )  # fmt: skip
    told = predict(cell(wire=wire)).how["duplicated"]
    assert "3 Produce request(s)" in told
    assert "2 connection(s) ended with a dropped response, and 1 more request(s) were in flight behind those" in told
    assert "connection" not in predict(cell(wire=wire[1:])).how["duplicated"]


def test_a_dropped_response_with_an_error_was_no_append() -> None:
    wire = (exchange(1, 7, "dropped", 100, error_code=19), exchange(2, 7, "delivered", 100))
    assert intervals(cell(wire=wire), "duplicated") == []


def test_a_refused_batch_is_late_when_its_successor_was_appended_before_it() -> None:
    wire = (exchange(1, 1, "refused", -1), exchange(2, 2, "delivered", 0), exchange(3, 1, "delivered", 10))
    assert intervals(cell(wire=wire), "reordered") == [(10, 20)]


def test_a_batch_whose_first_attempt_went_unlogged_says_nothing_about_order() -> None:
    wire = (exchange(1, 2, "delivered", 0), exchange(3, 1, "delivered", 10), exchange(4, 3, "delivered", 5, attempt=2))
    assert intervals(cell(wire=wire), "reordered") == []


def test_a_refused_batch_with_nothing_behind_it_stays_in_order() -> None:
    wire = (exchange(1, 1, "refused", -1), exchange(2, 1, "delivered", 0), exchange(3, 2, "delivered", 10))
    assert intervals(cell(wire=wire), "reordered") == []


def test_other_clients_and_partitions_do_not_make_a_batch_late() -> None:
    other = exchange(2, 2, "delivered", 0, client_id="q")
    elsewhere = exchange(3, 3, "delivered", 0, partition=1)
    wire = (exchange(1, 1, "refused", -1), other, elsewhere, exchange(4, 1, "delivered", 10))
    assert intervals(cell(wire=wire), "reordered") == []


def test_the_journal_knows_successors_that_passed_after_the_fault_was_disarmed() -> None:
    wire = (exchange(5, 1, "refused", -1),)
    journal = (
        event("appended", 8, base_offset=0, last_offset=4, crc=2, client_id="p", correlation_id=6),
        event("appended", 9, base_offset=5, last_offset=14, crc=1, client_id="p", correlation_id=9),
    )
    assert intervals(cell(events=journal, wire=wire), "reordered") == [(5, 15)]


def test_correlation_ids_that_restart_are_not_trusted_for_order() -> None:
    wire = (
        exchange(1, 1, "refused", -1, correlation_id=90),
        exchange(2, 2, "delivered", 0, correlation_id=3),
        exchange(3, 1, "delivered", 10, correlation_id=4),
    )
    assert intervals(cell(wire=wire), "reordered") == [(10, 20)]


def test_batches_that_a_truncation_removed_say_nothing_about_order() -> None:
    wire = (
        exchange(1, 1, "delivered", 40, t_us=100),
        exchange(2, 2, "delivered", 40, t_us=700),
        exchange(3, 3, "delivered", 38, t_us=800),
    )
    changes = (event("became_leader", 500, leader_epoch=4),)
    assert intervals(cell(events=(*changes, TRUNCATED), wire=wire[:1] + wire[2:]), "reordered") == []
    assert intervals(cell(wire=wire[:1] + wire[2:]), "reordered") == [(40, 50)]


def test_records_that_came_back_in_another_batch_are_predicted_by_their_first_append() -> None:
    """librdkafka without idempotence puts such records back into its queue: the retry has another CRC."""
    journal = (
        event("appended", 5, base_offset=100, last_offset=109, crc=7, client_id="p", correlation_id=1),
        event("appended", 9, base_offset=110, last_offset=129, crc=8, client_id="p", correlation_id=2),
    )
    wire = (exchange(1, 7, "dropped", 100), exchange(2, 8, "delivered", 110, records=20))
    assert intervals(cell(events=journal, wire=wire), "duplicated") == [(100, 110)]
    assert intervals(cell(events=journal, wire=wire, idempotent=True), "duplicated") == []


def test_refused_records_that_came_back_in_a_larger_batch_are_followed_by_identity() -> None:
    """librdkafka fills the batch of a retry with further records, so its CRC is another one."""
    wire = (
        exchange(1, 1, "refused", -1, records=6, identities=[[0, 0, 10, 15]]),
        exchange(2, 2, "delivered", 91, records=3, identities=[[0, 0, 16, 18]]),
        exchange(3, 3, "delivered", 94, records=10, identities=[[0, 0, 10, 15], [0, 0, 19, 22]]),
    )
    assert intervals(cell(wire=wire), "reordered") == [(94, 100)]


def test_producers_that_share_a_client_id_have_each_an_order_of_their_own() -> None:
    """Java clients in several processes are all called producer-1."""
    wire = (
        exchange(1, 1, "delivered", 10, identities=[[0, 0, 0, 9]]),
        exchange(2, 2, "delivered", 0, identities=[[1, 0, 0, 9]]),
    )
    assert intervals(cell(wire=wire), "reordered") == []


def test_a_late_batch_of_known_identities_is_one_interval() -> None:
    wire = (
        exchange(1, 1, "refused", -1, identities=[[0, 0, 0, 9]]),
        exchange(2, 2, "delivered", 0, identities=[[0, 0, 10, 19]]),
        exchange(3, 1, "delivered", 10, identities=[[0, 0, 0, 9]]),
    )
    assert intervals(cell(wire=wire), "reordered") == [(10, 20)]


def test_an_answer_of_the_next_leader_before_the_probe_saw_it_does_not_count_for_the_dead_one() -> None:
    """The probe comes every 100 ms, the retried records may lie at the same offsets of the next leader."""
    events = (
        {"kind": "killed", "t_us": 10_000_000, "broker": 1, "source": "process"},
        event("leader", 12_100_000, leader_epoch=4, source="probe"),
        {**TRUNCATED, "source": "log_dump", "t_us": 20_000_000},
    )
    (found,) = predict(cell(events=events)).intervals
    assert 10_500_000 < found.before_us < 11_700_000
