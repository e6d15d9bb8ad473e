"""The fast form of the client protocol: its frames, and that outcomes in frames are judged as those in lines are."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from workloads.clients.process.conversation import Conversation, Rule, Unasked
from workloads.clients.process.frames import Outcomes, records_frame
from workloads.clients.process.framing import Lines, LineTooLong
from workloads.clients.protocol import RecordBatch

CAN = ["produce", "frames"]
ACKNOWLEDGED, FAILED, UNKNOWN = range(3)


def batch(*seqs: int) -> RecordBatch:
    """Without keys; the value of a record is its seq as text."""
    values = [b"%d" % seq for seq in seqs]
    return RecordBatch(
        seqs=np.array(seqs, dtype=np.int64), topics=np.zeros(len(seqs), dtype=np.int32),
        partitions=np.full(len(seqs), -1, dtype=np.int32), key_sizes=np.full(len(seqs), -1, dtype=np.int32),
        keys=np.empty(0, dtype=np.uint8), value_sizes=np.array([len(each) for each in values], dtype=np.int32),
        values=np.frombuffer(b"".join(values), dtype=np.uint8),
    )  # fmt: skip


def row(seq: int, **changes: int) -> bytes:
    fields = {"seq": seq, "sent_us": 11, "at_us": 20, "offset": 5, "timestamp_ms": -1, "partition": 1, "code": 0}
    return struct.pack("<qqqqqihh", *{**fields, "fate": ACKNOWLEDGED, **changes}.values())


def frame(*rows: bytes) -> bytes:
    return struct.pack("<iiq", 2, len(rows), 48 * len(rows)) + b"".join(rows)


def sent(*seqs: int, can: list[str] = CAN) -> Conversation:
    conversation = Conversation()
    ready = {"event": "ready", "protocol": 1, "client": "scripted", "can": can}
    conversation.hear(json.dumps(ready).encode(), 1)
    number, _ = conversation.ask("connect", 5, timeout_ms=10, topics=["t"])
    conversation.hear(json.dumps({"event": "done", "id": number, "at_us": 6}).encode(), 7)
    conversation.produce_frame(batch(*seqs), 10)
    return conversation


def rules(conversation: Conversation) -> list[str]:
    return [mistake.rule for mistake in conversation.mistakes]


def test_records_stand_in_a_frame_as_the_page_says() -> None:
    keyed = RecordBatch(
        seqs=np.array([7, 8]), topics=np.array([0, 1], dtype=np.int32), partitions=np.array([-1, 3], dtype=np.int32),
        key_sizes=np.array([2, -1], dtype=np.int32), keys=np.frombuffer(b"ab", dtype=np.uint8),
        value_sizes=np.array([-1, 4], dtype=np.int32), values=np.frombuffer(b"wxyz", dtype=np.uint8),
    )  # fmt: skip
    assert records_frame(keyed) == (
        struct.pack("<iiq", 1, 2, 2 * 24 + 6)
        + struct.pack("<qiiii", 7, 0, -1, 2, -1)
        + struct.pack("<qiiii", 8, 1, 3, -1, 4)
        + b"abwxyz"
    )


def test_frames_and_lines_are_cut_wherever_the_pieces_end() -> None:
    parts = [b'{"a":1}\n', frame(row(0), row(1, offset=10)), b"\n", frame(row(2)), frame(row(3)), b'{"b":2}\n']
    text = b"".join(parts)
    for size in range(1, len(text)):
        lines = Lines(200)
        found = [part for first in range(0, len(text), size) for part in lines.feed(text[first : first + size])]
        assert found == parts
        assert lines.rest() == b""


@pytest.mark.parametrize("size_bytes", [1_000, -1, 1 << 60])
def test_a_frame_beyond_the_bound_is_refused_by_its_head(size_bytes: int) -> None:
    with pytest.raises(LineTooLong):
        Lines(200).feed(struct.pack("<iiq", 2, 1, size_bytes))


def test_outcomes_in_frames_close_their_records() -> None:
    conversation = sent(0, 1, 2)
    outcomes = conversation.hear(frame(row(0), row(2, fate=FAILED, code=17, partition=-1, offset=-1)), 30)
    assert isinstance(outcomes, Outcomes)
    timed = outcomes.timed()
    assert [tuple(each) for each in timed.tolist()] == [
        (0, 11_000, 20_000, 5, -1, 1, 0, ACKNOWLEDGED),
        (2, 11_000, 20_000, -1, -1, -1, 17, FAILED),
    ]
    told = [(each.event, each.at_us, [record.seq for record in each.records]) for each in outcomes.events()]
    assert told == [("acknowledged", 20, [0]), ("failed", 20, [2])]
    conversation.hear(
        json.dumps({"event": "unknown", "at_us": 20, "code": 7, "records": [{"seq": 1, "sent_us": 11}]}).encode(), 30
    )
    assert (conversation.open_count, conversation.mistakes) == (0, [])


@pytest.mark.parametrize(
    ("rows", "rule", "words"),
    [
        ([row(0), row(0)], Rule.OUTCOME_TWICE, "record 0 is acknowledged, and had its outcome in line 3"),
        ([row(9, fate=UNKNOWN)], Rule.OUTCOME_UNASKED, "record 9 is unknown, and no such record was sent"),
        ([row(0, sent_us=-1)], Rule.FIELD, "sent_us of a row is -1"),
        ([row(0), row(1, fate=3)], Rule.FIELD, "fate of a row is 3"),
        ([row(0, partition=-1)], Rule.FIELD, "partition of a row is -1"),
        ([row(0, offset=-2)], Rule.FIELD, "offset of a row is -2"),
        ([row(0, sent_us=50_000)], Rule.TIME_WRONG, "sent_us 50000 is not between 10, when the harness wrote its line"),
        ([row(0, at_us=90_000)], Rule.TIME_WRONG, "at_us 90000 is later than the line was read, at 30"),
        ([], Rule.FIELD, "a frame of 0 rows"),
    ],
)
def test_a_wrong_row_is_named_by_the_rule_of_lines(rows: list[bytes], rule: str, words: str) -> None:
    conversation = sent(0, 1)
    conversation.hear(frame(*rows), 30)
    assert rules(conversation) == [rule]
    assert words in conversation.mistakes[0].message
    assert conversation.mistakes[0].line == f"a frame: kind 2, {len(rows)} rows, {48 * len(rows)} bytes"


def test_a_record_of_a_frame_without_an_outcome_is_named_when_close_is_answered_and_not_again_when_it_comes() -> None:
    conversation = sent(0, 1)
    number, _ = conversation.ask("close", 40, timeout_ms=10)
    conversation.hear(json.dumps({"event": "done", "id": number, "at_us": 50}).encode(), 60)
    assert rules(conversation) == [Rule.OUTCOME_MISSING]
    assert "close is answered, and 2 records have no outcome: 0, 1" in conversation.mistakes[0].message
    assert conversation.hear(frame(row(0)), 70) is None
    assert rules(conversation) == [Rule.OUTCOME_MISSING]


def test_a_client_that_did_not_declare_frames_neither_gets_nor_may_write_them() -> None:
    with pytest.raises(Unasked, match="records in a frame: the client has no frames"):
        sent(0, can=["produce"])
    conversation = Conversation()
    conversation.hear(b'{"event":"ready","protocol":1,"client":"scripted","can":["produce"]}', 1)
    conversation.hear(frame(row(0)), 30)
    assert rules(conversation) == [Rule.ABILITY]


def test_a_frame_of_records_is_no_event() -> None:
    conversation = sent(0)
    conversation.hear(records_frame(batch(0)), 30)
    assert rules(conversation) == [Rule.FIELD]
    assert "a client writes kind 2" in conversation.mistakes[0].message
