"""Which leader epoch began at which offset (KIP-101). A follower needs this to find where its log diverged.

Owns: the entries and Kafka's `leader-epoch-checkpoint` file. Shown by tests/broker_log/test_log_epochs.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from broker.log.checkpoints import read_lines, write_lines_unsynced
from broker.log.errors import LogCorruptError
from broker.log.filesystem import FileSystem
from broker.wire.records import BatchHeader

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochCache:
    """Invariant: both epoch and start_offset grow strictly from entry to entry.

    Every change is in the file when the call returns, so it survives the end of the process. A loss of power may take
    it. Then the log is read from its beginning, and each batch tells its epoch. There is no fsync. With an fsync for
    each partition, a topic of 1,000 partitions delayed a broker's heartbeats until its session had timed out.
    """

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._entries: list[EpochEntry] = []
        for line in read_lines(filesystem, path) or []:
            try:
                epoch, start_offset = (int(word) for word in line.split(" "))
            except ValueError as error:
                raise LogCorruptError(f"{path}: not an epoch entry: {line!r}") from error
            self._entries = self._with(EpochEntry(epoch, start_offset))
        self.check_invariants()

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records from `start_offset` on have this epoch. Does nothing if it is the latest epoch already."""
        if epoch < 0 or epoch == self.latest_epoch:
            return
        self._replace(self._with(EpochEntry(epoch, start_offset)))

    def _with(self, entry: EpochEntry) -> list[EpochEntry]:
        """A new entry replaces the entries that contradict it, for example that of an epoch that appended nothing."""
        kept = [each for each in self._entries if each.epoch < entry.epoch and each.start_offset < entry.start_offset]
        return [*kept, entry]

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= `epoch` that we have, first offset after it), or (-1, -1) if we know no epoch that high."""
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        after = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[after].start_offset
        if after == 0:
            # The epoch is older than all that we have. If it had records, they ended before our first one.
            return epoch, end_offset
        return self._entries[after - 1].epoch, end_offset

    def epoch_at(self, offset: int) -> int:
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else UNDEFINED_EPOCH

    def truncate_to(self, offset: int) -> None:
        """Forget epochs that begin at `offset` or later."""
        keep = bisect_left(self._entries, offset, key=lambda entry: entry.start_offset)
        if keep < len(self._entries):
            self._replace(self._entries[:keep])

    def truncate_from_start(self, offset: int) -> None:
        """Forget epochs that ended before `offset`. The epoch that contains `offset` then begins there."""
        ended = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        if ended < 0 or (ended == 0 and self._entries[0].start_offset == offset):
            return
        self._replace([EpochEntry(self._entries[ended].epoch, offset), *self._entries[ended + 1 :]])

    def restore(self, headers: Sequence[BatchHeader], *, is_whole: bool, log_start_offset: int) -> None:
        """Take the epochs that a scan of the log found. The process may have crashed between an append and the write
        of this file, so the scan decides. `is_whole`: the scan covered the whole log. Then no entry of the file is
        trusted, because a loss of power may have left an old file."""
        if is_whole:
            self._rebuild((head.partition_leader_epoch, head.base_offset) for head in headers)
            self.truncate_from_start(log_start_offset)
            return
        for header in headers:
            if header.partition_leader_epoch > self.latest_epoch:
                self.assign(header.partition_leader_epoch, header.base_offset)

    def _rebuild(self, starts: Iterable[tuple[int, int]]) -> None:
        """Compute the entries from (epoch, offset) of every batch of the log, in order."""
        entries: list[EpochEntry] = []
        for epoch, start_offset in starts:
            if not entries or epoch > entries[-1].epoch:
                entries.append(EpochEntry(epoch, start_offset))
        if entries != self._entries:
            self._replace(entries)

    def clear(self) -> None:
        self._replace([])

    def check_invariants(self) -> None:
        for earlier, later in zip(self._entries, self._entries[1:], strict=False):
            assert earlier.epoch < later.epoch
            assert earlier.start_offset < later.start_offset

    def _replace(self, entries: list[EpochEntry]) -> None:
        """The file is written first. If that fails, memory is not changed either."""
        lines = (f"{entry.epoch} {entry.start_offset}" for entry in entries)
        write_lines_unsynced(self._filesystem, self._path, lines)
        self._entries = entries
