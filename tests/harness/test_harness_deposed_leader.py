"""From the proxies' log and the end of the old epoch follows what a leader answered for after it had been deposed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.run.directory.outcome import Outcome
from harness.run.evidence.deposed_leader import (
    NEVER_NS,
    Answer,
    Gone,
    Leadership,
    answered_beyond,
    answers_of,
    deposed_events,
    ended_leaderships,
)
from harness.run.evidence.ground_truth import GroundTruth
from runlog.files.paths import events_path
from runlog.records.cluster import BrokerEvent, ClusterEvent
from runlog.records.cluster_kinds import ClusterKind, Source
from runlog.records.holes import HoleKind
from runlog.records.lines import CLUSTER, WIRE, RecordWriter
from runlog.records.partition import LeaderSeen, Truncated
from runlog.records.wire import WireExchange


def leader(t_us: int, broker: int, epoch: int, partition: int = 0) -> LeaderSeen:
    return LeaderSeen(t_us=t_us, leader=broker, leader_epoch=epoch, partition=partition)


def process(kind: ClusterKind, t_us: int, broker: int = 1) -> BrokerEvent:
    return BrokerEvent(kind=kind, broker=broker, t_us=t_us)


def answer(broker: int, base: int, end: int, at_ns: int, crc: int = -1) -> Answer:
    return Answer(
        broker=broker, partition=0, base_offset=base, end_offset=end, answered_ns=at_ns, batch=("p", crc)
    )  # fmt: skip


def line(broker: int, base: int, at_ns: int | None, **values: Any) -> WireExchange:
    return WIRE.record({
        "mono_ns": 1, "proxy": f"client-{broker}", "topic": "t", "partition": 0, "base_offset": base, "records": 10,
        "client_id": "p", "error_code": 0, "outcome": "delivered", "answered_ns": at_ns, **values,
    })  # fmt: skip


ENDED = Leadership(partition=0, broker=1, leader_epoch=3, ended_us=50)


def chain(*epochs: tuple[int, int]) -> Callable[[int, int], tuple[int, int] | None]:
    """The answers of a leader whose log has these (epoch, end offset), as OffsetForLeaderEpoch gives them."""

    def end_of(partition: int, epoch: int) -> tuple[int, int]:
        return max((each for each in epochs if each[0] <= epoch), default=(-1, -1))

    return end_of


def told_of(
    events: Iterable[ClusterEvent],
    answers: Iterable[Answer],
    present: Callable[[int, int], tuple[int, int] | None],
) -> tuple[list[tuple[int, int, int, int, int | None]], list[str]]:
    """(broker, epoch, to, from, until) of each line, and the problems. A microsecond is a nanosecond here."""
    found, problems = deposed_events(
        topic="t", events=events, answers=sorted(answers, key=lambda each: each.answered_ns),
        epoch_end_offset=present, to_ns=int, to_us=int, t_us=777,
    )  # fmt: skip
    return [
        (each.broker, each.leader_epoch, each.to_offset, each.from_offset, each.until_us) for each in found
    ], problems


def test_a_leadership_ends_with_the_first_later_epoch() -> None:
    events = [leader(0, 1, 3), leader(10, 1, 3), leader(50, 2, 4), leader(90, 1, 6)]
    found = ended_leaderships(events)
    assert [(each.broker, each.leader_epoch, each.ended_us) for each in found] == [(1, 3, 50), (2, 4, 90)]


def test_a_leader_of_the_very_next_epoch_has_removed_nothing() -> None:
    assert ended_leaderships([leader(0, 1, 3), leader(50, 1, 4)]) == []
    # Its next process may have found less on its disk.
    (found,) = ended_leaderships([leader(0, 1, 3), process(ClusterKind.STARTED, 30), leader(50, 1, 4)])
    assert (found.leader_epoch, found.restarted_us) == (3, 30)


def test_of_a_leader_that_was_killed_while_it_led_the_files_were_read() -> None:
    events = [leader(0, 1, 3), process(ClusterKind.KILLED, 30), leader(50, 2, 4), leader(90, 3, 5)]
    assert [(each.broker, each.was_killed) for each in ended_leaderships(events)] == [(1, True), (2, False)]


def test_a_leader_that_was_killed_long_after_it_was_replaced_has_no_files_of_that_time() -> None:
    """It had truncated them when it followed its successor."""
    events = [leader(0, 1, 3), leader(50, 2, 4), process(ClusterKind.KILLED, 300), process(ClusterKind.STARTED, 400)]
    assert [(each.broker, each.was_killed, each.restarted_us) for each in ended_leaderships(events)] == [
        (1, False, 400)
    ]
    answers = [answer(1, 100, 110, 60), answer(2, 100, 130, 70), answer(1, 130, 140, 500)]
    assert told_of(events, answers, chain((3, 100), (4, 130))) == ([(1, 3, 100, 110, 400)], [])


def test_only_passed_on_successes_of_the_topic_are_answers() -> None:
    lines = [
        line(1, 40, 7),
        line(1, 30, 5),
        line(1, 50, 9, topic="other"),
        line(1, 50, 9, error_code=6),
        line(1, 60, 9, outcome="unanswered"),
        line(1, 50, None),
    ]
    lines.append(line(1, 50, 9, outcome="dropped"))
    withheld = replace(answer(1, 50, 60, 9), is_passed_on=False)
    assert answers_of(lines, "t") == [answer(1, 30, 40, 5), answer(1, 40, 50, 7), withheld]  # the CRC is not known


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([answer(1, 0, 100, 10)], None),
        ([answer(1, 0, 100, 10), answer(1, 100, 120, 20), answer(2, 100, 130, 60)], (100, 120)),
        ([answer(2, 100, 130, 60), answer(1, 100, 110, 70)], (100, 110)),  # paused: its answers come late
        ([answer(2, 100, 130, 60)], None),
    ],
)
def test_what_lies_beyond_the_epochs_end_is_gone(answers: list[Answer], expected: tuple[int, int] | None) -> None:
    gone = None if expected is None else Gone(from_offset=expected[0], end_offset=expected[1], until_ns=NEVER_NS)
    assert answered_beyond(ENDED, 100, answers, ended_ns=50) == gone


def test_answers_of_a_later_leadership_are_no_loss() -> None:
    answers = [answer(1, 100, 110, 20), answer(2, 100, 130, 60), answer(1, 130, 140, 90)]
    gone = Gone(from_offset=100, end_offset=110, until_ns=90)
    assert answered_beyond(ENDED, 100, answers, ended_ns=50, leads_again_at=130) == gone
    assert answered_beyond(ENDED, 100, answers[1:], ended_ns=50, leads_again_at=130) is None


# The leader of epoch 3 was replaced and leads again in epoch 5, all within moments.
AGAIN = [leader(0, 1, 3), leader(50, 2, 4), leader(90, 1, 5)]


def test_what_it_answered_after_the_next_leaders_first_append_is_gone_too() -> None:
    """It did not hear that it was replaced, and went further than its successor did. Epoch 5 begins at 105."""
    answers = [
        answer(1, 90, 110, 45, crc=1), answer(2, 100, 105, 55, crc=2), answer(1, 110, 120, 60, crc=3),
        answer(1, 105, 115, 92, crc=4), answer(1, 115, 125, 94, crc=5),
    ]  # fmt: skip
    assert told_of(AGAIN, answers, chain((3, 100), (4, 105), (5, 125))) == ([(1, 3, 100, 120, 92)], [])


def test_a_deposed_leaders_batch_at_the_very_offset_where_it_leads_again_is_gone() -> None:
    """Its successor wrote nothing, so epoch 5 begins where epoch 3 ended."""
    answers = [
        answer(1, 100, 110, 60, crc=1), answer(1, 110, 120, 70, crc=2), answer(1, 100, 108, 80, crc=3),
        answer(1, 108, 118, 95, crc=4), answer(1, 100, 108, 99, crc=3),  # sent again, recognised
    ]  # fmt: skip
    assert told_of(AGAIN, answers, chain((3, 100), (5, 118))) == ([(1, 3, 100, 120, 80)], [])


def test_a_leader_that_answers_again_before_a_probe_sees_it_has_lost_nothing() -> None:
    """The probe of a busy host saw epoch 4 at 50, but the broker led in epoch 5 since 30."""
    answers = [answer(1, 90, 100, 10, crc=1), answer(1, 100, 110, 30, crc=2), answer(1, 110, 120, 40, crc=3)]
    assert told_of(AGAIN, answers, chain((3, 100), (5, 120))) == ([], [])


def test_an_answer_that_was_withheld_leaves_no_gap_and_is_no_loss() -> None:
    """The producer had closed its connection. Behind the gap the deposed leader went on, and did not lead again yet."""
    answers = [
        answer(1, 100, 110, 60, crc=1), replace(answer(1, 110, 120, 65, crc=2), is_passed_on=False),
        answer(1, 120, 130, 70, crc=3), answer(1, 100, 108, 80, crc=4), answer(1, 108, 118, 95, crc=5),
    ]  # fmt: skip
    assert told_of(AGAIN, answers, chain((3, 100), (5, 118))) == ([(1, 3, 100, 130, 80)], [])
    assert told_of(AGAIN, [answers[1]], chain((3, 100), (5, 118))) == ([], [])


def test_answers_that_overtake_one_another_at_the_beginning_of_a_leadership_stand() -> None:
    answers = [answer(2, 100, 130, 60, crc=1), answer(1, 140, 150, 91, crc=3), answer(1, 130, 140, 92, crc=2)]
    assert told_of(AGAIN, answers, chain((3, 100), (4, 130), (5, 150))) == ([], [])


def test_a_later_leadership_that_no_probe_saw_is_no_loss_and_no_guess() -> None:
    """Whoever led epoch 5 wrote 130 to 150, and broker 1 answered for these."""
    events = [leader(0, 1, 3), leader(50, 2, 4), leader(90, 2, 6)]
    answers = [answer(1, 100, 110, 20, crc=1), answer(1, 130, 150, 70, crc=2)]
    found, problems = told_of(events, answers, chain((3, 100), (4, 130), (5, 150), (6, 160)))
    assert found == []
    assert problems == ["t-0: no probe saw who led epoch 5, so what broker 1 answered there may stand or not"]
    # It answered for nothing of that epoch, so another one led it.
    found, problems = told_of(events, answers[:1], chain((3, 100), (4, 130), (5, 150), (6, 160)))
    assert (found, problems) == ([(1, 3, 100, 110, None)], [])


def test_only_epochs_that_stand_are_asked_for() -> None:
    """Their numbers are the broker's: one of two billion must not be two billion questions."""
    asked, last = [], 2_000_000_000
    present = chain((3, 100), (4, 130), (last, 150))

    def ask(partition: int, epoch: int) -> tuple[int, int] | None:
        asked.append(epoch)
        assert len(asked) <= 20
        return present(partition, epoch)

    events = [leader(0, 1, 3), leader(50, 2, 4), leader(90, 2, last)]
    assert told_of(events, [answer(1, 100, 110, 20)], ask) == ([(1, 3, 100, 110, None)], [])


