"""Turns the files of a directory into the segments of a log, after a clean close or after a crash.

Owns: which files are trusted, what is scanned and what is cut.

- After a SIGKILL only the last segment can be torn, because earlier ones were complete before it began. It is read in
  full and cut at its first bad batch. If whole batches follow the bad one, this is rot and not a torn write, and the
  log is refused.
- A `recovery_point` is the offset up to which everything was fsynced. If it is given, every segment beyond it is
  scanned. This is needed if the cache of the disk was lost. The directory asks for it if the machine was restarted.

Shown by tests/broker_log/test_log_recovery.py, which cuts and damages the last segment at every byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.log.errors import LogCorruptError
from broker.log.filesystem import FileSystem
from broker.log.segment import Segment, file_name
from broker.log.transaction_index import SUFFIX as TRANSACTION_INDEX_SUFFIX
from broker.wire.records import BatchHeader

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
INDEX_SUFFIXES = (".index", ".timeindex", TRANSACTION_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySummary:
    """What opening a log found; the journal's `log_recovered` holds these fields."""

    clean: bool
    log_start_offset: int
    log_end_offset: int
    segments: int
    scanned_segments: int
    scanned_batches: int
    cut_bytes: int
    cut_reason: str
    deleted_segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSegments:
    segments: list[Segment]
    scanned_headers: list[BatchHeader]
    scanned_segments: int
    scanned_from: int | None  # base offset of the first scanned segment; None: all were trusted
    cut_bytes: int
    cut_reason: str
    deleted_segments: int

    def summary(self, *, clean: bool, segments: int, log_start_offset: int, log_end_offset: int) -> RecoverySummary:
        """`clean`: the log was closed, and nothing had to be scanned."""
        return RecoverySummary(
            clean=clean,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            segments=segments,
            scanned_segments=self.scanned_segments,
            scanned_batches=len(self.scanned_headers),
            cut_bytes=self.cut_bytes,
            cut_reason=self.cut_reason,
            deleted_segments=self.deleted_segments,
        )


def segment_base_offsets(filesystem: FileSystem, directory: str) -> list[int]:
    names = [name for name in filesystem.list_directory(directory) if name.endswith(".log")]
    for name in names:
        if not (len(name) == 24 and name[:20].isdecimal()):
            raise LogCorruptError(f"{directory}/{name}: not the name of a segment")
    return sorted(int(name[:20]) for name in names)


def delete_leftovers(filesystem: FileSystem, directory: str, suffix: str) -> None:
    for name in filesystem.list_directory(directory):
        if name.endswith(suffix):
            filesystem.remove(f"{directory}/{name}")


def finish_swaps(filesystem: FileSystem, directory: str, *, open_segment: Callable[[int, str], Segment]) -> None:
    """Finish or undo what a crash interrupted during compaction. Unfinished segments are removed. A finished one
    replaces the segments that it covers.

    An old segment may lie behind the end of the new one. Its records are all superseded by later ones. It stays until
    the next compaction, which begins where this one began.
    """
    delete_leftovers(filesystem, directory, CLEANED_SUFFIX)
    swapped = ".log" + SWAP_SUFFIX
    for name in filesystem.list_directory(directory):
        if not name.endswith(swapped):
            continue
        segment = open_segment(int(name.removesuffix(swapped)), SWAP_SUFFIX)
        if not segment.load_clean():
            segment.recover()
            segment.save_index()
        for base_offset in segment_base_offsets(filesystem, directory):
            if segment.base_offset < base_offset < segment.next_offset:
                open_segment(base_offset, "").delete()
        for kind in INDEX_SUFFIXES:
            filesystem.remove(f"{directory}/{file_name(segment.base_offset, kind)}")
        segment.rename("")
        segment.close()
    delete_leftovers(filesystem, directory, SWAP_SUFFIX)


def open_segments(
    filesystem: FileSystem,
    directory: str,
    *,
    clean: bool,
    recovery_point: int | None,
    may_have_gaps: bool = False,
    open_segment: Callable[[int], Segment],
) -> RecoveredSegments:
    """Open all segments. There is at least one, and a new log begins at offset 0. Segments that cannot be trusted are
    checked.

    `may_have_gaps`: compaction leaves segments that end before the next one begins.
    """
    bases = segment_base_offsets(filesystem, directory) or [0]
    segments: list[Segment] = []
    headers: list[BatchHeader] = []
    scanned = cut_bytes = deleted = 0
    scanned_from: int | None = None
    reason = ""
    for number, base_offset in enumerate(bases):
        if reason or (segments and base_offset < segments[-1].next_offset):
            # After a cut, the following segments do not continue the log any more.
            deleted += 1
            open_segment(base_offset).delete()
            continue
        segment = open_segment(base_offset)
        next_base = bases[number + 1] if number + 1 < len(bases) else None
        trusted = clean or (next_base is not None and (recovery_point is None or next_base <= recovery_point))
        if not (trusted and segment.load_clean()):
            # With a recovery point the power may have failed. Then the part that was not synced may have holes.
            found, cut, why = segment.recover(may_have_holes=recovery_point is not None)
            if why and recovery_point is None and next_base is not None:
                raise LogCorruptError(f"{directory}/{file_name(base_offset, '.log')}: {why}, and later segments follow")
            headers += found
            scanned, cut_bytes = scanned + 1, cut_bytes + cut
            scanned_from = base_offset if scanned_from is None else scanned_from
            reason = why
            if not (why or may_have_gaps) and next_base is not None and segment.next_offset < next_base:
                # A lost disk cache can remove whole batches. Then nothing is torn, but the next batch does not follow.
                reason = f"offsets {segment.next_offset} to {next_base - 1} are missing"
            segment.save_index()
        segments.append(segment)
    return RecoveredSegments(
        segments=segments,
        scanned_headers=headers,
        scanned_segments=scanned,
        scanned_from=scanned_from,
        cut_bytes=cut_bytes,
        cut_reason=reason,
        deleted_segments=deleted,
    )


def delete_stray_files(filesystem: FileSystem, directory: str, bases: set[int]) -> None:
    """Remove index files without a segment and half-written temporaries."""
    expected = {file_name(base, suffix) for base in bases for suffix in INDEX_SUFFIXES}
    for name in filesystem.list_directory(directory):
        if name.endswith(".tmp") or (name.endswith(INDEX_SUFFIXES) and name not in expected):
            filesystem.remove(f"{directory}/{name}")
