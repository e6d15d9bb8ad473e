"""Does to the brokers of this host what its permits allow, and undoes it: when asked, when a bound has passed, when its
master is lost, when this worker ends, and when it starts again after it was killed.

Each broker has a lock of its own, so a broker that starts slowly keeps no other one paused. Whatever is asked, the
answer says whether it was done, and when, by this host's monotonic clock. Shown by
tests/chaos/test_chaos_fault_host.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.fault_host.journal import Held, Journal, What
from chaos.fault_host.permits import BrokerPermit, Permits
from chaos.fault_host.processes import CannotTell, NotTheBroker, find_process, send_signal, wait_gone
from chaos.process_identity import ProcessIdentity, is_alive, read_state

KILL_S: Final = 30.0  # SIGKILL acts when the kernel gets to it: a process in the middle of a write may take a while
STOPPED_S: Final = 5.0  # until all threads of a process stand still
BUSY_S: Final = 3.0  # for the action before, on the same broker: the harness does one after another
END_S: Final = 200.0  # the same when everything is healed; a start may take two minutes
SEEN_MAX: Final = 16  # processes of one broker whose state can be asked for
TRIES_MAX: Final = 20  # to start a broker that does not come up
RETRY_S: Final = 10.0
TOPIC: Final = re.compile(r"harness-[A-Za-z0-9._-]{1,240}")  # of a run; nobody reads other topics here
_LOOK_S: Final = 0.1
_STOPPED: Final = "T"

Epochs = Sequence[tuple[int, int, int]]  # (leader epoch, start offset, end offset)


class Refused(Exception):
    """It is not on the list of this host; says what is."""


class NotDone(Exception):
    """It was tried, or cannot be done now; says why. `is_unknown`: it may still take effect."""

    def __init__(self, message: str, *, is_unknown: bool = False) -> None:
        super().__init__(message)
        self.is_unknown = is_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`from_ns` and `to_ns`: when it took effect, by the monotonic clock here."""

    from_ns: int
    to_ns: int
    processes: tuple[tuple[ProcessIdentity, str], ...] = ()  # each with its state of /proc; empty: it is gone
    running: ProcessIdentity | None = None
    epochs: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...] = ()  # by partition


@dataclass(slots=True, kw_only=True)
class _Site:
    """One broker of this host."""

    broker: int
    permit: BrokerPermit
    lock: threading.Lock = field(default_factory=threading.Lock)
    seen: OrderedDict[ProcessIdentity, None] = field(default_factory=OrderedDict)
    due_s: float | None = None  # when what is held is healed without being asked
    tries: int = 0
    next_try_s: float = 0.0
    was_started: bool = False  # by this worker, since the fault began
    healed_because: str = ""  # of the last fault, if nobody asked for it
    starter: subprocess.Popen[bytes] | None = None

    def see(self, identity: ProcessIdentity) -> None:
        self.seen.pop(identity, None)
        self.seen[identity] = None
        while len(self.seen) > SEEN_MAX:
            self.seen.popitem(last=False)


