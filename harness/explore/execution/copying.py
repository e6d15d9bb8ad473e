"""What a copier has of its input: records that were handed out and not copied, and what its transaction has copied.

It is the part of an application that must be right for each record to be copied exactly once:

- A poll may hand out more than a transaction takes. The rest waits here for the next one.
- What a transaction has copied belongs to it until it ends. If it is committed, so is the group's offset behind it. If
  it was given up, the same records come again: the application seeks back to the first of them.
- A partition that is taken away goes to somebody who begins at the group's offset. So a transaction with records of it
  must not be committed any more (KIP-447): it is `void`.

The reading thread tells of records and rebalances, and the program's thread takes. Shown by
tests/harness/test_harness_explore_copying.py.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping

Place = tuple[int, int]  # a partition and an offset


class Copying:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Place] = deque()
        self._from: dict[int, int] = {}  # partition -> the first offset that the open transaction has copied
        self._to: dict[int, int] = {}  # partition -> the offset behind the last one
        self._is_void = False

    def hear_records(self, places: Iterable[Place]) -> None:
        with self._lock:
            self._waiting.extend(places)

    def revoke(self, partitions: Collection[int]) -> None:
        with self._lock:
            self._drop(partitions)
            self._is_void = self._is_void or not self._to.keys().isdisjoint(partitions)
            for partition in partitions:
                self._from.pop(partition, None)

    def take(self, most: int) -> list[Place]:
        """The next records to copy, at most so many. None of a void transaction."""
        with self._lock:
            if self._is_void:
                return []
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            for partition, offset in taken:
                self._from.setdefault(partition, offset)
                self._to[partition] = offset + 1
            return taken

    @property
    def positions(self) -> Mapping[int, int]:
        """What the transaction has to send to the group: the next offset of each partition that it has copied from."""
        with self._lock:
            return dict(self._to)

    @property
    def is_void(self) -> bool:
        with self._lock:
            return self._is_void

    def end_committed(self) -> None:
        with self._lock:
            self._end()

    def end_aborted(self) -> Mapping[int, int]:
        """Where the application must seek back to, in partitions that were not taken away. What was handed out behind
        that comes again too."""
        with self._lock:
            back = dict(self._from)
            self._drop(back)
            self._end()
            return back

    def begin_anew(self) -> None:
        """Another connection: it is given everything from the group's offset on."""
        with self._lock:
            self._waiting.clear()
            self._end()

    def _drop(self, partitions: Collection[int]) -> None:
        self._waiting = deque(place for place in self._waiting if place[0] not in partitions)

    def _end(self) -> None:
        self._from.clear()
        self._to.clear()
        self._is_void = False
