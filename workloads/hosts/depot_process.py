"""The agent's end of its depot (depot.py): which files of the running cell are in the store, without ever waiting.

If the depot gives nothing for a while, the run log goes over the link as it does without a store. Shown by
tests/workloads/test_workloads_hosts_depot.py.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from workloads.hosts.depot import marked, note_due
from workloads.hosts.spool import Spool
from workloads.hosts.wire import FilesOfCell, OfCell

STALL_S: Final = 120.0  # after the share ended, without a file: the store is taken for away
END_S: Final = 10.0
LINES_MAX: Final = 1_000  # that nobody takes


class DepotProcess:
    """`url` is empty where the operator gave no store. `say` shows a line to the operator."""

    def __init__(self, url: str, root: Path, host: str, spool: Spool, say: Callable[[str], None]) -> None:
        self._url, self._spool, self._say = url, spool, say
        self._lines: deque[bytes] = deque(maxlen=LINES_MAX)
        self._cell: OfCell | None = None
        self._stored: frozenset[str] = frozenset()
        self._is_storing = False
        self._progress_s: float | None = None  # since the share ended
        self._is_ended = True  # the depot knows of no share that runs
        self._process: subprocess.Popen[bytes] | None = None
        if url:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workloads", "--depot"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            threading.Thread(target=self._read, daemon=True).start()
            self._tell({"url": url, "spool": str(root), "host": host})

    def begin(self, cell: OfCell, token: str) -> None:
        """`cell` is prepared in the spool and its share is about to begin. Without a token its run log goes over the
        link."""
        self._cell, self._stored, self._progress_s = None, frozenset(), None
        self._is_storing = False
        if not token:
            return
        if self._process is None or self._process.poll() is not None:
            self._say(f"{cell.cell_id}: there is no store here (--store), so its run log goes over the link")
            return
        self._cell, self._is_storing, self._is_ended = cell, True, False
        self._tell({"do": "begin", "due": note_due(self._spool, cell, token).model_dump()})

    def share_ended(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._tell({"do": "end"})
        if self._is_storing:
            self._progress_s = time.monotonic()

    def mark(self, found: FilesOfCell) -> FilesOfCell:
        self._step()
        if self._cell is None or (found.run_id, found.cell_id) != (self._cell.run_id, self._cell.cell_id):
            return found
        return marked(found, self._stored, is_storing=self._is_storing)

    def close(self) -> None:
        """What is under way is finished if that is soon; else it is due when the next worker begins."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _step(self) -> None:
        while self._lines:
            with contextlib.suppress(ValueError):
                self._take(json.loads(self._lines.popleft()))
        if self._process is not None and self._process.poll() is not None:
            self._give_up("the process that puts files into the store has ended")
        if self._progress_s is not None and time.monotonic() - self._progress_s > STALL_S:
            self._give_up(f"the store took nothing for {STALL_S:.0f} s")

    def _take(self, said: dict[str, Any]) -> None:
        if "note" in said:
            self._say(str(said["note"]))
        elif self._cell is None or said.get("cell_id") != self._cell.cell_id:
            return  # It belongs to a cell before.
        elif "problem" in said:
            self._give_up(str(said["problem"]))
        else:
            self._stored = frozenset(said["stored"])
            self._progress_s = None if self._progress_s is None else time.monotonic()
            if said["is_whole"]:
                self._progress_s = None
                self._is_storing = False  # nothing more will come, nor need

    def _give_up(self, why: str) -> None:
        if self._is_storing:
            self._is_storing, self._progress_s = False, None
            self._say(f"what is not in the store goes over the link: {why}")

    def _tell(self, document: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