class FaultHost:
    """`say` gets a line for the operator. `read_epochs` reads the batch headers in a partition's directory."""

    def __init__(
        self,
        permits: Permits,
        journal: Journal,
        *,
        output: Path,
        read_epochs: Callable[[Path], Epochs],
        say: Callable[[str], object],
    ) -> None:
        self._permits, self._journal, self._output = permits, journal, output
        self._read_epochs, self._say = read_epochs, say
        self._sites = {broker: _Site(broker=broker, permit=permit) for broker, permit in permits.brokers.items()}
        self._run_id = ""
        self._heard_s = time.monotonic()

    # --- asked by the harness ---------------------------------------------------------------------------------------

    def act(self, action: str, broker: int, *, topic: str = "", partitions: int = 0) -> Done:
        """Refused or NotDone say why nothing was done, or what is not known."""
        site = self._site(action, broker)
        with self._alone(site):
            match action:
                case "look":
                    return self._look(site)
                case "kill":
                    return self._end(site, signal.SIGKILL, KILL_S)
                case "terminate":
                    return self._end(site, signal.SIGTERM, site.permit.stop_within / 1000)
                case "pause":
                    return self._pause(site)
                case "resume":
                    return self._resume(site)
                case "start":
                    return self._start(site)
                case "logs":
                    return self._logs(site, topic, partitions)
        raise Refused(f"there is no action {action[:40]!r}")

    def _site(self, action: str, broker: int) -> _Site:
        site = self._sites.get(broker)
        if site is None:
            there = ", ".join(map(str, self._sites))
            raise Refused(f"{action} of broker {broker}: this host has only broker {there} on its list")
        if action in ("kill", "terminate", "pause") and action not in site.permit.allow:
            allowed = ", ".join(site.permit.allow) or "nothing"
            raise Refused(f"{action} of broker {broker}: this host's list allows {allowed} for it")
        return site

    def begin_run(self, run_id: str) -> None:
        """Another run has this host from now on: what an earlier one left is healed."""
        if run_id != self._run_id:
            self._run_id = run_id
            self._heal_all("another run has begun")

    def heard(self) -> None:
        """The harness was heard of just now."""
        self._heard_s = time.monotonic()

    def step(self) -> None:
        """Several times a second: heals what is due, and everything when the harness was silent for too long."""
        now_s = time.monotonic()
        is_lost = now_s - self._heard_s > self._permits.lost_after / 1000
        for broker in self._journal.held():
            site = self._sites.get(broker)
            if site is None:
                continue
            is_due = site.due_s is not None and now_s > site.due_s
            if not (is_lost or is_due) or now_s < site.next_try_s or not site.lock.acquire(blocking=False):
                continue
            seconds = (self._permits.lost_after if is_lost else self._bound_ms(site)) / 1000
            why = f"the harness was silent for {seconds:g} s" if is_lost else f"it lasted {seconds:g} s"
            # One thread for each broker: a slow start must not keep another one paused. It releases the lock.
            threading.Thread(target=self._heal_and_release, args=(site, why), name=f"heal-{broker}").start()
        for site in self._sites.values():
            if site.starter is not None:
                site.starter.poll()  # else a start command that has ended stays as a zombie

    def heal_left(self) -> None:
        """At the start: what this worker had broken when it was killed."""
        self._heal_all("the worker was ended and started again")

    def close(self) -> None:
        """At the end: nothing stays broken, as far as that can be done now."""
        self._heal_all("the worker ends")
        self._journal.close()

    # --- actions ----------------------------------------------------------------------------------------------------

    def _end(self, site: _Site, number: signal.Signals, within_s: float) -> Done:
        identity = self._running(site)
        if (held := self._journal.held().get(site.broker)) is not None and held.what == "down":
            raise NotDone(f"broker {site.broker} is down by this worker already")
        self._hold(site, "down", identity)
        from_ns = time.monotonic_ns()
        try:
            if number is signal.SIGTERM:  # a stopped process would not see it
                self._send(site, identity, signal.SIGCONT)
            self._send(site, identity, number)
        except NotDone:
            self._release(site)
            raise
        if not wait_gone(identity, within_s):
            # It may still end. So the lease stays, and healing it looks first whether the broker runs.
            raise NotDone(
                f"broker {site.broker} (pid {identity.pid}) did not end within {within_s:g} s of {number.name}; "
                "it may still do",
                is_unknown=True,
            )
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), processes=self._states(site))

    def _pause(self, site: _Site) -> Done:
        identity = self._running(site)
        if site.broker in self._journal.held():
            raise NotDone(f"broker {site.broker} is paused or down by this worker already")
        self._hold(site, "paused", identity)
        from_ns = time.monotonic_ns()
        try:
            self._send(site, identity, signal.SIGSTOP)
        except NotDone:
            self._release(site)
            raise
        deadline_s = time.monotonic() + STOPPED_S
        while read_state(identity.pid) != _STOPPED and time.monotonic() < deadline_s:
            time.sleep(0.001)
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), processes=self._states(site), running=identity)

    def _resume(self, site: _Site) -> Done:
        held = self._held(site, "paused")
        from_ns = time.monotonic_ns()
        if not send_signal(held.identity, signal.SIGCONT):
            self._release(site)
            raise NotDone(f"broker {site.broker} (pid {held.pid}) ended while it was paused")
        to_ns = time.monotonic_ns()
        self._release(site)
        return Done(from_ns=from_ns, to_ns=to_ns, processes=self._states(site), running=held.identity)

    def _start(self, site: _Site) -> Done:
        held = self._held(site, "down")
        from_ns = time.monotonic_ns()
        identity = self._found_or_none(site)
        if identity is not None and not site.was_started:
            self._release(site)
            state = "did not end" if identity == held.identity else "runs again, and this worker did not start it"
            raise NotDone(f"broker {site.broker} (pid {identity.pid}) {state}")
        if identity is None:  # else an earlier try took longer than its limit
            identity = self._started(site)
        self._release(site)
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), processes=self._states(site), running=identity)

    def _look(self, site: _Site) -> Done:
        now_ns = time.monotonic_ns()
        held = self._journal.held().get(site.broker)
        is_down = held is not None and held.what == "down"
        found = self._found_or_none(site) if is_down else self._found(site)
        if held is not None and is_down and found not in (None, held.identity) and not site.was_started:
            raise NotDone(f"broker {site.broker} runs again, and this worker did not start it")
        return Done(from_ns=now_ns, to_ns=time.monotonic_ns(), processes=self._states(site), running=found)

    def _logs(self, site: _Site, topic: str, partitions: int) -> Done:
        """What the logs of a broker that is down hold of a topic of this run: leader epochs and offsets, no records."""
        self._held(site, "down")
        if not TOPIC.fullmatch(topic):
            raise Refused(
                f"the log of {topic[:80]!r}: only topics of a run are read here, their names begin with harness-"
            )
        if not site.permit.log_dirs:
            raise Refused(f"the logs of broker {site.broker}: this host's list has no log_dirs for it")
        from_ns, found = time.monotonic_ns(), []
        for partition in range(partitions):
            for root in site.permit.log_dirs:
                directory = root / f"{topic}-{partition}"
                if directory.is_dir() and not directory.is_symlink():
                    try:
                        found.append((partition, tuple(self._read_epochs(directory))))
                    except OSError as error:
                        raise NotDone(f"the log of broker {site.broker}, {topic}-{partition}: {error}") from error
        if self._found_or_none(site) is not None:
            raise NotDone(f"broker {site.broker} runs again: its log is no longer that of the dead one")
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), epochs=tuple(found))

    # --- healing without being asked --------------------------------------------------------------------------------

    def _heal_all(self, why: str) -> None:
        # Those that only need a signal first: a start takes its time.
        for broker, held in sorted(self._journal.held().items(), key=lambda item: item[1].what != "paused"):
            site = self._sites.get(broker)
            if site is None:
                self._say(f"broker {broker} was {held.what} by this worker, and is not on its list any more: see to it")
                continue
            with self._alone(site, within_s=END_S):
                self._heal(site, why)

    def _heal_and_release(self, site: _Site, why: str) -> None:
        try:
            self._heal(site, why)
        finally:
            site.lock.release()

    def _heal(self, site: _Site, why: str) -> None:
        held = self._journal.held().get(site.broker)
        if held is None:
            return
        site.healed_because = why
        site.next_try_s = time.monotonic() + RETRY_S
        if held.what == "paused":
            try:
                went_on = send_signal(held.identity, signal.SIGCONT)
            except PermissionError:
                self._say(f"broker {site.broker} (pid {held.pid}) stays paused: the worker may not send it a signal")
                return
            self._release(site)
            self._say(f"broker {site.broker} {'goes on' if went_on else 'is gone'}: {why}")
            return
        try:
            if (found := self._found_or_none(site)) is not None:
                # With the old identity it was never hit, or ends only now.
                self._release(site)
                self._say(f"broker {site.broker} runs (pid {found.pid}): {why}")
                return
            if not site.permit.start_when_lost:
                if not site.tries:
                    self._say(f"broker {site.broker} is left down, because start_when_lost is false: {why}")
                site.tries = 1
                return
            if site.tries >= TRIES_MAX:
                self._release(site)
                self._say(f"broker {site.broker} is left down after {TRIES_MAX} tries to start it: {why}")
                return
            site.tries += 1
            identity = self._started(site)
            self._release(site)
            self._say(f"broker {site.broker} was started (pid {identity.pid}): {why}")
        except (NotDone, CannotTell) as error:
            self._say(f"broker {site.broker} could not be started: {error}")

    # --- inside -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, site: _Site, within_s: float = BUSY_S) -> Iterator[None]:
        if not site.lock.acquire(timeout=within_s):
            raise NotDone(f"the action before on broker {site.broker} still goes on")
        try:
            yield
        except (NotTheBroker, CannotTell) as error:
            raise NotDone(f"broker {site.broker}: {error}") from error
        finally:
            site.lock.release()

    def _found(self, site: _Site) -> ProcessIdentity | None:
        found = find_process(site.permit.process)
        if found is not None:
            site.see(found)
        return found

    def _found_or_none(self, site: _Site) -> ProcessIdentity | None:
        """None also if another process has its pid by now. CannotTell stays an error."""
        try:
            return self._found(site)
        except NotTheBroker:
            return None

    def _running(self, site: _Site) -> ProcessIdentity:
        found = self._found(site)
        if found is None:
            raise NotDone(f"broker {site.broker} does not run")
        return found

    def _hold(self, site: _Site, what: What, identity: ProcessIdentity) -> None:
        held = Held(
            broker=site.broker, what=what, pid=identity.pid, start_ticks=identity.start_ticks, run_id=self._run_id
        )
        try:
            self._journal.hold(held)
        except OSError as error:
            raise NotDone(f"broker {site.broker} was left alone, because no lease can be written: {error}") from error
        site.healed_because, site.tries, site.next_try_s, site.was_started = "", 0, 0.0, False
        site.due_s = time.monotonic() + self._bound_ms(site) / 1000

    def _bound_ms(self, site: _Site) -> int:
        held = self._journal.held().get(site.broker)
        is_pause = held is not None and held.what == "paused"
        return site.permit.paused_at_most if is_pause else site.permit.down_at_most

    def _release(self, site: _Site) -> None:
        self._journal.release(site.broker)
        site.due_s = None

    def _held(self, site: _Site, what: What) -> Held:
        """What this worker holds. NotDone tells why it does not, or no more."""
        held = self._journal.held().get(site.broker)
        if held is None or held.what != what:
            early = f": it was healed before, because {site.healed_because}" if site.healed_because else ""
            raise NotDone(f"broker {site.broker} is not {what} by this worker{early}")
        return held

    def _send(self, site: _Site, identity: ProcessIdentity, number: signal.Signals) -> None:
        try:
            if not send_signal(identity, number):
                raise NotDone(f"broker {site.broker} (pid {identity.pid}) ended by itself")
        except PermissionError as error:
            raise NotDone(f"broker {site.broker} (pid {identity.pid}): the worker may not send it a signal") from error

    def _states(self, site: _Site) -> tuple[tuple[ProcessIdentity, str], ...]:
        return tuple((each, (read_state(each.pid) or "") if is_alive(each) else "") for each in site.seen)

    def _started(self, site: _Site) -> ProcessIdentity:
        """By the operator's command. It returns when the broker's process is there."""
        command = site.permit.start
        if command is None:
            raise NotDone(f"no command for starting broker {site.broker} is on this host's list")
        within_s = site.permit.start_within / 1000
        output = self._output / f"start-{site.broker}.log"
        try:
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                # A session of its own: what it starts outlives this worker, and no Ctrl-C reaches it.
                site.starter = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
                )
                site.was_started = True
        except OSError as error:
            raise NotDone(f"start of broker {site.broker} failed: {error}") from error
        deadline_s = time.monotonic() + within_s
        why = ""
        while time.monotonic() < deadline_s:
            try:
                if (found := self._found(site)) is not None:
                    return found
                why = ""
            except NotTheBroker as error:  # its pid file is not written yet, or the command is still a shell
                why = f": {error}"
            if site.starter.poll() not in (None, 0):
                raise NotDone(f"start of broker {site.broker} ended with {site.starter.returncode}, see {output}")
            time.sleep(_LOOK_S)
        raise NotDone(f"broker {site.broker} did not come up within {within_s:g} s of its start{why}, see {output}")
