"""Acts on the brokers of this host as its permits allow, and undoes what it did.

A fault is undone in these cases:

- the harness asks for it
- it has lasted as long as the permit allows
- the harness was silent for too long
- this worker ends
- this worker starts again after it was killed

A broker that was told to stop is down until it is seen up as another process. Until then its lease stays, also if it
takes much longer to end than anybody expected: whoever ended it starts it. The operator is told after the healing.

site.py finds one broker, sends it signals and starts it. Each broker has a lock of its own, so a slow start of one
broker does not keep another one paused. Every answer says whether the action was done, and when, by this host's
monotonic clock. Shown by tests/chaos/test_chaos_fault_host.py.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.fault_host.journal import Held, Journal
from chaos.fault_host.permits import Permits
from chaos.fault_host.processes import CannotTell, send_signal, wait_gone
from chaos.fault_host.site import NotDone, Site
from chaos.process_identity import ProcessIdentity, is_alive, read_state

KILL_S: Final = 30.0  # limit for the end after SIGKILL; a process in the middle of a write may need a while
STOPPED_S: Final = 5.0  # limit until all threads of a process are stopped
END_S: Final = 200.0  # limit for the lock of a broker when everything is healed; a start may take two minutes
TRIES_MAX: Final = 20  # tries to start a broker that does not come up
RETRY_S: Final = 10.0
STOPPING_LOOK_S: Final = 0.5  # between looks at a broker that was told to stop and has not ended yet
TOPIC: Final = re.compile(r"harness-[A-Za-z0-9._-]{1,240}")  # topics of a run; no other topic is read here
_STOPPED: Final = "T"

Epochs = Sequence[tuple[int, int, int]]  # (leader epoch, start offset, end offset)


class Refused(Exception):
    """The list of this host does not allow the action. The message says what it allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The action was done. It took effect between `from_ns` and `to_ns`, by the monotonic clock of this host."""

    from_ns: int
    to_ns: int
    processes: tuple[tuple[ProcessIdentity, str], ...] = ()  # each with its state in /proc; empty: it is gone
    running: ProcessIdentity | None = None
    epochs: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...] = ()  # (partition, its epochs)


class FaultHost:
    """`say` is called with lines for the operator. `read_epochs` reads the batch headers in a partition's directory."""

    def __init__(
        self,
        permits: Permits,
        journal: Journal,
        *,
        output: Path,
        read_epochs: Callable[[Path], Epochs],
        say: Callable[[str], object],
    ) -> None:
        self._permits, self._journal = permits, journal
        self._read_epochs, self._say = read_epochs, say
        self._sites = {
            broker: Site(broker=broker, permit=permit, journal=journal, output=output)
            for broker, permit in permits.brokers.items()
        }
        self._run_id = ""
        self._is_ending = False
        self._heard_s = time.monotonic()

    # --- asked by the harness ---------------------------------------------------------------------------------------

    def act(self, action: str, broker: int, *, topic: str = "", partitions: int = 0) -> Done:
        """Do one action. Raises Refused or NotDone, which say why nothing was done, or what is unknown."""
        site = self._site(action, broker)
        with site.alone():
            if self._is_ending:
                raise NotDone(f"{action} of broker {broker}: this worker ends")
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

    def _site(self, action: str, broker: int) -> Site:
        site = self._sites.get(broker)
        if site is None:
            there = ", ".join(map(str, self._sites))
            raise Refused(f"{action} of broker {broker}: this host has only broker {there} on its list")
        if action in ("kill", "terminate", "pause") and action not in site.permit.allow:
            allowed = ", ".join(site.permit.allow) or "nothing"
            raise Refused(f"{action} of broker {broker}: this host's list allows {allowed} for it")
        return site

    def begin_run(self, run_id: str) -> None:
        """Another run uses this host from now on. What an earlier run left is healed."""
        if run_id != self._run_id:
            self._run_id = run_id
            self._heal_all("another run has begun")

    def heard(self) -> None:
        """The harness has just sent something."""
        self._heard_s = time.monotonic()

    def step(self) -> None:
        """Called several times a second. Heals what is due, and everything if the harness was silent for too long."""
        now_s = time.monotonic()
        is_lost = now_s - self._heard_s > self._permits.lost_after / 1000
        for broker in self._journal.held():
            site = self._sites.get(broker)
            if site is None:
                continue
            is_due = bool(site.wanted_because) or (site.due_s is not None and now_s > site.due_s)
            if not (is_lost or is_due) or now_s < site.next_try_s or not site.lock.acquire(blocking=False):
                continue
            why = site.wanted_because or self._why_due(site, is_lost=is_lost)
            # One thread for each broker, because a slow start must not keep another broker paused. The thread releases
            # the lock.
            threading.Thread(target=self._heal_and_release, args=(site, why), name=f"heal-{broker}").start()
        for site in self._sites.values():
            if site.starter is not None:
                site.starter.poll()  # otherwise a start command that has ended stays as a zombie

    def _why_due(self, site: Site, *, is_lost: bool) -> str:
        seconds = (self._permits.lost_after if is_lost else site.bound_ms()) / 1000
        return f"the harness was silent for {seconds:g} s" if is_lost else f"it lasted {seconds:g} s"

    def heal_left(self) -> None:
        """At the start: heal what this worker had broken when it was killed."""
        self._heal_all("the worker was ended and started again")

    def close(self) -> None:
        """At the end: heal everything, as far as that is possible now. The next start heals the rest."""
        self._is_ending = True
        self._heal_all("the worker ends")
        self._journal.close()

    # --- actions ----------------------------------------------------------------------------------------------------

    def _end(self, site: Site, number: signal.Signals, within_s: float) -> Done:
        identity = site.find_running()
        before = self._journal.held().get(site.broker)
        if before is not None and before.what == "down" and before.identity != identity:
            raise NotDone(f"broker {site.broker} is down by this worker already")
        site.hold("down", identity, run_id=self._run_id)
        from_ns = time.monotonic_ns()
        try:
            if number is signal.SIGTERM:  # a stopped process would not handle it
                site.send(identity, signal.SIGCONT)
            site.send(identity, number)
        except NotDone:
            site.not_sent(before)
            raise
        if not wait_gone(identity, within_s):
            # It may still end. So the lease stays, and healing waits for that end.
            raise NotDone(
                f"broker {site.broker} (pid {identity.pid}) did not end within {within_s:g} s of {number.name}; "
                "it may still do",
                is_unknown=True,
            )
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), processes=site.states())

    def _pause(self, site: Site) -> Done:
        identity = site.find_running()
        if site.broker in self._journal.held():
            raise NotDone(f"broker {site.broker} is paused or down by this worker already")
        site.hold("paused", identity, run_id=self._run_id)
        from_ns = time.monotonic_ns()
        try:
            site.send(identity, signal.SIGSTOP)
        except NotDone:
            site.release()
            raise
        deadline_s = time.monotonic() + STOPPED_S
        while read_state(identity.pid) != _STOPPED and time.monotonic() < deadline_s:
            time.sleep(0.001)
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), processes=site.states(), running=identity)

    def _resume(self, site: Site) -> Done:
        held = site.held("paused")
        from_ns = time.monotonic_ns()
        if not send_signal(held.identity, signal.SIGCONT):
            site.release()
            raise NotDone(f"broker {site.broker} (pid {held.pid}) ended while it was paused")
        to_ns = time.monotonic_ns()
        site.release()
        return Done(from_ns=from_ns, to_ns=to_ns, processes=site.states(), running=held.identity)

    def _start(self, site: Site) -> Done:
        held = site.held("down")
        from_ns = time.monotonic_ns()
        within_s = site.permit.stop_within / 1000
        if not wait_gone(held.identity, within_s):
            site.wanted_because = "it was to be started while it still stopped"
            raise NotDone(
                f"broker {site.broker} (pid {held.pid}) was told to stop and still stops, after {within_s:g} s more; "
                "it is started when it has ended",
                is_unknown=True,
            )
        identity = site.find_or_none()
        if identity is not None and not site.was_started:
            site.release()
            raise NotDone(f"broker {site.broker} (pid {identity.pid}) runs again, and this worker did not start it")
        if identity is None:  # otherwise an earlier try took longer than its limit
            identity = site.start()
        site.release()
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), processes=site.states(), running=identity)

    def _look(self, site: Site) -> Done:
        now_ns = time.monotonic_ns()
        held = self._journal.held().get(site.broker)
        is_down = held is not None and held.what == "down"
        found = site.find_or_none() if is_down else site.find()
        if held is not None and is_down and found not in (None, held.identity) and not site.was_started:
            raise NotDone(f"broker {site.broker} runs again, and this worker did not start it")
        return Done(from_ns=now_ns, to_ns=time.monotonic_ns(), processes=site.states(), running=found)

    def _logs(self, site: Site, topic: str, partitions: int) -> Done:
        """The leader epochs and offsets, but no records, of a topic of this run in the logs of a broker that is
        down."""
        site.held("down")
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
        if site.find_or_none() is not None:
            raise NotDone(f"broker {site.broker} runs again: its log is no longer that of the dead one")
        return Done(from_ns=from_ns, to_ns=time.monotonic_ns(), epochs=tuple(found))

    # --- healing without a request ----------------------------------------------------------------------------------

    def _heal_all(self, why: str) -> None:
        """Heal each broker in a thread of its own, and wait for all: what keeps one of them broken keeps no other. A
        broker without a lease is waited for too, because an action on it may be under way."""
        threads = [
            threading.Thread(target=self._heal_when_free, args=(site, why), name=f"heal-{broker}")
            for broker, site in self._sites.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for broker, held in self._journal.held().items():
            if broker not in self._sites:
                self._say(f"broker {broker} was {held.what} by this worker, and is not on its list any more: see to it")

    def _heal_when_free(self, site: Site, why: str) -> None:
        if not site.lock.acquire(timeout=END_S):
            site.wanted_because = why
            self._say(f"broker {site.broker} could not be healed yet: the action before on it still goes on")
            return
        held = self._journal.held().get(site.broker)
        if held is not None:
            site.wanted_because = why
            if held.what == "down":
                wait_gone(held.identity, site.permit.stop_within / 1000)
        self._heal_and_release(site, why)

    def _heal_and_release(self, site: Site, why: str) -> None:
        """What was done is said when the broker is free again. An error keeps the lease, and it is tried again."""
        try:
            told = self._heal(site, why)
        except Exception as error:  # the entry of a thread: the operator must hear of it
            told = f"broker {site.broker} could not be healed: {type(error).__name__}: {error}"
        finally:
            site.lock.release()
        if told:
            self._say(told)

    def _heal(self, site: Site, why: str) -> str:
        """Returns what the operator is told; empty: nothing new."""
        held = self._journal.held().get(site.broker)
        if held is None:
            return ""
        site.healed_because = why
        site.next_try_s = time.monotonic() + RETRY_S
        if held.what == "paused":
            return self._let_go_on(site, held, why)
        if is_alive(held.identity):
            return self._await_end(site, held, why)
        try:
            return self._start_without_request(site, why)
        except (NotDone, CannotTell) as error:
            return f"broker {site.broker} could not be started: {error}"

    def _let_go_on(self, site: Site, held: Held, why: str) -> str:
        try:
            went_on = send_signal(held.identity, signal.SIGCONT)
        except PermissionError:
            return f"broker {site.broker} (pid {held.pid}) stays paused: the worker may not send it a signal"
        site.release()
        return f"broker {site.broker} {'goes on' if went_on else 'is gone'}: {why}"

    def _await_end(self, site: Site, held: Held, why: str) -> str:
        """The broker was told to stop and has not ended. Whether the signal has reached it cannot be seen. A stopped
        process would handle no signal."""
        with suppress(PermissionError):
            send_signal(held.identity, signal.SIGCONT)
        site.next_try_s = time.monotonic() + STOPPING_LOOK_S
        if site.is_stop_told:
            return ""
        site.is_stop_told = True
        return (
            f"broker {site.broker} (pid {held.pid}) was told to stop and still stops: it is started when it has ended, "
            f"by this worker or by its next start: {why}"
        )

    def _start_without_request(self, site: Site, why: str) -> str:
        if (found := site.find_or_none()) is not None:
            site.release()
            return f"broker {site.broker} runs (pid {found.pid}): {why}"
        if not site.permit.start_when_lost:
            is_new, site.tries = not site.tries, 1
            return f"broker {site.broker} is left down, because start_when_lost is false: {why}" if is_new else ""
        if site.tries >= TRIES_MAX:
            site.release()
            return f"broker {site.broker} is left down after {TRIES_MAX} tries to start it: {why}"
        site.tries += 1
        identity = site.start()
        site.release()
        return f"broker {site.broker} was started (pid {identity.pid}): {why}"
