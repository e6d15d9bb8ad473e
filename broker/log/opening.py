"""Opens the files of a log: its segments and its leader epochs. Recovers segments if needed and removes other files.

Shown by tests/broker_log/test_log_recovery.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from broker.log.checkpoints import LEADER_EPOCH_FILE
from broker.log.epochs import LeaderEpochCache
from broker.log.filesystem import FileSystem
from broker.log.recovery import RecoveredSegments, RecoverySummary, delete_stray_files, finish_swaps, open_segments
from broker.log.segment import Segment
from broker.log.segments import Segments


class OpenSegment(Protocol):
    def __call__(self, base_offset: int, suffix: str = "", /) -> Segment: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFiles:
    found: RecoveredSegments
    segments: Segments
    epochs: LeaderEpochCache
    log_start_offset: int  # may lie above the log's end, if a crash removed the records that it was moved past
    is_clean: bool  # the log was closed, and nothing had to be scanned

    def summary(self, log_start_offset: int, log_end_offset: int) -> RecoverySummary:
        return self.found.summary(
            clean=self.is_clean,
            segments=len(self.segments),
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
        )


def open_files(
    filesystem: FileSystem,
    directory: str,
    *,
    clean: bool,
    recovery_point: int | None,
    may_have_gaps: bool,
    log_start_offset: int | None,
    open_segment: OpenSegment,
) -> OpenedFiles:
    """`log_start_offset` is the last one that was noted. None: the log begins with its first segment."""
    filesystem.make_directory(directory)
    finish_swaps(filesystem, directory, open_segment=open_segment)
    found = open_segments(
        filesystem,
        directory,
        clean=clean,
        recovery_point=recovery_point,
        may_have_gaps=may_have_gaps,
        open_segment=open_segment,
    )
    is_clean = clean and not found.scanned_segments
    segments = Segments(filesystem, directory, found.segments, is_synced=is_clean, open_segment=open_segment)
    start_offset = max(segments.first_offset, log_start_offset or 0)
    delete_stray_files(filesystem, directory, set(segments.base_offsets))
    epochs = LeaderEpochCache(filesystem, f"{directory}/{LEADER_EPOCH_FILE}")
    epochs.truncate_to(segments.active.next_offset + 1)
    if not is_clean and segments.active.next_offset <= segments.first_offset:
        # The process may have been killed when it had dropped all records, and not yet their epochs.
        epochs.clear()
    # Compaction may have removed the first batch of an epoch.
    is_whole = recovery_point is not None and not may_have_gaps and found.scanned_from == segments.first_offset
    epochs.restore(found.scanned_headers, is_whole=is_whole, log_start_offset=start_offset)
    return OpenedFiles(found=found, segments=segments, epochs=epochs, log_start_offset=start_offset, is_clean=is_clean)
