"""The story of a record: what run log and journals say about one identity, in order of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.evidence.group_story import final_step, group_steps
from reports.evidence.predict import leader_change_us
from reports.evidence.topic_events import events_of
from reports.judge.anomalies import BY_NAME
from reports.read.cell import Json
from reports.read.model import PREDICTED_KINDS, CellFacts, Story
from runlog.records.partition import BecameLeader, LeaderSeen


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


_OUTCOMES = {0: "acknowledged", 1: "failed", 2: "unknown to the client"}


def story_steps(facts: CellFacts, story: Story) -> list[Step]:
    """Steps of one record, by time; what has no time of its own (the final read) comes last."""
    steps: list[Step] = []
    for row in story.send:
        steps += _send_steps(facts, story, row)
    for found in group_steps(facts.cell, story):
        steps.append(Step(t_us=found.t_us, what=found.what, detail=found.detail, bad=found.bad))
    for row in story.recv:
        place = f"consumer {row['code']} at partition {row['partition']} offset {row['offset']}"
        steps.append(Step(t_us=row["t_us"], what="delivered", detail=place))
    steps.sort(key=lambda step: step.t_us if step.t_us is not None else 2**62)
    return [*steps, *_final_steps(facts, story)]


def _send_steps(facts: CellFacts, story: Story, row: Json) -> list[Step]:
    outcome = _OUTCOMES.get(row["code"], "?")
    steps = [
        Step(t_us=row["intended_us"], what="intended", detail=f"due by the schedule, for partition {row['partition']}"),
        Step(t_us=row["sent_us"], what="sent", detail="handed to the client"),
    ]
    acked_us = int(row["t_us"])
    in_log = {(found["partition"], found["offset"]): int(found["code"]) for found in story.log}
    crcs: set[object] = set()
    for (partition, offset), epoch in in_log.items():
        steps += [_append_step(e, offset) for e in _appends(facts, partition, offset) if e.get("leader_epoch") == epoch]
        crcs |= _crcs_at(facts, partition, offset, 2**62)
    acked_at = (row["partition"], row["offset"])
    if row["offset"] >= 0 and acked_at not in in_log:
        steps += _lost_steps(facts, *acked_at, acked_us)
        crcs |= _crcs_at(facts, *acked_at, acked_us)
    if not any(step.what == "appended" for step in steps) and row["offset"] >= 0:
        steps += _leader_of_the_time(facts, *acked_at, acked_us)
    steps += _wire_steps(facts, crcs)
    at = f" at partition {row['partition']} offset {row['offset']}" if row["offset"] >= 0 else ""
    steps.append(Step(t_us=acked_us, what=outcome, detail=f"the client was told{at}" if at else "no offset"))
    return steps


def _appends(facts: CellFacts, partition: int, offset: int) -> list[Json]:
    return [
        event
        for event in facts.cell.events
        if event.get("kind") == "appended"
        and event.get("partition") == partition
        and int(event["base_offset"]) <= offset <= int(event["last_offset"])
    ]


def _append_step(event: Json, offset: int) -> Step:
    detail = f"broker {event.get('broker')}, leader epoch {event.get('leader_epoch')}, offset {offset}"
    detail += f", in the batch {event['base_offset']}–{event['last_offset']}"
    return Step(t_us=int(event.get("t_us", 0)), what="appended", detail=detail)


def _lost_steps(facts: CellFacts, partition: int, offset: int, acked_us: int) -> list[Step]:
    """From the append that was acknowledged to the truncation; later the offset belongs to another record."""
    steps: list[Step] = []
    for event in _appends(facts, partition, offset):
        if int(event.get("t_us", 0)) <= acked_us:
            steps.append(_append_step(event, offset))
        else:
            detail = f"broker {event.get('broker')} gave offset {offset} to another record in epoch "
            detail += str(event.get("leader_epoch"))
            steps.append(Step(t_us=int(event["t_us"]), what="offset given again", detail=detail, bad=True))
    changes = [event for event in facts.cell.events if event.get("kind") in ("became_leader", "leader")]
    for event in facts.cell.events:
        if event.get("kind") != "truncated" or event.get("partition") != partition:
            continue
        if not int(event["to_offset"]) <= offset < int(event["from_offset"]) or int(event["t_us"]) < acked_us:
            continue
        epoch = int(event.get("leader_epoch", -1))
        cause_us = leader_change_us(events_of(facts.cell, BecameLeader, LeaderSeen), partition, epoch)
        if cause_us is not None and cause_us > acked_us:
            steps.append(_leader_step(changes, partition, cause_us))
        detail = f"broker {event.get('broker')} removed offsets {event['to_offset']}–{int(event['from_offset']) - 1}"
        detail += f" of epoch {epoch}: the new leader did not have them"
        steps.append(Step(t_us=int(event["t_us"]), what="truncated", detail=detail, bad=True))
    return steps


def _leader_of_the_time(facts: CellFacts, partition: int, offset: int, acked_us: int) -> list[Step]:
    """Without a journal of appends: whoever led the partition when the client got its answer had appended it."""
    leaders = [
        event
        for event in facts.cell.events
        if event.get("kind") in ("became_leader", "leader")
        and event.get("partition") == partition
        and int(event.get("t_us", 0)) <= acked_us
    ]
    if not leaders:
        return []
    last = leaders[-1]
    leader = last.get("leader", last.get("broker"))
    detail = f"by the leader of that time: broker {leader}, epoch {last.get('leader_epoch')}, offset {offset}"
    return [Step(t_us=acked_us, what="appended", detail=detail)]


def _leader_step(changes: Sequence[Json], partition: int, cause_us: int) -> Step:
    event = next(e for e in changes if e.get("partition") == partition and int(e.get("t_us", 0)) == cause_us)
    leader = event.get("leader", event.get("broker"))
    detail = f"broker {leader} leads partition {partition} from epoch {event.get('leader_epoch')} on"
    if "log_end_offset" in event:
        detail += f"; its log ends at offset {event['log_end_offset']}"
    return Step(t_us=cause_us, what="leader change", detail=detail)


def _crcs_at(facts: CellFacts, partition: int, offset: int, until_us: int) -> set[object]:
    """CRC of the batch that the wire last saw appended over this offset until then: at most one."""
    covering = [
        line
        for line in facts.cell.wire
        if line.get("partition") == partition
        and 0 <= int(line.get("base_offset", -1)) <= offset
        and offset < int(line["base_offset"]) + int(line.get("records", 0))
        and int(line.get("t_us", 0)) <= until_us
    ]
    return {max(covering, key=_time_us).get("crc")} if covering else set()


def _time_us(line: Json) -> int:
    return int(line.get("t_us", 0))


def _wire_steps(facts: CellFacts, crcs: set[object]) -> list[Step]:
    """Every attempt of these batches on the wire."""
    outcomes = {
        "refused": "the proxy refused the request; the broker never saw it",
        "dropped": "appended, but the response was withheld",
        "unanswered": "no response came",
        "delivered": "answered",
    }
    steps: list[Step] = []
    for line in facts.cell.wire:
        outcome = str(line.get("outcome"))
        if line.get("crc") in crcs and outcome in outcomes:
            at = f", base offset {line['base_offset']}" if int(line.get("base_offset", -1)) >= 0 else ""
            what = f"attempt {line.get('attempt', '?')}"
            detail = f"{outcomes[outcome]} (request {line.get('correlation_id')}{at})"
            steps.append(Step(t_us=line.get("t_us"), what=what, detail=detail, bad=outcome in ("refused", "dropped")))
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
    places = ", ".join(f"partition {r['partition']} offset {r['offset']} (epoch {r['code']})" for r in story.log)
    if story.kind == "duplicated":
        return [Step(t_us=None, what="duplicated", detail=f"the final read finds it at {places}", bad=True)]
    if story.kind == "reordered":
        detail = f"the final read finds it at {places}, behind records that were sent after it"
        return [Step(t_us=None, what="reordered", detail=detail, bad=True)]
    return [Step(t_us=None, what="found", detail=f"the final read finds it at {places}")]