def test_a_later_leadership_that_left_nothing_ends_nothing() -> None:
    events = [*AGAIN, leader(200, 3, 6)]
    answers = [answer(1, 100, 110, 60), answer(2, 100, 130, 70), answer(1, 130, 140, 95)]
    found, problems = told_of(events, answers, chain((3, 100), (4, 130), (6, 160)))
    assert problems == []
    # All that broker 1 answered for beyond 100 is gone. Its answers do not say in which of the two epochs it gave them.
    assert found == [(1, 3, 100, 140, None), (1, 5, 100, 140, None)]


def test_a_leader_between_two_terms_of_another_one_loses_what_that_one_wrote_meanwhile() -> None:
    """Broker 1 did not hear that it was replaced, kept its log, and leads again: broker 2 truncates all of epoch 4."""
    answers = [
        answer(1, 100, 110, 60, crc=1), answer(2, 100, 115, 70, crc=2), answer(1, 110, 120, 80, crc=3),
        answer(1, 120, 130, 95, crc=4),
    ]  # fmt: skip
    assert told_of(AGAIN, answers, chain((3, 120), (5, 130))) == ([(2, 4, 100, 115, None)], [])


def test_who_led_the_epoch_that_stands_must_be_known() -> None:
    events = [leader(0, 3, 1), leader(50, 2, 4), leader(90, 1, 5)]  # nobody saw who led epoch 3
    answers = [answer(2, 100, 115, 70)]
    assert told_of(events, answers, chain((1, 80), (3, 120), (5, 130))) == (
        [], ["t-0: no probe saw who led epoch 3, so what broker 2 answered there may stand or not"],
    )  # fmt: skip
    assert told_of(events, [], chain((1, 80), (3, 120), (5, 130))) == ([], [])


