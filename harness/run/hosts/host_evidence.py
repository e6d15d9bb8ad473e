"""What a load host must have of a cell. The run itself knows it, so nobody has to believe a list of files.

`cell.json` says which producers and readers a load host had, and stats.jsonl how many rows it had written, once a
second (`ShareSample`). A worker that was started with another --spool, or whose spool was emptied, lists fewer files or
none. All that it lists may arrive, and its run log is not whole. Shown by tests/harness/test_harness_host_evidence.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runlog.files.paths import events_path, live_directory
from runlog.records.codec import RecordError
from runlog.records.hosts import LoadHostRecord
from runlog.records.lines import STATS, own_lines
from runlog.records.load import LoadPhase
from runlog.records.stats import PhaseSample, ShareSample
from runlog.streams import segment
from runlog.streams.inflight import SUFFIX as RING_SUFFIX

_BEGUN: Final = frozenset({LoadPhase.WARMUP, LoadPhase.MEASURE, LoadPhase.DRAIN, LoadPhase.DONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What each load host has: (sends with their outcome, records received), the most that it has said. `has_begun`:
    the load did, so that each of the hosts had made its files."""

    has_begun: bool = False
    rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def told_of_hosts(run_dir: Path, cell_id: str) -> Told:
    """From stats.jsonl. A file that is damaged tells what is before the damage."""
    has_begun = False
    rows: dict[str, tuple[int, int]] = {}
    try:
        for sample in own_lines(events_path(run_dir, cell_id, "stats"), STATS):
            if isinstance(sample, PhaseSample):
                has_begun = has_begun or sample.value in _BEGUN
            elif isinstance(sample, ShareSample):
                sends, receives = rows.get(sample.source, (0, 0))
                rows[sample.source] = max(sends, sample.sends), max(receives, sample.receives)
    except (RecordError, OSError):
        pass
    return Told(has_begun=has_begun, rows=rows)


def missing_of(run_dir: Path, cell_id: str, host: LoadHostRecord, told: Told) -> str:
    """What the gathered files in the cell's `live` lack of this host's run log. Empty if they have all that is known
    of."""
    live = live_directory(run_dir, cell_id)
    sends, receives = told.rows.get(host.name, (0, 0))
    if told.has_begun or sends or receives:
        for number in host.producers:
            if not any(live.glob(f"producer-{number}-*{RING_SUFFIX}")):
                return f"it has no file of producer {number}, which had begun there"
    try:
        sent = _rows(live, [f"send-p{number}i*" for number in host.producers])
        received = _rows(live, [f"recv-c{number}-*" for number in host.consumers])
    except (OSError, ValueError) as error:
        return f"a file of it cannot be read: {error}"
    if sent < sends:
        return f"it has the outcomes of {sent:,} sends and said that it had {sends:,}"
    if received < receives:
        return f"it has {received:,} records that were received and said that it had {receives:,}"
    return ""


def _rows(live: Path, patterns: list[str]) -> int:
    return sum(
        len(segment.read_segment(path).rows) for pattern in patterns for path in live.glob(f"{pattern}{segment.SUFFIX}")
    )
