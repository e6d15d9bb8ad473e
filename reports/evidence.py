"""The event lines of a cell that predictions rest on: journals and wire log, without the lines of other topics."""

from __future__ import annotations

from dataclasses import dataclass

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
