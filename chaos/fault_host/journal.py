"""What this worker has broken and not healed yet. It is on disk before the action, so that the next start can heal it.

There is one file for each worker. It is locked while the worker runs. Memory changes only after the disk. Shown by
tests/chaos/test_chaos_fault_host.py.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from chaos.lease_file import LeaseProblem, own_directory, read_own_file
from chaos.process_identity import ProcessIdentity
from runlog.files.documents import write_json

FORMAT: Final = 1
_PID_MAX: Final = 1 << 22
_TICKS_MAX: Final = 1 << 62

What = Literal["paused", "down"]


class JournalError(Exception):
    """The leases of this worker cannot be stored. The message is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One broker that this worker has paused or ended. `pid` and `start_ticks` are those of the process before the
    fault. `starter_pid` and `starter_ticks` are those of the start command, if it was begun: 0 before."""

    broker: int
    what: What
    pid: int
    start_ticks: int
    run_id: str
    starter_pid: int = 0
    starter_ticks: int = 0

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(pid=self.pid, start_ticks=self.start_ticks)

    @property
    def starter(self) -> ProcessIdentity | None:
        if not self.starter_pid:
            return None
        return ProcessIdentity(pid=self.starter_pid, start_ticks=self.starter_ticks)


class Journal:
    """There is one journal for each worker's name. Raises JournalError if another worker has it open, or if the file
    cannot be trusted."""

    def __init__(self, root: Path, name: str) -> None:
        try:
            directory = own_directory(root)
            # Only for reading, so that a worker whose disk has become read-only still heals what it had broken.
            self._lock = os.open(
                directory / f"{name}.lock", os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise JournalError(f"no leases can be kept in {root}: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise JournalError(f"another worker called {name} runs here: give this one its own --name") from error
        self._path = directory / f"{name}.json"
        self._held = {held.broker: held for held in self._read()}
        self._changing = threading.Lock()  # several brokers are healed at the same time

    def held(self) -> Mapping[int, Held]:
        return dict(self._held)

    def hold(self, held: Held) -> None:
        """Note a broker. The note is on disk when this returns. If it raises OSError, the action must not be done."""
        with self._changing:
            self._write({**self._held, held.broker: held})

    def release(self, broker: int) -> None:
        """The broker is healed, so its note is removed. A full disk is no error here, because it does no harm to heal
        the broker again."""
        with self._changing:
            left = {key: held for key, held in self._held.items() if key != broker}
            if len(left) < len(self._held):
                try:
                    self._write(left)
                except OSError:
                    self._held = left

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self, held: dict[int, Held]) -> None:
        write_json(self._path, {"format": FORMAT, "held": [asdict(each) for each in held.values()]})
        self._held = held

    def _read(self) -> list[Held]:
        try:
            document = json.loads(read_own_file(self._path))
            if document["format"] != FORMAT:
                raise ValueError(f"format {str(document['format'])[:20]}, expected {FORMAT}")
            return [_held(fields) for fields in document["held"]]
        except FileNotFoundError:
            return []
        except (LeaseProblem, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise JournalError(
                f"{self._path} cannot be read ({error}): see whether a broker of this host is stopped or down, then "
                "remove the file"
            ) from error


def _held(fields: Any) -> Held:
    starter = {"starter_pid": fields.get("starter_pid", 0), "starter_ticks": fields.get("starter_ticks", 0)}
    numbers = [
        (fields["broker"], 2**31), (fields["pid"], _PID_MAX), (fields["start_ticks"], _TICKS_MAX),
        (starter["starter_pid"], _PID_MAX), (starter["starter_ticks"], _TICKS_MAX),
    ]  # fmt: skip
    if any(type(value) is not int or not 0 <= value <= limit for value, limit in numbers):
        raise ValueError("a number of an entry is wrong")
    if fields["what"] not in ("paused", "down") or not isinstance(fields["run_id"], str):
        raise ValueError("an entry is wrong")
    return Held(**{name: fields[name] for name in ("broker", "what", "pid", "start_ticks", "run_id")}, **starter)
