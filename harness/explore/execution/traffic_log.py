"""The exchange log of a search, bounded by what the trials that run now can need.

The proxies write one log for all trials. When it is large it is moved away and a new one begins; a moved one is deleted
when every trial that began in it or before it has ended. So the disk holds what running trials need, however long the
search takes. What was deleted is counted, and told. Shown by tests/harness/test_harness_explore_traffic_log.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runlog.records.exchange import ExchangesStopped, KafkaExchange, read_exchanges

FILE_BYTES_MAX: Final = 64 << 20  # A trial that finds a larger file begins another one. Some 200,000 exchanges fit.


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where a trial begins: in file `number`, at `byte`."""

    number: int
    byte: int


class TrafficLog:
    """`reopen` makes the proxies go on in a new file at `path`. Thread-safe; what `reopen` raises is passed on."""

    def __init__(self, path: Path, reopen: Callable[[], None], *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._path, self._reopen, self._file_bytes_max = path, reopen, file_bytes_max
        self._lock = threading.Lock()
        self._number = 0  # The file that is written now has it.
        self._moved: dict[int, Path] = {}  # number -> where it lies
        self._in_use: list[Mark] = []
        self._dropped_bytes = 0

    @property
    def dropped_bytes(self) -> int:
        """Of lines that no trial needed any more."""
        return self._dropped_bytes

    def begin(self) -> Mark:
        """A trial begins. `end` must follow."""
        with self._lock:
            if self._size_bytes() >= self._file_bytes_max:
                self._rotate()
            mark = Mark(number=self._number, byte=self._size_bytes())
            self._in_use.append(mark)
            return mark

    def end(self, mark: Mark) -> None:
        with self._lock:
            self._in_use.remove(mark)
            self._drop()

    def read_of(self, client_id: str, mark: Mark) -> list[KafkaExchange]:
        """What was written of one client since its trial began. The log has the lines of all trials that run at once,
        so with many of them nearly all lines are of others."""
        having = json.dumps(client_id).encode()
        found = (each for each in self.read(mark, having=having) if isinstance(each, KafkaExchange))
        return [each for each in found if each.client_id == client_id]

    def read(self, mark: Mark, *, having: bytes = b"") -> Iterator[KafkaExchange | ExchangesStopped]:
        """What was written since the trial began, also of other trials. `having`: only lines with these bytes."""
        with self._lock:
            files = [self._moved[number] for number in sorted(self._moved) if number >= mark.number]
        start_byte = mark.byte
        for path in (*files, self._path):
            if path.exists():  # the first line makes it
                yield from read_exchanges(path, start_byte=start_byte, having=having)
            start_byte = 0

    def _size_bytes(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _rotate(self) -> None:
        moved = self._path.with_name(f"{self._path.name}.{self._number}")
        self._path.rename(moved)
        self._moved[self._number] = moved  # also if reopen fails: then lines still go there
        self._number += 1
        self._reopen()
        self._drop()

    def _drop(self) -> None:
        oldest = min((mark.number for mark in self._in_use), default=self._number)
        for number in [number for number in self._moved if number < oldest]:
            path = self._moved.pop(number)
            self._dropped_bytes += path.stat().st_size
            path.unlink()