def test_what_the_files_of_a_dead_leader_have_told_is_not_told_twice() -> None:
    dumped = Truncated(
        t_us=700, broker=1, source=Source.LOG_DUMP, topic="t", partition=0, leader_epoch=3, from_offset=120,
        to_offset=100,
    )  # fmt: skip
    events = [leader(0, 1, 3), process(ClusterKind.KILLED, 30), leader(50, 2, 4)]
    answers = [answer(1, 95, 120, 20)]
    assert told_of([*events, dumped], answers, chain((3, 100), (4, 200))) == ([], [])
    # Its probe was late: it had been replaced and had truncated before it died, and its files had none of it.
    assert told_of(events, answers, chain((3, 100), (4, 200))) == ([(1, 3, 100, 120, None)], [])


def test_the_event_says_from_where_to_where_and_whose() -> None:
    events, problems = deposed_events(
        topic="t",
        events=[leader(0, 1, 3), leader(50, 2, 4)],
        answers=[answer(1, 90, 120, 20_000)],
        epoch_end_offset=lambda partition, epoch: (epoch, 100),
        to_ns=lambda us: us * 1_000,
        to_us=lambda ns: ns // 1_000,
        t_us=777,
    )
    assert problems == []
    assert events == [
        Truncated(
            t_us=777, broker=1, source=Source.WIRE, topic="t", partition=0, leader_epoch=3, from_offset=120,
            to_offset=100,
        )
    ]  # fmt: skip


