"""Geometry of the picture of replica logs: bars of offsets by leader epoch, truncated stretches, the lost set. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reports.read.cell import Json
from reports.read.model import CellFacts

PARTITIONS_MAX = 4
_WIDTH = 720.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    x: float
    width: float
    leader_epoch: int
    first_offset: int
    end_offset: int
    truncated: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    partition: int
    rows: tuple[ReplicaRow, ...]
    ticks: tuple[tuple[float, int], ...]
    caption: str


def pictures(facts: CellFacts) -> list[PartitionPicture]:
    """Pictures of the partitions that lost a tail; of none if nothing was truncated."""
    by_partition: dict[int, list[Json]] = {}
    for event in facts.cell.events:
        if event.get("kind") == "truncated" and int(event["from_offset"]) > int(event["to_offset"]):
            by_partition.setdefault(int(event["partition"]), []).append(event)
    chosen = sorted(by_partition, key=lambda p: -max(_length(e) for e in by_partition[p]))[:PARTITIONS_MAX]
    return [_picture(facts, partition, by_partition[partition]) for partition in sorted(chosen)]


def _length(event: Json) -> int:
    return int(event["from_offset"]) - int(event["to_offset"])


def _picture(facts: CellFacts, partition: int, events: list[Json]) -> PartitionPicture:
    final = [item for item in facts.epochs if item.partition == partition]
    end = max([item.end_offset for item in final] + [int(event["from_offset"]) for event in events])
    start = max(0, min(int(event["to_offset"]) for event in events) - 3 * max(_length(event) for event in events))
    # The interesting part is around the truncation; the calm head of the log is cut off and the axis says so.
    end = min(end, max(int(event["from_offset"]) for event in events) + 3 * max(_length(event) for event in events))
    scale = _WIDTH / max(1, end - start)

    def bar(first: int, last: int, epoch: int, truncated: bool = False) -> Bar | None:
        first, last = max(first, start), min(last, end)
        if last <= first:
            return None
        state = "truncated" if truncated else "kept"
        return Bar(
            x=round((first - start) * scale, 2),
            width=round(max(1.5, (last - first) * scale), 2),
            leader_epoch=epoch,
            first_offset=first,
            end_offset=last,
            truncated=truncated,
            label=f"offsets {first:,} to {last - 1:,}, leader epoch {epoch}, {state}",
        )

    rows: list[ReplicaRow] = []
    for event in events:
        cut = int(event["to_offset"])
        kept = [bar(i.first_offset, min(i.end_offset, cut), i.leader_epoch) for i in final if i.first_offset < cut]
        gone = bar(cut, int(event["from_offset"]), int(event.get("leader_epoch", -1)), truncated=True)
        bars = tuple(item for item in (*kept, gone) if item is not None)
        rows.append(ReplicaRow(name=f"broker {event.get('broker')}, before", bars=bars))
    kept_bars = tuple(
        item for item in (bar(i.first_offset, i.end_offset, i.leader_epoch) for i in final) if item is not None
    )
    rows.append(ReplicaRow(name="final log", bars=kept_bars))
    ticks = tuple((round(_WIDTH * k / 4, 1), start + (end - start) * k // 4) for k in range(5))
    removed = max(_length(event) for event in events)
    caption = (
        f"Partition {partition}: {removed:,} offsets were removed, the same offsets were given again by a later epoch. "
        f"{'The head of the log is left out. ' if start else ''}"
    )
    return PartitionPicture(partition=partition, rows=tuple(rows), ticks=ticks, caption=caption)
