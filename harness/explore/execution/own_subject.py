"""One run of a program that is somebody's own: its start, what the cluster does meanwhile, and its end.

The program finds everything in its environment (`variables`). It may write what it likes; the last lines are kept. When
it does not end within the patience, counted from when all is healed, it is ended with all that it has started. Shown by
tests/harness/test_harness_explore_own_subject.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from harness.explore.execution.subject import Site
from harness.explore.trial.history import Connected, Ended, Happening, Stuck
from harness.explore.trial.model import Do, Program
from workloads.clients.process.framing import Tail
from workloads.clients.process.peer import now_us

# A record may wait for delivery.timeout.ms, two minutes by default, before its client tells that it gives up.
PATIENCE_S: Final = 150.0
HEALED_WITHIN_S: Final = 300.0  # all that we do has shorter bounds
TERM_S: Final = 2.0  # from SIGTERM to SIGKILL
_TICK_S: Final = 0.05
_LINES: Final = 12
_READ_BYTES: Final = 1 << 16
_READER_ENDS_S: Final = 2.0


def variables(site: Site) -> dict[str, str]:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": site.bootstrap_servers,
        "KAFKA_TOPIC": site.topics.names[0],
        "KAFKA_GROUP_ID": site.group,
        "KAFKA_TRANSACTIONAL_ID": site.transactional_id,
        "KAFKA_CLIENT_ID": site.client_id,
    }


class OwnSubject:
    """As `harness.explore.execution.bench.RunsProgram`."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        program: Program,
        site: Site,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._command, self._program, self._site, self._patience_s = command, program, site, patience_s
        self._environment = {**os.environ, **environment, **variables(site)}
        self.happened: list[Happening] = []
        self.problem = self.refused = ""
        self.effective: dict[str, str] = {}  # What it sets is its business.
        self._tail = Tail()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_given_up = False

    def run(self) -> None:
        """Returns when the program has ended. Nothing of it is left running."""
        try:
            for move in self._program.moves:
                if move.do is Do.RUN:
                    self._start()
                elif self.problem:
                    return
                elif move.do is Do.WAIT:
                    self._has_ended_within(move.count / 1_000)
                elif not self._has_ended():  # what the cluster does afterwards, nobody would meet
                    self._site.change(move)
            self._await_end()
        finally:
            self._end()

    def give_up(self) -> None:
        """From another thread. Also of a program that is about to be started."""
        self._is_given_up = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                list(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment,
                bufsize=0,
                start_new_session=True,  # what it has started itself must end with it, and Ctrl-C is ours
            )
        except OSError as error:
            self.problem = f"{self._command[0]} does not start: {error.strerror}"
            return
        if self._is_given_up:
            self.give_up()
        self.happened.append(Connected(at_us=now_us()))
        self._reader = threading.Thread(target=self._read, name=f"{self._site.client_id}-output", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while data := output.read(_READ_BYTES):
                self._tail.add(data)

    def _has_ended(self) -> bool:
        """Without reaping it: as long as it is not reaped, its process group is nobody else's."""
        assert self._process is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _has_ended_within(self, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while not (has_ended := self._has_ended()) and time.monotonic() < until_s:
            time.sleep(_TICK_S)
        return has_ended

    def _await_end(self) -> None:
        """The patience begins anew whenever something is not healed."""
        if self._process is None:
            return
        begun_s = since_s = time.monotonic()
        while not self._has_ended_within(_TICK_S):
            now_s = time.monotonic()
            if not self._site.is_healed():
                since_s = now_s
            if now_s - since_s >= self._patience_s:
                waited_ms = round((now_s - since_s) * 1_000)
                what = "programs that have not ended"
                self.happened.append(Stuck(at_us=now_us(), what=what, missing=1, expected=1, waited_ms=waited_ms))
                return
            if now_s - begun_s >= HEALED_WITHIN_S + self._patience_s:
                self.problem = f"what was disturbed was not healed within {HEALED_WITHIN_S:.0f} s"
                return
        at_us = now_us()
        self._end()
        code = self._process.returncode
        words = self._tail.text(_LINES).replace("\n", " | ")
        self.happened.append(Ended(at_us=at_us, code=max(0, code), signal=max(0, -code), last_words=words))

    def _end(self) -> None:
        """The program, with what it has started. Safe to call twice."""
        if self._process is None or self._process.returncode is not None:
            return
        if not self._has_ended():
            os.killpg(self._process.pid, signal.SIGTERM)
            self._has_ended_within(TERM_S)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_READER_ENDS_S)  # who has left the process group may hold the pipe open