def test_what_nobody_answers_is_a_problem_and_no_guess() -> None:
    events, problems = deposed_events(
        topic="t", events=[leader(0, 1, 3), leader(50, 2, 4)], answers=[answer(1, 90, 120, 20)],
        epoch_end_offset=lambda partition, epoch: None, to_ns=int, to_us=int, t_us=777,
    )  # fmt: skip
    assert events == []
    assert problems == ["t-0: no leader told where epoch 3 ends"]


@pytest.mark.parametrize(
    ("acks", "killed_us", "words"),
    [
        ("1", None, "what broker 1 acknowledged after another leader was elected is not known"),
        ("1", 300, "what broker 1 acknowledged after another leader was elected is not known"),
        ("1", 30, ""),  # its files tell
        ("all", None, ""),
        ("-1", None, ""),
    ],
)
def test_a_deposed_leader_that_nobody_watched_is_no_evidence(
    tmp_path: Path, acks: str, killed_us: int | None, words: str
) -> None:
    path = events_path(tmp_path, "cell", "cluster")
    path.parent.mkdir(parents=True)
    with RecordWriter(path, CLUSTER) as writer:
        for event in (leader(0, 1, 3), leader(50, 2, 4)):
            writer.append(event)
        if killed_us is not None:
            writer.append(process(ClusterKind.KILLED, killed_us))
    planned = SimpleNamespace(kind="chaos", cell_id="cell", topic_name="t", properties={"acks": acks})
    cluster = SimpleNamespace(journal_paths=dict, wire_log_path=lambda: None, wire_log_problem=lambda: "")
    context = SimpleNamespace(run_dir=tmp_path, clock=SimpleNamespace(now_us=lambda: 0))
    dead_logs = SimpleNamespace(truncated_events=lambda cluster, t_us: [], problems=())
    outcome = Outcome(started_us=0)
    truth = GroundTruth(
        context,
        planned,
        cluster,
        dead_logs=dead_logs,
        outcome=outcome,
        cluster_events=None,  # type: ignore[arg-type]
    )
    truth.tell_of_lost_leaders()
    assert truth.problem.startswith(words)
    assert bool(truth.problem) == bool(words)
    assert [hole.kind for hole in outcome.record.holes or ()] == ([HoleKind.DEPOSED_LEADERS] if words else [])
