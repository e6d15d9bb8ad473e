"""The story of a record and the picture of its partition take only what is of the record's own topic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports.figures.replica_logs import pictures
from reports.figures.story import story_steps
from reports.read.cell import Cell
from reports.read.model import CellFacts, EpochRange, LogRow, SendRow, Story
from tests.reports.cells import make_cell

SEND = SendRow(partition=1, offset=5, status=0, intended_us=10, sent_us=20, acked_us=200)
FOUND = Story(
    kind="duplicated",
    producer=0,
    incarnation=0,
    seq=5,
    send=(SEND,),
    log=(LogRow(partition=1, offset=5, leader_epoch=3),),
)
LOST = Story(kind="lost", producer=0, incarnation=0, seq=5, send=(SEND,))
APPENDED = {"kind": "appended", "t_us": 100, "broker": 2, "partition": 1, "leader_epoch": 3, "base_offset": 4,
            "last_offset": 6, "crc": 7}  # fmt: skip
TRUNCATED = {"kind": "truncated", "t_us": 400, "broker": 2, "partition": 1, "leader_epoch": 3, "from_offset": 9,
             "to_offset": 5}  # fmt: skip
LEADER = {"kind": "became_leader", "t_us": 300, "broker": 3, "partition": 1, "leader_epoch": 4, "log_end_offset": 5}


def cell(*events: dict[str, Any], wire: tuple[dict[str, Any], ...] = ()) -> Cell:
    return make_cell(document={"topic": {"name": "t"}}, events=events, wire=wire)


def told(story: Story, *events: dict[str, Any], wire: tuple[dict[str, Any], ...] = ()) -> list[tuple[str, str]]:
    return [(step.what, step.detail) for step in story_steps(CellFacts(cell=cell(*events, wire=wire)), story)]


def test_an_append_of_another_topic_at_the_same_offset_is_not_the_records() -> None:
    of_another = {**APPENDED, "topic": "__consumer_offsets", "broker": 1}
    steps = told(FOUND, {**APPENDED, "topic": "t"}, of_another)
    assert [detail for what, detail in steps if what == "appended"] == [
        "broker 2, leader epoch 3, offset 5, in the batch 4–6"
    ]


def test_a_lost_record_is_followed_to_the_leader_that_did_not_have_it() -> None:
    steps = told(LOST, APPENDED, LEADER, TRUNCATED, {**TRUNCATED, "topic": "other"})
    assert [what for what, _ in steps] == [
        "intended", "sent", "appended", "acknowledged", "leader change", "truncated", "lost"
    ]  # fmt: skip
    assert ("leader change", "broker 3 leads partition 1 from epoch 4 on; its log ends at offset 5") in steps
    assert ("truncated", "broker 2 removed offsets 5–8 of epoch 3: the new leader did not have them") in steps


def test_each_attempt_on_the_wire_is_told_with_what_became_of_it() -> None:
    exchange = {"mono_ns": 1, "t_us": 150, "topic": "t", "partition": 1, "crc": 7, "records": 3, "correlation_id": 8}
    steps = told(
        FOUND,
        APPENDED,
        wire=(
            {**exchange, "outcome": "replaced", "base_offset": 4, "error_code": 0},
            {**exchange, "mono_ns": 2, "t_us": 160, "outcome": "delivered", "base_offset": 4, "attempt": 2},
            {**exchange, "topic": "other", "outcome": "refused", "attempt": 9},
        ),
    )
    assert [step for step in steps if step[0].startswith("attempt")] == [
        ("attempt 1", "appended, but the client was given an error instead (request 8, base offset 4)"),
        ("attempt 2", "answered (request 8, base offset 4)"),
    ]


def test_the_picture_of_replica_logs_is_of_the_cells_own_topic() -> None:
    epochs = (EpochRange(partition=1, leader_epoch=4, first_offset=0, end_offset=20),)
    both = cell({**TRUNCATED, "topic": "t"}, {**TRUNCATED, "topic": "other", "partition": 0})
    (picture,) = pictures(CellFacts(cell=both, epochs=epochs))
    assert (picture.partition, [row.name for row in picture.rows]) == (1, ["broker 2, before", "final log"])
    assert pictures(CellFacts(cell=cell({**TRUNCATED, "topic": "other"}), epochs=epochs)) == []


def test_the_picture_draws_the_whole_log_or_says_what_is_not_drawn() -> None:
    """A log of 15,948 records ended in its picture at 13,364, and nothing said so."""
    gone = {**TRUNCATED, "from_offset": 7_208, "to_offset": 5_156}
    epochs = (
        EpochRange(partition=1, leader_epoch=0, first_offset=0, end_offset=5_156),
        EpochRange(partition=1, leader_epoch=1, first_offset=5_156, end_offset=15_948),
    )
    (picture,) = pictures(CellFacts(cell=cell(gone), epochs=epochs))
    assert [picture.ticks[0].offset, picture.ticks[-1].offset] == [0, 15_948]
    assert "not drawn" not in picture.caption
    long = (epochs[0], replace(epochs[1], end_offset=90_000))
    (picture,) = pictures(CellFacts(cell=cell(gone), epochs=long))
    assert picture.ticks[-1].offset == 13_364
    assert "The log goes on to offset 89,999, which is not drawn." in picture.caption
    assert picture.rows[-1].bars[-1].label == "offsets 5,156 to 89,999, leader epoch 1, kept"


def test_the_story_of_a_misrouted_record_says_where_it_belongs_and_blames_no_broker() -> None:
    sent = replace(SEND, partition=3, offset=7)
    story = replace(FOUND, kind="misrouted", send=(sent,), log=(replace(FOUND.log[0], partition=1),))
    several = make_cell(document={"topic": {"name": "t", "partitions": 2}, "workload": {"topics": 2}})
    steps = story_steps(CellFacts(cell=several), story)
    assert [step.what for step in steps] == ["intended", "sent", "acknowledged", "misrouted"]
    assert steps[-1].detail == (
        "the final read finds it at partition 1 of topic 1, offset 5. It was sent to topic 2. "
        "The client named partition 1 of topic 2"
    )
