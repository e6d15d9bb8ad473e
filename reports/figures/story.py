"""The story of a record: what run log and journals say about one identity, in order of time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reports.evidence.group_story import final_step, group_steps
from reports.evidence.history import several_topics
from reports.evidence.predict import leader_change_us
from reports.evidence.topic_events import NEVER_US, WITHHELD, events_of, wire_lines
from reports.judge.anomalies import BY_NAME
from reports.read.model import MISROUTED, PREDICTED_KINDS, CellFacts, SendRow, Story
from runlog.records.partition import Appended, BecameLeader, LeaderSeen, Truncated
from runlog.records.wire import WireOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    t_us: int | None
    what: str
    detail: str
    bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedStep:
    at_s: float | None  # since the cell's start; None: what has no time, the final read
    what: str
    detail: str
    bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryFigures:
    kind: str
    title: str
    identity: str
    steps: tuple[TimedStep, ...]


def stories_of(facts: CellFacts) -> tuple[StoryFigures, ...]:
    return tuple(_story(facts, story) for story in facts.stories)


def _story(facts: CellFacts, story: Story) -> StoryFigures:
    first_us = facts.cell.span_us()[0]
    return StoryFigures(
        kind=story.kind,
        title=story.kind if story.kind in PREDICTED_KINDS else BY_NAME[story.kind].title,
        identity=f"{story.producer}/{story.incarnation}/{story.seq}",
        steps=tuple(
            TimedStep(
                at_s=None if step.t_us is None else (step.t_us - first_us) / 1e6,
                what=step.what,
                detail=step.detail,
                bad=step.bad,
            )
            for step in story_steps(facts, story)
        ),
    )


_STATUS: Final[Mapping[int, str]] = {0: "acknowledged", 1: "failed", 2: "unknown to the client", 3: "aborted"}
_ON_THE_WIRE: Final[Mapping[WireOutcome, str]] = {
    WireOutcome.REFUSED: "the proxy refused the request; the broker never saw it",
    WireOutcome.DROPPED: "appended, but the response was withheld",
    WireOutcome.REPLACED: "appended, but the client was given an error instead",
    WireOutcome.UNANSWERED: "no response came",
    WireOutcome.DELIVERED: "answered",
}
_BAD: Final = (WireOutcome.REFUSED, *WITHHELD)


def story_steps(facts: CellFacts, story: Story) -> list[Step]:
    """Steps of one record, by time; what has no time of its own (the final read) comes last."""
    steps: list[Step] = []
    for row in story.send:
        steps += _send_steps(facts, story, row)
    for found in group_steps(facts.cell, story):
        steps.append(Step(t_us=found.t_us, what=found.what, detail=found.detail, bad=found.bad))
    for given in story.recv:
        place = f"consumer {given.consumer} at partition {given.partition} offset {given.offset}"
        steps.append(Step(t_us=given.polled_us, what="delivered", detail=place))
    steps.sort(key=lambda step: step.t_us if step.t_us is not None else NEVER_US)
    return [*steps, *_final_steps(facts, story)]


def _send_steps(facts: CellFacts, story: Story, row: SendRow) -> list[Step]:
    steps = [
        Step(t_us=row.intended_us, what="intended", detail=f"due by the schedule, for partition {row.partition}"),
        Step(t_us=row.sent_us, what="sent", detail="handed to the client"),
    ]
    crcs: set[int] = set()
    for found in story.log:
        appends = _appends(facts, found.partition, found.offset)
        steps += [_append_step(one, found.offset) for one in appends if one.leader_epoch == found.leader_epoch]
        crcs |= _crcs_at(facts, found.partition, found.offset, NEVER_US)
    has_offset = row.offset >= 0
    is_placed = story.kind != MISROUTED  # else the place that the client was told is another record's, all the time
    if (
        has_offset
        and is_placed
        and (row.partition, row.offset) not in {(found.partition, found.offset) for found in story.log}
    ):
        steps += _lost_steps(facts, row)
        crcs |= _crcs_at(facts, row.partition, row.offset, row.acked_us)
    if has_offset and is_placed and not any(step.what == "appended" for step in steps):
        steps += _leader_of_the_time(facts, row)
    steps += _wire_steps(facts, crcs)
    told = f"the client was told at partition {row.partition} offset {row.offset}" if has_offset else "no offset"
    steps.append(Step(t_us=row.acked_us, what=_STATUS.get(row.status, "?"), detail=told))
    return steps


def _appends(facts: CellFacts, partition: int, offset: int) -> list[Appended]:
    return [
        event
        for event in events_of(facts.cell, Appended)
        if event.partition == partition and event.base_offset <= offset <= event.last_offset
    ]


def _append_step(event: Appended, offset: int) -> Step:
    detail = f"broker {event.broker}, leader epoch {event.leader_epoch}, offset {offset}"
    detail += f", in the batch {event.base_offset}–{event.last_offset}"
    return Step(t_us=event.t_us, what="appended", detail=detail)


def _lost_steps(facts: CellFacts, row: SendRow) -> list[Step]:
    """The steps from the acknowledged append to the truncation. Later the offset belongs to another record."""
    steps: list[Step] = []
    for append in _appends(facts, row.partition, row.offset):
        if append.t_us <= row.acked_us:
            steps.append(_append_step(append, row.offset))
        else:
            detail = f"broker {append.broker} gave offset {row.offset} to another record in epoch {append.leader_epoch}"
            steps.append(Step(t_us=append.t_us, what="offset given again", detail=detail, bad=True))
    changes = events_of(facts.cell, BecameLeader, LeaderSeen)
    for cut in events_of(facts.cell, Truncated):
        is_of_it = cut.partition == row.partition and cut.to_offset <= row.offset < cut.from_offset
        if not is_of_it or cut.t_us < row.acked_us:
            continue
        cause_us = leader_change_us(changes, cut.partition, cut.leader_epoch)
        if cause_us is not None and cause_us > row.acked_us:
            steps.append(
                _leader_step(next(one for one in changes if (one.partition, one.t_us) == (cut.partition, cause_us)))
            )
        detail = f"broker {cut.broker} removed offsets {cut.to_offset}–{cut.from_offset - 1}"
        detail += f" of epoch {cut.leader_epoch}: the new leader did not have them"
        steps.append(Step(t_us=cut.t_us, what="truncated", detail=detail, bad=True))
    return steps


def _leader_of_the_time(facts: CellFacts, row: SendRow) -> list[Step]:
    """Without a journal of appends: the broker that led the partition when the client got its answer had appended
    it."""
    leaders = [
        event
        for event in events_of(facts.cell, BecameLeader, LeaderSeen)
        if event.partition == row.partition and event.t_us <= row.acked_us
    ]
    if not leaders:
        return []
    last = leaders[-1]
    detail = f"by the leader of that time: broker {last.leader}, epoch {last.leader_epoch}, offset {row.offset}"
    return [Step(t_us=row.acked_us, what="appended", detail=detail)]


def _leader_step(event: BecameLeader | LeaderSeen) -> Step:
    detail = f"broker {event.leader} leads partition {event.partition} from epoch {event.leader_epoch} on"
    if isinstance(event, BecameLeader) and event.log_end_offset is not None:
        detail += f"; its log ends at offset {event.log_end_offset}"
    return Step(t_us=event.t_us, what="leader change", detail=detail)


def _crcs_at(facts: CellFacts, partition: int, offset: int, until_us: int) -> set[int]:
    """CRC of the batch that the wire last saw appended over this offset until then: at most one."""
    covering = [
        line
        for line in wire_lines(facts.cell)
        if line.partition == partition
        and 0 <= line.base_offset <= offset < line.base_offset + line.records
        and line.t_us <= until_us
    ]
    return {max(covering, key=lambda line: line.t_us).crc} if covering else set()


def _wire_steps(facts: CellFacts, crcs: set[int]) -> list[Step]:
    """Every attempt of these batches on the wire."""
    steps: list[Step] = []
    for line in wire_lines(facts.cell):
        if line.crc in crcs:
            at = f", base offset {line.base_offset}" if line.base_offset >= 0 else ""
            detail = f"{_ON_THE_WIRE[line.outcome]} (request {line.correlation_id}{at})"
            is_bad = line.outcome in _BAD
            steps.append(Step(t_us=line.t_us, what=f"attempt {line.attempt}", detail=detail, bad=is_bad))
    return steps


def _final_steps(facts: CellFacts, story: Story) -> list[Step]:
    end = final_step(story)
    if end is not None:
        return [Step(t_us=None, what=end.what, detail=end.detail, bad=end.bad)]
    if not story.log:
        text = "the final read finds it at no offset"
        if not story.recv:
            text += "; no consumer ever got it"
        return [Step(t_us=None, what="lost" if story.kind == "lost" else "not found", detail=text, bad=True)]
    places = ", ".join(f"partition {row.partition} offset {row.offset} (epoch {row.leader_epoch})" for row in story.log)
    if story.kind == "duplicated":
        return [Step(t_us=None, what="duplicated", detail=f"the final read finds it at {places}", bad=True)]
    if story.kind == MISROUTED:
        return [Step(t_us=None, what="misrouted", detail=_misrouted(facts, story), bad=True)]
    if story.kind == "reordered":
        detail = f"the final read finds it at {places}, behind records that were sent after it"
        return [Step(t_us=None, what="reordered", detail=detail, bad=True)]
    return [Step(t_us=None, what="found", detail=f"the final read finds it at {places}")]


def _misrouted(facts: CellFacts, story: Story) -> str:
    """Where it is, and where it belongs as far as anybody knows. Topics are counted from 1."""
    several = next(iter(several_topics(facts.cell)), None)

    def partition_of(number: int) -> str:
        if several is None:
            return f"partition {number}"
        topic, partition = divmod(number, several[1])
        return f"partition {partition} of topic {topic + 1}"

    places = ", ".join(f"{partition_of(row.partition)}, offset {row.offset}" for row in story.log)
    detail = f"the final read finds it at {places}"
    if several is not None:
        detail += f". It was sent to topic {(story.seq + story.producer) % several[0] + 1}"
    named = sorted({row.partition for row in story.send if row.partition >= 0})
    if named:
        detail += f". The client named {' and '.join(partition_of(partition) for partition in named)}"
    return detail
