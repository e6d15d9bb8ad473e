"""One broker of a fault host: its process, what this worker has done to it, and how it gets a signal or is started.

host.py decides when this happens. Shown by tests/chaos/test_chaos_fault_host.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from chaos.fault_host.journal import Held, Journal, What
from chaos.fault_host.permits import BrokerPermit
from chaos.fault_host.processes import CannotTell, NotTheBroker, find_process, send_signal
from chaos.process_identity import ProcessIdentity, is_alive, read_identity, read_state

BUSY_S: Final = 3.0  # how long an action waits for the previous one on the same broker
SEEN_MAX: Final = 16  # processes of one broker whose state is reported
_LOOK_S: Final = 0.1
# The start command waits until its lease is on disk. If the worker is killed before that, the command is never begun.
_WHEN_TOLD: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")


class NotDone(Exception):
    """The action failed, or cannot be done now. The message says why. `is_unknown`: it may still take effect."""

    def __init__(self, message: str, *, is_unknown: bool = False) -> None:
        super().__init__(message)
        self.is_unknown = is_unknown


@dataclass(slots=True, kw_only=True)
class Site:
    """One broker of this host. Only code that holds its lock (`alone`) may change it."""

    broker: int
    permit: BrokerPermit
    journal: Journal
    output: Path  # directory for the output of start commands
    lock: threading.Lock = field(default_factory=threading.Lock)
    seen: OrderedDict[ProcessIdentity, None] = field(default_factory=OrderedDict)
    due_s: float | None = None  # when it is healed without a request
    tries: int = 0
    next_try_s: float = 0.0
    was_started: bool = False  # whether this worker has started it since the fault began
    wanted_because: str = ""  # why it is to be healed as soon as that is possible
    is_stop_told: bool = False  # whether the operator knows that it still stops
    healed_because: str = ""  # why the last fault was healed without a request
    starter: subprocess.Popen[bytes] | None = None

    def see(self, identity: ProcessIdentity) -> None:
        self.seen.pop(identity, None)
        self.seen[identity] = None
        while len(self.seen) > SEEN_MAX:
            self.seen.popitem(last=False)

    @contextmanager
    def alone(self, within_s: float = BUSY_S) -> Iterator[None]:
        if not self.lock.acquire(timeout=within_s):
            raise NotDone(f"the action before on broker {self.broker} still goes on")
        try:
            yield
        except (NotTheBroker, CannotTell) as error:
            raise NotDone(f"broker {self.broker}: {error}") from error
        finally:
            self.lock.release()

    def find(self) -> ProcessIdentity | None:
        found = find_process(self.permit.process)
        if found is not None:
            self.see(found)
        return found

    def find_or_none(self) -> ProcessIdentity | None:
        """Like `find`, but None also if another process has its pid by now. CannotTell is still raised."""
        try:
            return self.find()
        except NotTheBroker:
            return None

    def find_running(self) -> ProcessIdentity:
        found = self.find()
        if found is None:
            raise NotDone(f"broker {self.broker} does not run")
        return found

    def hold(self, what: What, identity: ProcessIdentity, *, run_id: str) -> None:
        held = Held(broker=self.broker, what=what, pid=identity.pid, start_ticks=identity.start_ticks, run_id=run_id)
        try:
            self.journal.hold(held)
        except OSError as error:
            raise NotDone(f"broker {self.broker} was left alone, because no lease can be written: {error}") from error
        self.wanted_because, self.is_stop_told = "", False
        self.healed_because, self.tries, self.next_try_s, self.was_started = "", 0, 0.0, False
        self.due_s = time.monotonic() + self.bound_ms() / 1000

    def bound_ms(self) -> int:
        held = self.journal.held().get(self.broker)
        is_pause = held is not None and held.what == "paused"
        return self.permit.paused_at_most if is_pause else self.permit.down_at_most

    def release(self) -> None:
        self.journal.release(self.broker)
        self.due_s, self.wanted_because = None, ""

    def not_sent(self, before: Held | None) -> None:
        """No signal was sent: only what was broken `before` is still broken."""
        if before is None:
            self.release()
            return
        with suppress(OSError):  # the new lease stays then, and it is healed by that one
            self.journal.hold(before)

    def held(self, what: What) -> Held:
        """The note that this worker has paused the broker, or taken it down. Without one it raises NotDone, which says
        why."""
        held = self.journal.held().get(self.broker)
        if held is None or held.what != what:
            early = f": it was healed before, because {self.healed_because}" if self.healed_because else ""
            raise NotDone(f"broker {self.broker} is not {what} by this worker{early}")
        return held

    def send(self, identity: ProcessIdentity, number: signal.Signals) -> None:
        try:
            if not send_signal(identity, number):
                raise NotDone(f"broker {self.broker} (pid {identity.pid}) ended by itself")
        except PermissionError as error:
            raise NotDone(f"broker {self.broker} (pid {identity.pid}): the worker may not send it a signal") from error

    def states(self) -> tuple[tuple[ProcessIdentity, str], ...]:
        return tuple((each, (read_state(each.pid) or "") if is_alive(each) else "") for each in self.seen)

    def start(self) -> ProcessIdentity:
        """Start the broker by the operator's command. It returns when the broker's process exists. A command that was
        begun before and has not ended is waited for, because two brokers must not be started on one directory."""
        command = self.permit.start
        if command is None:
            raise NotDone(f"no command for starting broker {self.broker} is on this host's list")
        deadline_s = time.monotonic() + self.permit.start_within / 1000
        starter = self._begun() or self._begin(command)
        why = ""
        while time.monotonic() < deadline_s:
            try:
                if (found := self.find()) is not None:
                    return found
                why = ""
            except NotTheBroker as error:  # its pid file is not written yet, or the command is still a shell
                why = f": {error}"
            if self.starter is not None and self.starter.poll() not in (None, 0):
                raise NotDone(f"start of broker {self.broker} ended with {self.starter.returncode}, see {self._log}")
            if self.starter is None and not is_alive(starter) and self.find_or_none() is None:
                raise NotDone(f"a start of broker {self.broker} by the worker before has ended, and no broker is there")
            time.sleep(_LOOK_S)
        raise NotDone(
            f"broker {self.broker} did not come up within {self.permit.start_within / 1000:g} s of its start{why}, "
            f"see {self._log}"
        )

    @property
    def _log(self) -> Path:
        return self.output / f"start-{self.broker}.log"

    def _begun(self) -> ProcessIdentity | None:
        """The start command of an earlier try that still runs, perhaps begun by a worker that was killed."""
        if self.starter is not None:
            self.starter.poll()  # otherwise one that has ended stays as a zombie
        held = self.journal.held().get(self.broker)
        starter = None if held is None else held.starter
        return starter if starter is not None and is_alive(starter) else None

    def _begin(self, command: Sequence[str]) -> ProcessIdentity:
        try:
            with self._opened_log() as log:
                # It gets a session of its own, so that the broker outlives this worker and no Ctrl-C reaches it.
                self.starter = subprocess.Popen(
                    [*_WHEN_TOLD, *command], stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise NotDone(f"start of broker {self.broker} failed: {error}") from error
        identity = read_identity(self.starter.pid)
        held = self.journal.held().get(self.broker)
        if identity is not None and held is not None:
            noted = replace(held, starter_pid=identity.pid, starter_ticks=identity.start_ticks)
            with suppress(OSError):  # a broker that is down is worse than a note that is missing
                self.journal.hold(noted)
        self.was_started = True
        assert self.starter.stdin is not None
        with suppress(OSError), self.starter.stdin as told:  # OSError: it has ended, and its exit code tells why
            told.write(b"go\n")
        return identity or ProcessIdentity(pid=self.starter.pid, start_ticks=0)

    def _opened_log(self) -> IO[bytes]:
        """Where the output of the start command goes. No disk keeps a broker down: without a file it goes nowhere."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.fdopen(os.open(self._log, flags, 0o600), "wb")
        except OSError:
            return Path(os.devnull).open("wb")
