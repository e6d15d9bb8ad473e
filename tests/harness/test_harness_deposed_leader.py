"""From the proxies' log and the end of the old epoch follows what a leader answered for after it had been deposed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.run.directory.outcome import Outcome
from harness.run.evidence.deposed_leader import (
    NEVER_NS,
    Answer,
    Leadership,
    answered_beyond,
    answers_of,
    deposed_events,
    ended_leaderships,
)
from harness.run.evidence.ground_truth import GroundTruth
from runlog.files.paths import events_path
from runlog.records.cluster import BrokerEvent
from runlog.records.cluster_kinds import ClusterKind, Source
from runlog.records.holes import HoleKind
from runlog.records.lines import CLUSTER, WIRE, RecordWriter
from runlog.records.partition import LeaderSeen, Truncated
from runlog.records.wire import WireExchange


def leader(t_us: int, broker: int, epoch: int, partition: int = 0) -> LeaderSeen:
    return LeaderSeen(t_us=t_us, leader=broker, leader_epoch=epoch, partition=partition)


def answer(broker: int, base: int, end: int, at_ns: int) -> Answer:
    return Answer(broker=broker, partition=0, base_offset=base, end_offset=end, answered_ns=at_ns)


def line(broker: int, base: int, at_ns: int | None, **values: Any) -> WireExchange:
    return WIRE.record({
        "mono_ns": 1, "proxy": f"client-{broker}", "topic": "t", "partition": 0, "base_offset": base, "records": 10,
        "error_code": 0, "outcome": "delivered", "answered_ns": at_ns, **values,
    })  # fmt: skip


def ended(again: bool = False) -> Leadership:
    return Leadership(partition=0, broker=1, leader_epoch=3, ended_us=50, leads_again=again)


def test_a_leadership_ends_with_the_first_later_epoch() -> None:
    events = [leader(0, 1, 3), leader(10, 1, 3), leader(50, 2, 4), leader(90, 1, 6)]
    found = ended_leaderships(events)
    assert [(each.broker, each.leader_epoch, each.ended_us, each.leads_again) for each in found] == [
        (1, 3, 50, True),
        (2, 4, 90, False),
    ]


def test_of_a_killed_leader_the_files_were_read() -> None:
    events = [
        leader(0, 1, 3),
        BrokerEvent(kind=ClusterKind.KILLED, broker=1, t_us=30),
        leader(50, 2, 4),
        leader(90, 3, 5),
    ]
    assert [each.broker for each in ended_leaderships(events)] == [2]


def test_only_passed_on_successes_of_the_topic_are_answers() -> None:
    lines = [
        line(1, 40, 7),
        line(1, 30, 5),
        line(1, 50, 9, topic="other"),
        line(1, 50, 9, error_code=6),
        line(1, 50, 9, outcome="dropped"),
        line(1, 50, None),
    ]
    assert answers_of(lines, "t") == [answer(1, 30, 40, 5), answer(1, 40, 50, 7)]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([answer(1, 0, 100, 10)], None),
        ([answer(1, 0, 100, 10), answer(1, 100, 120, 20), answer(2, 100, 130, 60)], (120, NEVER_NS)),
        ([answer(2, 100, 130, 60), answer(1, 100, 110, 70)], (110, NEVER_NS)),  # paused: its answers come late
        ([answer(2, 100, 130, 60)], None),
    ],
)
def test_what_lies_beyond_the_epochs_end_is_gone(answers: list[Answer], expected: tuple[int, int] | None) -> None:
    assert answered_beyond(ended(), 100, answers, 50) == expected


def test_answers_of_a_later_leadership_are_no_loss() -> None:
    answers = [answer(1, 100, 110, 20), answer(2, 100, 130, 60), answer(1, 130, 140, 90)]
    assert answered_beyond(ended(again=True), 100, answers, 50) == (110, 90)
    assert answered_beyond(ended(again=True), 100, answers[1:], 50) is None


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
    ("acks", "words"),
    [("1", "what broker 1 acknowledged after another leader was elected is not known"), ("all", ""), ("-1", "")],
)
def test_a_deposed_leader_that_nobody_watched_is_no_evidence(tmp_path: Path, acks: str, words: str) -> None:
    path = events_path(tmp_path, "cell", "cluster")
    path.parent.mkdir(parents=True)
    with RecordWriter(path, CLUSTER) as writer:
        for event in (leader(0, 1, 3), leader(50, 2, 4)):
            writer.append(event)
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
