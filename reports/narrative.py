"""Sentences and step lists made from facts: the verdict in three sentences, and the story of a damaged record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.group_story import final_step, group_steps
from reports.model import PREDICTED_KINDS, CellFacts, Json, Story
from reports.outputs import Judged
from reports.predict import leader_change_us
from reports.sweep.analysis import SweepAnalysis
from reports.verdict import FAIL, INCONCLUSIVE, PASS, expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    text: str
    target: str  # anchor of the evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    t_us: int | None
    what: str
    detail: str
    bad: bool = False


_VERBS = {"lost": "lost", "duplicated": "duplicated", "reordered": "reordered"}


def verdict_sentences(judged: Sequence[Judged], analysis: SweepAnalysis | None = None) -> list[Sentence]:
    """At most three: the state of the run, the damage with its prediction, the price of safety."""
    return [sentence for sentence in (_state(judged), _damage(judged), _safety(analysis)) if sentence is not None]


def _state(judged: Sequence[Judged]) -> Sentence:
    numbers = {result: sum(item.verdict.result == result for item in judged) for result in (PASS, FAIL, INCONCLUSIVE)}
    if numbers[FAIL]:
        first = next(item for item in judged if item.verdict.result == FAIL)
        text = f"{numbers[FAIL]} of {len(judged)} cells failed; first {first.facts.cell.title}: "
        text += f"{first.verdict.reasons[0]}."
        return Sentence(text=text, target=f"cell-{first.facts.cell.cell_id}")
    if numbers[INCONCLUSIVE]:
        first = next(item for item in judged if item.verdict.result == INCONCLUSIVE)
        text = (
            f"{numbers[INCONCLUSIVE]} of {len(judged)} cells say nothing either way; first {first.facts.cell.title}: "
            f"{first.verdict.reasons[0]}."
        )
        return Sentence(text=text, target=f"cell-{first.facts.cell.cell_id}")
    records = sum(item.facts.counts.sent_total for item in judged)
    text = f"All {len(judged)} cells came out as expected; {records:,} records were accounted for one by one."
    return Sentence(text=text, target="cells")


def _damage(judged: Sequence[Judged]) -> Sentence | None:
    parts: list[str] = []
    target = "cells"
    for kind in PREDICTED_KINDS:
        shown = [
            item
            for item in judged
            if expectation(item.facts, kind) == "predicted" and item.facts.predictions[kind].observed.count
        ]
        if not shown:
            continue
        parts.append(_damage_of_kind(kind, [item.facts for item in shown]))
        target = f"cell-{shown[0].facts.cell.cell_id}" if target == "cells" else target
    safe = [item for item in judged if item.facts.cell.kind == "chaos" and _is_safe(item.facts)]
    clean = sum(
        item.facts.lost == 0 and all(item.facts.set_count(kind) == 0 for kind in PREDICTED_KINDS) for item in safe
    )
    if not parts and not safe:
        return None
    text = "Under faults, " + "; ".join(parts) if parts else "Under faults no damage was asked for"
    if safe:
        text += f"; {clean} of the {len(safe)} safe configurations showed none"
    return Sentence(text=text + ".", target=target)


def _damage_of_kind(kind: str, cells: Sequence[CellFacts]) -> str:
    """`acks=1 lost 9,629 in 2 cells, acks=all lost 300 (exactly the predicted)`."""
    by_setting: dict[str, list[int]] = {}
    for facts in cells:
        by_setting.setdefault(_setting(facts, kind), []).append(facts.predictions[kind].observed.count)
    told = ", ".join(
        f"{setting} {_VERBS[kind]} {sum(counts):,}" + (f" in {len(counts)} cells" if len(counts) > 1 else "")
        for setting, counts in by_setting.items()
    )
    if all(facts.predictions[kind].equal for facts in cells):
        return f"{told} (exactly the predicted)"
    predicted = sum(facts.predictions[kind].predicted.count for facts in cells)
    return f"{told} (not what was predicted: {predicted:,} in all)"


def _is_safe(facts: CellFacts) -> bool:
    return all(expectation(facts, kind) == "none" for kind in PREDICTED_KINDS)


def _setting(facts: CellFacts, kind: str) -> str:
    properties = facts.cell.effective_client
    if kind == "lost":
        return f"acks={properties.get('acks', 'all')}"
    if kind == "duplicated":
        return f"enable.idempotence={properties.get('enable.idempotence', 'false')}"
    in_flight = properties.get("max.in.flight.requests.per.connection", "5")
    return f"{in_flight} requests in flight without idempotence"


def _safety(analysis: SweepAnalysis | None) -> Sentence | None:
    """What acks=all costs against acks=1, all else equal, with its interval; nothing where each of them ran once."""
    means = analysis.means.get("p99") if analysis else None
    if analysis is None or means is None or not means.repeated:
        return None
    for configuration in means.configurations:
        settings = dict(configuration)
        if settings.get("acks") != "1":
            continue
        safe = next((c for c in means.configurations if _is_all(settings, dict(c))), None)
        difference = means.between(configuration, safe) if safe is not None else None
        if difference is None:
            continue
        ratio, (low, high) = difference.ratio[0], difference.bounds
        told = "" if difference.excludes_zero else ": this run cannot tell whether it costs anything"
        sure = "its interval is not known" if low is None or high is None else f"95 %: {low:.2f} to {high:.2f}"
        text = f"acks=all has {ratio:.2f} x the p99 of acks=1, all else equal ({sure}){told}."
        return Sentence(text=text, target="analysis")
    return None


def _is_all(loose: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return other.get("acks") in ("all", "-1") and {**other, "acks": "1"} == dict(loose)


# The story of a record: what the run log and the journals say about one identity, in order of time.

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
        cause_us = leader_change_us(changes, partition, epoch)
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
