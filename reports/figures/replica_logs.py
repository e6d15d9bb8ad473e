"""Geometry of the picture of replica logs: bars of offsets by leader epoch, truncated stretches, the lost set. Pure.

Names stand left of the logs, offsets below them. Shown by tests/reports/test_reports_story.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reports.evidence.topic_events import events_of
from reports.read.model import CellFacts, EpochRange
from runlog.records.cluster_kinds import UNKNOWN
from runlog.records.partition import Truncated

PARTITIONS_MAX: Final = 4
_LEFT: Final = 126.0  # The logs begin here.
_WIDTH: Final = 720.0
_BAR_WIDTH_MIN: Final = 1.5
_NAMED_FROM: Final = 58.0  # a narrower bar has no room for its name
_BAR_PADDING: Final = 6
_ROW_HEIGHT: Final = 30
_COLOURS: Final = 6  # The page's style has so many.
_TICKS: Final = 4  # stretches between them
_WHOLE_UP_TO: Final = 12  # times the longest removed stretch: that is 60 of the 720 units of width
_AROUND: Final = 3  # stretches that are drawn on both sides of a short one


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """`words` stand in it from words_x on; empty where there is no room."""

    x: float
    width: float
    words: str
    words_x: float
    colour: int  # The number of the colour that its leader epoch has.
    truncated: bool
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """`top` is that of its bars, the other two are baselines of words."""

    name: str
    top: int
    name_y: int
    words_y: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    x: float
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    partition: int
    rows: tuple[ReplicaRow, ...]
    ticks: tuple[Tick, ...]
    ticks_end: int
    offsets_y: int
    height: int
    caption: str


def pictures(facts: CellFacts) -> list[PartitionPicture]:
    """Pictures of the partitions that lost a tail; of none if nothing was truncated."""
    by_partition: dict[int, list[Truncated]] = {}
    for event in events_of(facts.cell, Truncated):
        if event.from_offset > event.to_offset:
            by_partition.setdefault(event.partition, []).append(event)
    chosen = sorted(by_partition, key=lambda p: -max(_length(e) for e in by_partition[p]))[:PARTITIONS_MAX]
    return [_picture(facts, partition, by_partition[partition]) for partition in sorted(chosen)]


def _length(event: Truncated) -> int:
    return event.from_offset - event.to_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Offsets [start, end) from left to right."""

    start: int
    end: int

    def bar(self, first: int, end: int, epoch: int, *, truncated: bool = False) -> Bar | None:
        """The bar of offsets [first, end). None if none of them is on the axis."""
        low, high = max(first, self.start), min(end, self.end)
        if high <= low:
            return None
        scale = _WIDTH / max(1, self.end - self.start)
        x, width = _LEFT + round((low - self.start) * scale, 2), round(max(_BAR_WIDTH_MIN, (high - low) * scale), 2)
        words = "truncated" if truncated else f"epoch {epoch}"
        return Bar(
            x=x,
            width=width,
            words=words if width > _NAMED_FROM else "",
            words_x=x + _BAR_PADDING,
            colour=epoch % _COLOURS,
            truncated=truncated,
            label=f"offsets {first:,} to {end - 1:,}, leader epoch {epoch}, {'truncated' if truncated else 'kept'}",
        )

    def ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(x=_LEFT + round(_WIDTH * k / _TICKS, 1), offset=self.start + (self.end - self.start) * k // _TICKS)
            for k in range(_TICKS + 1)
        )


def _picture(facts: CellFacts, partition: int, events: Sequence[Truncated]) -> PartitionPicture:
    final = [item for item in facts.epochs if item.partition == partition]
    axis = _axis(final, events)
    bars = [(_name(event), _before(axis, final, event)) for event in events]
    bars.append(("final log", [axis.bar(i.first_offset, i.end_offset, i.leader_epoch) for i in final]))
    rows = tuple(_row(index, name, found) for index, (name, found) in enumerate(bars))
    below = _ROW_HEIGHT * len(rows)
    removed = max(_length(event) for event in events)
    return PartitionPicture(
        partition=partition,
        rows=rows,
        ticks=axis.ticks(),
        ticks_end=below + 8,
        offsets_y=below + 24,
        height=below + 36,
        caption=f"Partition {partition}: {removed:,} offsets were removed, the same offsets were given again by a "
        f"later epoch. {_left_out(axis, final)}",
    )


def _left_out(axis: _Axis, final: Sequence[EpochRange]) -> str:
    """What of the log is not drawn; with a blank at the end if anything is."""
    end = max((item.end_offset for item in final), default=axis.end)
    head = "The head of the log is not drawn. " if axis.start else ""
    return head + (f"The log goes on to offset {end - 1:,}, which is not drawn. " if end > axis.end else "")


def _axis(final: Sequence[EpochRange], events: Sequence[Truncated]) -> _Axis:
    """The whole log, if what was removed can still be seen in it. Else the part around the truncation: the caption says
    what is not drawn."""
    longest = max(_length(event) for event in events)
    last = max(event.from_offset for event in events)
    end = max([last, *(item.end_offset for item in final)])
    if end <= _WHOLE_UP_TO * longest:
        return _Axis(start=0, end=end)
    return _Axis(
        start=max(0, min(event.to_offset for event in events) - _AROUND * longest),
        end=min(end, last + _AROUND * longest),
    )


def _name(event: Truncated) -> str:
    return f"{'a broker' if event.broker == UNKNOWN else f'broker {event.broker}'}, before"


def _before(axis: _Axis, final: Sequence[EpochRange], event: Truncated) -> list[Bar | None]:
    """The broker's log as it was before it was cut back."""
    cut = event.to_offset
    kept = [axis.bar(i.first_offset, min(i.end_offset, cut), i.leader_epoch) for i in final if i.first_offset < cut]
    return [*kept, axis.bar(cut, event.from_offset, event.leader_epoch, truncated=True)]


def _row(index: int, name: str, bars: Iterable[Bar | None]) -> ReplicaRow:
    top = _ROW_HEIGHT * index + _BAR_PADDING
    return ReplicaRow(
        name=name, top=top, name_y=top + 16, words_y=top + 15, bars=tuple(bar for bar in bars if bar is not None)
    )
