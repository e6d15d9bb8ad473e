"""The users of somebody's locustfile beside one cell: started before the load, stopped after it.

What they do is their own. Their requests come into the report. Their records, if they write to the cell's topic, are
foreign to its verdict. Shown by tests/harness/test_harness_own_users.py.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from typing import Final

from harness.clusters.broker_process import ManagedProcess, spawn, tail_text
from harness.errors import CellError
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from runlog.files.paths import cell_directory, events_path
from workloads.model import OWN_USERS_START, OWN_USERS_STOP_S, OwnUsersPlan

START_TIMEOUT_S: Final = 60.0  # somebody's imports, on a host that is full
_LOOK_S: Final = 0.05


class OwnUsersProcess:
    """If the workload has no locustfile, nothing happens."""

    def __init__(
        self, planned: PlannedCell, context: RunContext, bootstrap_servers: str, access: Mapping[str, str]
    ) -> None:
        """`access`: the security settings that the load has too."""
        self._planned, self._context = planned, context
        self._bootstrap_servers, self._access = bootstrap_servers, dict(access)
        self._words_path = cell_directory(context.run_dir, planned.cell_id) / "locustfile.log"
        self._process: ManagedProcess | None = None
        self._is_asked_to_stop = False
        self.note = ""  # what the reader of its figures must know; about nothing else of the cell

    def start(self) -> None:
        """Returns when its users have started. CellError with its words if it cannot be."""
        users = self._planned.workload.locust
        if users is None:
            return
        own = OwnUsersPlan(
            users=users,
            bootstrap_servers=self._bootstrap_servers,
            topic=self._planned.topic_name,
            properties=self._access,
            stats=events_path(self._context.run_dir, self._planned.cell_id, "stats"),
            t0_monotonic_ns=self._context.clock.t0_monotonic_ns,
        )
        self._process = spawn(
            "the locustfile",
            (sys.executable, "-m", "workloads.own_users"),
            stderr_path=self._words_path,
            stdin=f"{own.model_dump_json()}\n".encode(),  # Passwords may be in it, so it is no argument.
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while OWN_USERS_START not in self._words():
            if not self._process.is_running():
                raise CellError(f"the locustfile {users.file} did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise CellError(f"the locustfile {users.file} did not start within {START_TIMEOUT_S:.0f} s")
            if self._context.stop.is_set():
                return
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """Its users end, and the last lines are written. May be called twice."""
        if self._process is not None and not self._is_asked_to_stop:
            self._is_asked_to_stop = True
            if self._process.is_running() and self._process.stop(OWN_USERS_STOP_S + 2.0) == -signal.SIGKILL:
                self.note = (
                    f"the users of the locustfile did not end within {OWN_USERS_STOP_S + 2.0:.0f} s and were killed: a "
                    "call that waits in C, as flush of confluent-kafka does, holds up all of them. What they told last "
                    "is missing"
                )

    @property
    def problem(self) -> str:
        """Why it ended although nobody asked it to; empty if it did not, or at the end of its own shape."""
        if self._process is None or self._is_asked_to_stop or self._process.is_running():
            return ""
        return "" if self._process.exit_code() == 0 else f"the locustfile ended by itself: {self._last_words()}"

    def _words(self) -> list[str]:
        return self._words_path.read_text(errors="replace").splitlines() if self._words_path.exists() else []

    def _last_words(self) -> str:
        said = tail_text(self._words_path, 4) if self._words_path.exists() else ""
        return said.strip() or "it said nothing"
