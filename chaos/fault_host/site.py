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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.fault_host.journal import Held, Journal, What
from chaos.fault_host.permits import BrokerPermit
from chaos.fault_host.processes import CannotTell, NotTheBroker, find_process, send_signal
from chaos.process_identity import ProcessIdentity, is_alive, read_state

BUSY_S: Final = 3.0  # how long an action waits for the previous one on the same broker
SEEN_MAX: Final = 16  # processes of one broker whose state is reported
_LOOK_S: Final = 0.1


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
        self.healed_because, self.tries, self.next_try_s, self.was_started = "", 0, 0.0, False
        self.due_s = time.monotonic() + self.bound_ms() / 1000

    def bound_ms(self) -> int:
        held = self.journal.held().get(self.broker)
        is_pause = held is not None and held.what == "paused"
        return self.permit.paused_at_most if is_pause else self.permit.down_at_most

    def release(self) -> None:
        self.journal.release(self.broker)
        self.due_s = None

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
        """Start the broker by the operator's command. It returns when the broker's process exists."""
        command = self.permit.start
        if command is None:
            raise NotDone(f"no command for starting broker {self.broker} is on this host's list")
        within_s = self.permit.start_within / 1000
        output = self.output / f"start-{self.broker}.log"
        try:
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                # It gets a session of its own, so that the broker outlives this worker and no Ctrl-C reaches it.
                self.starter = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
                )
                self.was_started = True
        except OSError as error:
            raise NotDone(f"start of broker {self.broker} failed: {error}") from error
        deadline_s = time.monotonic() + within_s
        why = ""
        while time.monotonic() < deadline_s:
            try:
                if (found := self.find()) is not None:
                    return found
                why = ""
            except NotTheBroker as error:  # its pid file is not written yet, or the command is still a shell
                why = f": {error}"
            if self.starter.poll() not in (None, 0):
                raise NotDone(f"start of broker {self.broker} ended with {self.starter.returncode}, see {output}")
            time.sleep(_LOOK_S)
        raise NotDone(f"broker {self.broker} did not come up within {within_s:g} s of its start{why}, see {output}")
