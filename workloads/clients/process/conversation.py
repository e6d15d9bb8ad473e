"""The harness's half of a conversation with a client: what is asked and not answered, which records have no outcome,
and each mistake that the client makes.

Records and their outcomes go in lines or in frames, and are judged alike.

Pure: bytes and times come in, bytes and events go out. It notes a mistake and goes on, so that one report has all of
them. A caller that measures ends the client at the first one. What a client says of the broker (offsets, values) is
judged elsewhere, by somebody who has read the log. Shown by tests/workloads/test_workloads_process_conversation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from workloads.clients.process.frames import (
    FATES,
    FIRST_BYTES,
    FRAME_RECORDS_MAX,
    HEAD,
    Outcomes,
    outcomes_of,
    records_frame,
)
from workloads.clients.process.ledger import Ledger
from workloads.clients.process.messages import (
    CALLERS_MAX,
    LINE_BYTES_MAX,
    NEEDS,
    PRODUCE_RECORDS_MAX,
    PROTOCOL,
    Ability,
    Acknowledged,
    Committed,
    Done,
    ErrorEvent,
    Event,
    Fatal,
    NotAcknowledged,
    NotAnEvent,
    OutRecord,
    Polled,
    Ready,
    answer_of,
    command_line,
    parse_event,
)
from workloads.clients.protocol import RecordBatch

ROUNDING_US: Final = 1_000  # a client may round its times to milliseconds
MISTAKES_MAX: Final = 50  # a program that makes more makes the same one again and again
_SHOWN_BYTES: Final = 300
_NEEDED_WITH: Final[Mapping[Ability, tuple[Ability, ...]]] = {
    Ability.PARTITION: (Ability.PRODUCE,),
    Ability.CALLERS: (Ability.PRODUCE,),
    Ability.SEEK: (Ability.ASSIGN, Ability.SUBSCRIBE),
    Ability.PAUSE: (Ability.ASSIGN, Ability.SUBSCRIBE),
    Ability.COMMIT: (Ability.SUBSCRIBE, Ability.ASSIGN),
    Ability.TRANSACTIONS: (Ability.PRODUCE,),
    Ability.SEND_OFFSETS: (Ability.TRANSACTIONS,),
    Ability.CANCEL: (Ability.OVERLAP,),
    Ability.FRAMES: (Ability.PRODUCE,),
}


class Rule(StrEnum):
    """What a mistake breaks."""

    JSON = "not a line of JSON"
    LINE_TOO_LONG = "a line beyond the bound"
    FIELD = "a field is missing or wrong"
    TIME_MISSING = "an event without its time"
    TIME_WRONG = "a time that cannot be"
    READY = "the first line"
    ABILITY = "a word of `can`"
    OUTCOME_TWICE = "a second outcome of a record"
    OUTCOME_UNASKED = "an outcome of a record that was never sent"
    OUTCOME_MISSING = "a record without an outcome"
    ANSWER_UNASKED = "an answer to nothing that was asked"
    ANSWER_KIND = "an answer of another kind"
    TOO_MANY = "more records than asked for"
    HANG = "no answer in time"
    ENDED = "the program ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """`line_number` counts the lines and frames of the client's standard output from 1; 0 if none shows the
    mistake."""

    rule: str
    message: str
    line_number: int = 0
    line: str = ""

    def __str__(self) -> str:
        place = f"line {self.line_number}: " if self.line_number else ""
        return f"{place}{self.message}" + (f"\n    {self.line}" if self.line else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    do: str
    written_us: int
    timeout_ms: int
    fields: Mapping[str, Any]


class Unasked(ValueError):
    """Our own mistake: a command that this client must not be given now."""


class Conversation:
    """`ask` and `produce` give the line to write, `produce_frame` a frame; `hear` takes a line or a frame that was
    read."""

    def __init__(self) -> None:
        self.ready: Ready | None = None
        self.is_over = False  # the client has said that it can do no more, did not answer in time, or has ended
        self.mistakes: list[Mistake] = []
        self.lines_heard = 0
        self._last_id = 0
        self._pending: dict[int, Asked] = {}
        self._answered: dict[int, int] = {}  # id -> number of the line that answered
        self._ledger = Ledger()  # of the records since the last connect
        self._topics = 0  # that frames may name by a number
        self._is_one_by_one = False  # since the last connect
        self._missed: set[int] = set()  # without an outcome when close was answered
        self._is_last_close = False  # The last thing that was said, on either side, is that a close is done.

    @property
    def open_count(self) -> int:
        """Of accepted records without an outcome."""
        return self._ledger.open_count

    @property
    def open_records(self) -> Sequence[int]:
        """Their seqs, in order."""
        return self._ledger.open_seqs()

    @property
    def pending(self) -> Mapping[int, Asked]:
        """Commands without an answer, by id."""
        return self._pending

    @property
    def is_at_rest(self) -> bool:
        """The client has closed, owes nothing and has said nothing since, nor made a mistake before: whoever comes next
        may begin with `connect`."""
        return self._is_last_close and not (self._pending or self.open_count or self.mistakes or self.is_over)

    def can(self, ability: Ability) -> bool:
        return self.ready is not None and self.ready.is_able(ability)

    # --- what we say --------------------------------------------------------------------------------------------------

    def ask(self, do: str, now_us: int, *, timeout_ms: int, **fields: Any) -> tuple[int, bytes]:
        """The id of the command and its line. Unasked if the client cannot do it, or not now. A word that is no command
        of the page may be asked too: it has to be answered by an error."""
        self._check(do)
        if fields.get("one_by_one") and not self.can(Ability.ONE_BY_ONE):
            raise Unasked(f"polls of one record each: the client has no {Ability.ONE_BY_ONE}")
        self._is_last_close = False
        if self._pending and not self.can(Ability.OVERLAP):
            waiting = next(iter(self._pending.values())).do
            raise Unasked(f"{do} while {waiting} is not answered, and the client has no {Ability.OVERLAP}")
        self._last_id += 1
        self._pending[self._last_id] = Asked(do=do, written_us=now_us, timeout_ms=timeout_ms, fields=fields)
        if do == "connect":
            self._ledger = Ledger()
            self._topics = len(fields.get("topics", ()))
            self._is_one_by_one = bool(fields.get("one_by_one"))
            self._missed.clear()
        return self._last_id, command_line({"do": do, "id": self._last_id, "timeout_ms": timeout_ms, **fields})

    def produce(self, topic: str, records: Sequence[OutRecord], now_us: int, *, callers: int = 1) -> bytes:
        """The line with these records. From now on each of them needs an outcome."""
        self._check("produce")
        assert 1 <= callers <= CALLERS_MAX
        if callers > 1 and not self.can(Ability.CALLERS):
            raise Unasked(f"produce by {callers} callers: the client has no {Ability.CALLERS}")
        assert 0 < len(records) <= PRODUCE_RECORDS_MAX
        self._last_id += 1
        self._ledger.give(np.array([record.seq for record in records], dtype=np.int64), now_us)
        document = {"do": "produce", "id": self._last_id, "topic": topic}
        if callers > 1:
            document["callers"] = callers
        return command_line({**document, "records": [record.document for record in records]})

    def produce_frame(self, batch: RecordBatch, now_us: int) -> bytes:
        """The same as a frame. The topics are those of `connect`."""
        self._check("produce")
        if not self.can(Ability.FRAMES):
            raise Unasked(f"records in a frame: the client has no {Ability.FRAMES}")
        assert 0 < len(batch) <= FRAME_RECORDS_MAX
        assert int(batch.topics.max()) < self._topics
        self._ledger.give(batch.seqs, now_us)
        return records_frame(batch)

    def _check(self, do: str) -> None:
        if self.ready is None:
            raise Unasked(f"{do} before the client was ready")
        if do in NEEDS and not any(map(self.can, NEEDS[do])):
            raise Unasked(f"{do}: the client has no {' or '.join(NEEDS[do])}")

    # --- what we hear -------------------------------------------------------------------------------------------------

    def hear(self, line: bytes, now_us: int) -> Event | Outcomes | None:
        """The event of this line, or the outcomes of this frame. None if it is neither, or contradicts what was asked
        or said before."""
        self.lines_heard += 1
        self._is_last_close = False
        if line[0] in FIRST_BYTES:
            return self._hear_frame(line, now_us)
        event = parse_event(line)
        if isinstance(event, NotAnEvent):
            rule = Rule.FIELD if event.is_json else Rule.JSON
            if event.field.endswith("at_us") or event.field.endswith("sent_us"):
                rule = Rule.TIME_MISSING
            self._note(rule, f"{rule}: {event}", line)
            return None
        if isinstance(event, Ready):
            return self._hear_ready(event, line)
        if self.ready is None:
            self._note(Rule.READY, f"{event.event} before ready", line)
            return None
        self._check_time(event.event, event.at_us, now_us, line)
        match event:
            case Acknowledged() | NotAcknowledged():
                return self._hear_outcomes(event, line)
            case Done() | Polled():
                return self._hear_answer(event, event.id, line)
            case Committed() | ErrorEvent():
                return event if event.id is None else self._hear_answer(event, event.id, line)
            case Fatal():
                self.is_over = True
        return event

    def too_long(self, beginning: bytes) -> None:
        """A line longer than the bound was being read."""
        self.lines_heard += 1
        self._note(Rule.LINE_TOO_LONG, f"a line has more than {LINE_BYTES_MAX:,} bytes", beginning)

    def hung(self, what: str) -> None:
        """The caller has waited for `what` as long as the page says, and ends the program."""
        self._note(Rule.HANG, f"no answer in time: {what}", b"")
        self.is_over = True

    def ended(self, how: str) -> None:
        """The process is gone, and was not asked to end."""
        left = f", with {self.open_count} records without an outcome" if self.open_count else ""
        self._note(Rule.ENDED, f"the program ended: {how}{left}", b"")
        self.is_over = True

    def _hear_ready(self, event: Ready, line: bytes) -> Ready | None:
        if self.ready is not None:
            self._note(Rule.READY, "a second ready", line)
            return None
        if event.protocol != PROTOCOL:
            self._note(Rule.READY, f"protocol {event.protocol}: this harness speaks {PROTOCOL}", line)
        self.ready = event
        for word in event.can:
            if word not in tuple(Ability):
                self._note(Rule.ABILITY, f"can {word!r}: there is no such word", line)
            elif (needed := _NEEDED_WITH.get(Ability(word))) and not any(map(event.is_able, needed)):
                self._note(Rule.ABILITY, f"can {word!r} without {' or '.join(needed)}", line)
        return event

    def _hear_outcomes(self, event: Acknowledged | NotAcknowledged, line: bytes) -> Event | None:
        is_right = True
        for record in event.records:
            written_us = self._ledger.take_one(record.seq, self.lines_heard)
            if written_us < 0:
                is_right = False
                self._note_unasked(record.seq, event.event, line)
            elif not written_us - ROUNDING_US <= record.sent_us <= event.at_us + ROUNDING_US:
                self._note_time(record.seq, written_us, record.sent_us, event.at_us, line)
        return event if is_right else None

    def _hear_frame(self, frame: bytes, now_us: int) -> Outcomes | None:
        """By the rules of `_hear_outcomes`, for all rows at once."""
        if not self.can(Ability.FRAMES):
            self._note(Rule.ABILITY, f"a frame without {Ability.FRAMES} in `can`", frame)
            return None
        outcomes = outcomes_of(frame)
        if isinstance(outcomes, str):
            self._note(Rule.FIELD, f"{Rule.FIELD}: {outcomes}", frame)
            return None
        seqs, sent_us, at_us = (outcomes.rows[name] for name in ("seq", "sent_us", "at_us"))
        self._check_time("a frame of outcomes", int(at_us.max()), now_us, frame)
        written_us = self._ledger.take(seqs, self.lines_heard)
        is_open = written_us >= 0
        in_order = (written_us - ROUNDING_US <= sent_us) & (sent_us <= at_us + ROUNDING_US)
        for row in np.flatnonzero(is_open & ~in_order)[:MISTAKES_MAX].tolist():
            self._note_time(int(seqs[row]), int(written_us[row]), int(sent_us[row]), int(at_us[row]), frame)
        for row in np.flatnonzero(~is_open).tolist():
            self._note_unasked(int(seqs[row]), FATES[outcomes.rows["fate"][row]], frame)
        return outcomes if is_open.all() else None

    def _note_time(self, seq: int, written_us: int, sent_us: int, at_us: int, line: bytes) -> None:
        message = f"record {seq}: sent_us {sent_us} is not between {written_us}, when the harness wrote its line, "
        self._note(Rule.TIME_WRONG, f"{message}and at_us {at_us}", line)

    def _note_unasked(self, seq: int, fate: str, line: bytes) -> None:
        if seq in self._missed:
            return  # it comes too late, which was noted when close was answered
        if first := self._ledger.told_at(seq):
            message = f"record {seq} is {fate}, and had its outcome in line {first}"
            self._note(Rule.OUTCOME_TWICE, message, line)
        elif self._ledger.was_given(seq):
            self._note(Rule.OUTCOME_TWICE, f"record {seq} is {fate}, and had its outcome long ago", line)
        else:
            self._note(Rule.OUTCOME_UNASKED, f"record {seq} is {fate}, and no such record was sent", line)

    def _hear_answer(self, event: Done | Polled | Committed | ErrorEvent, number: int, line: bytes) -> Event | None:
        asked = self._pending.pop(number, None)
        if asked is None:
            message = f"{event.event} answers command {number}, "
            first = self._answered.get(number)
            message += f"which line {first} has answered" if first else "which was not asked"
            self._note(Rule.ANSWER_UNASKED, message, line)
            return None
        self._answered[number] = self.lines_heard
        if event.at_us + ROUNDING_US < asked.written_us:
            message = f"{event.event}: at_us {event.at_us} is before {asked.do} was written, at {asked.written_us}"
            self._note(Rule.TIME_WRONG, message, line)
        if isinstance(event, ErrorEvent):
            if asked.do == "close":
                self._check_outcomes(line)
            return event
        if event.event != answer_of(asked.do):
            message = f"{asked.do} is answered by {event.event}, not by {answer_of(asked.do)}"
            self._note(Rule.ANSWER_KIND, message, line)
            return None
        if isinstance(event, Polled):
            most = 1 if self._is_one_by_one else asked.fields["max_records"]
            if len(event.records) > most:
                asker = "connect asked for one" if self._is_one_by_one else f"the poll asked for at most {most}"
                self._note(Rule.TOO_MANY, f"{len(event.records)} records, and {asker}", line)
        if asked.do in ("close", "flush"):
            self._check_outcomes(line, of=asked)
        self._is_last_close = asked.do == "close"
        return event

    def _check_outcomes(self, line: bytes, *, of: Asked | None = None) -> None:
        """When close or flush is answered, no record that was sent before may be without an outcome."""
        do = "close" if of is None else of.do
        if not self.open_count:
            return
        missing = self._ledger.open_seqs(None if of is None else of.written_us)
        if missing:
            some = ", ".join(map(str, missing[:5])) + (" and more" if len(missing) > 5 else "")
            message = f"{do} is answered, and {len(missing)} records have no outcome: {some}"
            self._note(Rule.OUTCOME_MISSING, message, line)
        if do == "close":
            self._missed.update(missing)
            self._ledger.take(np.array(missing, dtype=np.int64), self.lines_heard)

    def _check_time(self, kind: str, at_us: int, now_us: int, line: bytes) -> None:
        if at_us > now_us + ROUNDING_US:
            message = f"{kind}: at_us {at_us} is later than the line was read, at {now_us}"
            self._note(Rule.TIME_WRONG, message, line)

    def _note(self, rule: Rule, message: str, line: bytes) -> None:
        if len(self.mistakes) < MISTAKES_MAX:
            number = self.lines_heard if line else 0
            self.mistakes.append(Mistake(rule=rule, message=message, line_number=number, line=shown(line)))


def shown(line: bytes) -> str:
    """The beginning of a line, for a message; of a frame its head in words."""
    if line and line[0] in FIRST_BYTES and len(line) >= HEAD.size:
        return "a frame: kind {}, {} rows, {} bytes".format(*HEAD.unpack_from(line))
    text = line[:_SHOWN_BYTES].decode(errors="replace").rstrip("\n")
    return f"{text}…" if len(line) > _SHOWN_BYTES else text
