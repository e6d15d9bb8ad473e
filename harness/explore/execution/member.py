"""One client process of a trial: what it owns, where it stands, and what it tells.

What the client tells is noted in the reading thread, so the order of the notes is the order of its lines. Several
members of a group write into one list of happenings. A process may have served other trials before
(warm_clients.py). Shown by tests/harness/test_harness_explore_bench.py.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from harness.explore.execution.copying import Copying
from harness.explore.execution.warm_clients import WarmClients
from harness.explore.trial.history import (
    Change,
    Commit,
    Delivered,
    Ended,
    Fate,
    FlushedEarly,
    Happening,
    Outcome,
    Overdue,
    Problem,
    Rebalance,
    Told,
)
from harness.explore.trial.topics import Topics
from workloads.clients.process.conversation import Mistake, Rule
from workloads.clients.process.messages import (
    Acknowledged,
    Committed,
    ErrorEvent,
    Event,
    Fatal,
    NotAcknowledged,
    Polled,
    Rebalanced,
)
from workloads.clients.process.peer import GRACE_S, Peer, now_us

HAPPENED_MAX: Final = 1_000_000  # the largest program has 20,000 records
_EXIT = re.compile(r"the program ended: (?:exit code (?P<code>\d+)|by (?P<signal>SIG\w+))")


class Member:
    """`seen`: behind the furthest record of each partition that any member of the trial got; they share it. `sent_to`:
    by sequence the index of the topic that a record was sent to, where that is not the first one. `copying`: of one
    that copies what it reads."""

    def __init__(
        self,
        number: int,
        happened: list[Happening],
        seen: dict[int, int],
        *,
        topics: Topics,
        sent_to: Mapping[int, int],
        copying: Copying | None = None,
    ) -> None:
        self._topics, self._sent_to = topics, sent_to
        self.subscribed: Collection[int] = ()  # indexes of topics
        self.number = number
        self.transaction = 0  # number of the one that is open
        self.must_abort = False  # It could not send its offsets.
        self._copying = copying
        self.problem = ""
        self.owned: set[int] = set()
        self.positions: dict[int, int] = {}  # This connection read up to here: the offset behind the last record.
        self.paused: set[int] = set()
        self.asked: Mapping[int, int] = {}  # the positions of the last commit
        self.asked_besides: Mapping[int, int] = {}  # A call beside it has these of other partitions.
        self.is_reading = self.is_connected = self.is_asleep = False
        self._happened, self._seen = happened, seen
        self._peer: Peer | None = None
        self._noted = 0  # mistakes of the protocol that are noted already
        self._was_signalled = self._is_to_stop = False

    # --- its process --------------------------------------------------------------------------------------------------

    @property
    def peer(self) -> Peer:
        assert self._peer is not None
        return self._peer

    @property
    def copying(self) -> Copying:
        assert self._copying is not None
        return self._copying

    @property
    def is_started(self) -> bool:
        return self._peer is not None

    @property
    def is_lost(self) -> bool:
        return self._peer is not None and self._peer.is_lost

    def start(self, command: Sequence[str], environment: Mapping[str, str], warm: WarmClients | None = None) -> None:
        """`warm`: a process of these will do."""
        self._noted, self._was_signalled = 0, False
        if warm is None:
            self._peer = Peer(command, environment=environment, on_line=self._hear)
        else:
            self._peer = warm.take(command, environment, self._hear)
        if self._is_to_stop:
            self._peer.stop_at_once()
        self._peer.wait_ready()

    def begin(self) -> None:
        """It is about to connect: what the connection before knew is void."""
        self.owned.clear()
        self.positions.clear()
        self.paused.clear()
        self.is_reading = False
        if self._copying is not None:
            self._copying.begin_anew()

    def signal(self, number: signal.Signals) -> None:
        self._was_signalled = True
        with suppress(ProcessLookupError):
            os.killpg(self.peer.pid, number)

    def kill(self) -> None:
        self.peer.kill()
        self.note_mistakes()
        self.is_connected = self.is_reading = False
        self._peer = None

    def stop_at_once(self) -> None:
        """From another thread than that which uses it. Also a process that is just being started, and later ones."""
        self._is_to_stop = True
        if (peer := self._peer) is not None:
            peer.stop_at_once()

    def leave_to(self, warm: WarmClients, trial: str) -> None:
        """Its process may serve another trial, if it can. Nothing of that one is noted here."""
        if self._peer is not None and not self._was_signalled and warm.give_back(self._peer, trial):
            self._peer = None

    def end(self) -> None:
        """After this nothing of it is running."""
        if self._peer is None:
            return
        if self.is_asleep:
            self.signal(signal.SIGCONT)
        if not self._peer.is_closed:  # One that did not answer was killed: that is not its own end, and its id is free.
            if self._peer.is_lost:
                self._peer.kill()
            else:
                self._peer.end()
        self.note_mistakes()

    # --- what it tells ------------------------------------------------------------------------------------------------

    def _hear(self, event: Event, _number: int, _line: bytes) -> None:
        """In the reading thread."""
        if len(self._happened) > HAPPENED_MAX:
            self.problem = self.problem or f"the client tells more than {HAPPENED_MAX:,} things"
            return
        match event:
            case Acknowledged():
                self._happened += [
                    Outcome(
                        at_us=event.at_us,
                        seq=record.seq,
                        fate=Fate.ACKNOWLEDGED,
                        partition=self._sent_to.get(record.seq, 0) * self._topics.partitions + record.partition,
                        offset=record.offset,
                    )
                    for record in event.records
                ]
            case NotAcknowledged():
                fate = Fate(event.event)
                self._happened += [
                    Outcome(at_us=event.at_us, seq=record.seq, fate=fate, code=event.code, reason=event.reason)
                    for record in event.records
                ]
            case Polled():
                self._hear_records(event)
            case Rebalanced():
                self._hear_rebalance(event)
            case Committed():
                told = {self._topics.number(each.topic, each.partition): each.offset for each in event.partitions}
                offsets = told if event.id is None else self._asked_of(told)
                self._happened.append(
                    Commit(
                        at_us=event.at_us,
                        offsets=offsets,
                        told=Told.DONE,
                        is_automatic=event.id is None,
                        member=self.number,
                    )
                )
            case ErrorEvent() if event.id is None:
                self._happened.append(Problem(at_us=event.at_us, reason=event.reason, code=event.code))
            case Fatal():
                self._happened.append(Problem(at_us=event.at_us, reason=event.reason, code=event.code, is_fatal=True))
            case _:
                pass

    def _asked_of(self, told: Mapping[int, int]) -> Mapping[int, int]:
        """What was asked for is what must hold. Of two commits at once the partitions say which one it is."""
        return self.asked_besides if told.keys() & self.asked_besides.keys() else self.asked

    def _hear_records(self, event: Polled) -> None:
        for record in event.records:
            partition, offset = self._topics.number(record.topic, record.partition), record.offset
            self._happened.append(
                Delivered(
                    at_us=event.at_us,
                    partition=partition,
                    offset=offset,
                    value=record.value or record.key,
                    member=self.number,
                )
            )
            self.positions[partition] = offset + 1
            self._seen[partition] = max(self._seen.get(partition, 0), offset + 1)
        if self._copying is not None:
            # A program may have got a record before its partition was taken away, and tell of it afterwards. Whoever
            # has the partition now is given that record too.
            places = [(self._topics.number(each.topic, each.partition), each.offset) for each in event.records]
            self._copying.hear_records(place for place in places if place[0] in self.owned)

    def _hear_rebalance(self, event: Rebalanced) -> None:
        partitions = frozenset(self._topics.number(each.topic, each.partition) for each in event.partitions)
        change = Change(event.event)
        if change is Change.ASSIGNED:
            self.owned |= partitions
        else:
            self.owned -= partitions  # what is paused may stay so: some libraries keep it for the next assignment
            for partition in partitions:
                self.positions.pop(partition, None)
            if self._copying is not None:
                self._copying.revoke(partitions)
        self._happened.append(Rebalance(at_us=event.at_us, change=change, partitions=partitions, member=self.number))

    # --- what went wrong ----------------------------------------------------------------------------------------------

    def note_loss(self, message: str) -> None:
        """The client is gone. Which way is among the mistakes, if the protocol's half has noted one."""
        is_told = any(mistake.rule in (Rule.HANG, Rule.ENDED) for mistake in self._mistakes())
        if not is_told and not any(isinstance(one, Problem) and one.is_fatal for one in self._happened):
            self.problem = message

    def _mistakes(self) -> Sequence[Mistake]:
        return () if self._peer is None else self._peer.mistakes

    def note_mistakes(self) -> None:
        mistakes = list(self._mistakes())
        fresh, self._noted = mistakes[self._noted :], len(mistakes)
        for mistake in fresh:
            if mistake.rule == Rule.HANG:
                command = mistake.message.removeprefix("no answer in time: ")
                self._happened.append(Overdue(at_us=now_us(), command=command, allowed_ms=int(GRACE_S * 1_000)))
            elif mistake.rule == Rule.OUTCOME_MISSING and mistake.message.startswith("flush "):
                # The library's doing, and the outcomes may come later: the trial goes on.
                self._happened.append(FlushedEarly(at_us=now_us(), what=mistake.message))
            elif mistake.rule == Rule.ENDED:
                self._happened.append(_ended(mistake.message, self.peer.last_words(), self.number))
            else:
                self.problem = self.problem or f"the client breaks the protocol: {mistake}"


def _ended(message: str, last_words: str, member: int) -> Ended:
    found = _EXIT.match(message)
    number = int(signal.Signals[found["signal"]]) if found and found["signal"] else 0
    code = int(found["code"]) if found and found["code"] else -number if number else -1
    return Ended(at_us=now_us(), code=code, signal=number, last_words=last_words or message, member=member)
