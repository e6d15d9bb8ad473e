"""The event lines of a cell that predictions rest on: journals and wire log, without the lines of other topics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from reports.model import Cell, Json

NEVER_US = 2**62
WITHHELD = ("dropped", "replaced")  # appended, but the client was not told, or told something else


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Offsets [from_offset, end_offset) of a partition. For `lost`: sends acknowledged in [after_us, before_us)."""

    kind: str
    partition: int
    from_offset: int
    end_offset: int
    after_us: int = 0
    before_us: int = NEVER_US


def events_of(cell: Cell, *kinds: str) -> list[Json]:
    """Events of the cell's own topic; events without a topic belong to no partition and are left out."""
    topic = cell.part("topic").get("name")
    return [
        event
        for event in cell.events
        if event.get("kind") in kinds
        and isinstance(event.get("partition"), int)
        and (topic is None or event.get("topic", topic) == topic)
    ]


def deletions(cell: Cell) -> list[Interval]:
    """What somebody deleted with DeleteRecords: all below the log start offset that the leader told afterwards."""
    starts: dict[int, int] = {}
    for line in cell.faults:
        detail = line.get("detail")
        if line.get("kind") != "records_deleted" or line.get("phase") != "proved" or not isinstance(detail, dict):
            continue
        partition = int(detail["partition"])
        starts[partition] = max(starts.get(partition, 0), int(detail["start_offset"]))
    return [
        Interval(kind="lost", partition=partition, from_offset=0, end_offset=start)
        for partition, start in starts.items()
        if start > 0
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """The topic was deleted, and created anew after `cut_us`: a moment at which no broker had it."""

    cut_us: int
    ends: dict[int, int]  # end offset of each partition when the deletion was asked for


# So many records a partition may take between that question and its end, at most.
_AFTER_THE_QUESTION = 1 << 20


def recreations(cell: Cell) -> list[Recreation]:
    """In order of time. Answers of the old topic come before each cut, those of the new one after it."""
    begun_us: dict[object, int] = {}
    found: list[Recreation] = []
    for line in cell.faults:
        detail = line.get("detail")
        if line.get("kind") != "topic_recreated" or not isinstance(detail, dict):
            continue
        if line.get("phase") == "applied":
            begun_us[line.get("id")] = int(line["t_us"])
        elif line.get("phase") == "proved" and line.get("id") in begun_us:
            # The last answers of the old topic are under way when the last broker forgets it; the first of the new one
            # come no sooner than it is created. The middle between the two parts them.
            between_us = (int(detail["gone_us"]) + int(detail["created_us"])) // 2
            ends = {int(partition): int(end) for partition, end in dict(detail["ends"]).items()}
            found.append(Recreation(cut_us=begun_us[line.get("id")] + between_us, ends=ends))
    return sorted(found, key=lambda item: item.cut_us)


def gone_with_the_topic(cell: Cell) -> list[Interval]:
    """All that was acknowledged before each cut and after the one before it."""
    found: list[Interval] = []
    after_us = 0
    for item in recreations(cell):
        found += [
            Interval(
                kind="lost",
                partition=partition,
                from_offset=0,
                end_offset=end + _AFTER_THE_QUESTION,
                after_us=after_us,
                before_us=item.cut_us,
            )
            for partition, end in item.ends.items()
        ]
        after_us = item.cut_us
    return found


def lives(cell: Cell) -> list[Cell]:
    """The cell once for each life of its topic, with that life's events: offsets and epochs begin again in each."""
    cuts = [0, *(item.cut_us for item in recreations(cell)), NEVER_US]
    if len(cuts) == 2:
        return [cell]
    return [
        replace(cell, events=tuple(event for event in cell.events if begin <= int(event.get("t_us", 0)) < end))
        for begin, end in pairwise(cuts)
    ]


def last_life(cell: Cell) -> Cell:
    """What the log that is read at the end has seen: appends to a log that is gone put nothing at any offset of it.

    Exchanges with the old topic stay, without an offset: they tell in which order a client sent its records first.
    """
    found = recreations(cell)
    if not found:
        return cell
    cut_us = found[-1].cut_us
    wire = (line if int(line.get("t_us", 0)) >= cut_us else {**line, "base_offset": -1} for line in cell.wire)
    return replace(lives(cell)[-1], wire=tuple(wire))


def appended(cell: Cell) -> list[Json]:
    return [event for event in events_of(cell, "appended") if event.get("source", "journal") == "journal"]


def wire_lines(cell: Cell) -> list[Json]:
    topic = cell.part("topic").get("name")
    lines = [
        line
        for line in cell.wire
        if isinstance(line.get("partition"), int) and (topic is None or line.get("topic", topic) == topic)
    ]
    return sorted(lines, key=lambda line: int(line.get("mono_ns", 0)))


def succeeded(line: Json) -> bool:
    """The broker appended this exchange's batch and said so, whether or not the client heard it."""
    return (
        line.get("outcome") in ("delivered", *WITHHELD)
        and line.get("error_code") == 0
        and isinstance(line.get("base_offset"), int)
        and int(line["base_offset"]) >= 0
    )


def batch_key(line: Json) -> tuple[str, int, int]:
    return str(line.get("client_id")), int(line["partition"]), int(line.get("crc", -1))
