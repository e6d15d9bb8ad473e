"""Snapshots of the producers' state in the directory of a log, so that recovery replays only what came after one.

Owns: the files `<end offset>.producers`. Shown by tests/broker_log/test_log_recovery.py.
"""

from __future__ import annotations

from broker.log.filesystem import FileSystem
from broker.log.producers import ProducerState
from broker.log.segment import file_name

SUFFIX = ".producers"


class ProducerSnapshots:
    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem, self._directory = filesystem, directory

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SUFFIX)}"

    def offsets(self) -> list[int]:
        """The end offsets of the snapshots, in order."""
        names = self._filesystem.list_directory(self._directory)
        stems = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def delete_above(self, offset: int) -> None:
        for found in self.offsets():
            if found > offset:
                self._filesystem.remove(self._path(found))

    def save(self, producers: ProducerState, *, end_offset: int, active_base: int) -> None:
        """Write a snapshot and remove old ones. The last two are kept, and also the one from which the active segment
        can be replayed, because recovery after a crash needs it."""
        producers.save(self._filesystem, self._path(end_offset))
        offsets = self.offsets()
        below_active = [offset for offset in offsets if offset <= active_base]
        for offset in set(offsets) - {*offsets[-2:], *below_active[-1:]}:
            self._filesystem.remove(self._path(offset))

    def load_newest(self, producers: ProducerState, *, not_beyond: int | None) -> int:
        """Load the newest readable snapshot up to `not_beyond` (None: any). Returns the offset from which to replay; -1
        if there is no snapshot."""
        for offset in reversed(self.offsets()):
            if not_beyond is not None and offset > not_beyond:
                continue
            if producers.load(self._filesystem, self._path(offset)):
                return offset
        return -1
