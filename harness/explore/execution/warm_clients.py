"""Client processes that serve one trial after the other, because a start of theirs costs more than a trial.

A JVM that has just started loads classes and interprets them for a second of processor time, and a trial asks for
little more. The client protocol lets a process connect again after it has closed. So a process that has closed without
a fault rests here until a trial takes it.

Only trials that confirm nothing may take one (`Bench.run`): new ones, and quiet ones. A process may keep something of
an earlier trial that nobody sees: a thread, a timer, a static field. A suspicion that comes of this does not show in
its repetitions, which have processes of their own.

Whoever says anything after its close was answered, or while it rests, is not taken any more, and no trial hears it.
What remains is what an earlier trial's client says after the process was taken, because nobody can tell whose line it
is. An outcome of a record that the new trial has not sent is a mistake then, and that trial proves nothing. An outcome
of a record that is under way, a rebalance, a commit or a reported error counts as the new trial's. So does the end of a
process that dies as it is taken, or of what an earlier trial has left in it. Each of these can bring a suspicion, and
none a finding.

How a process ends says something about the trial that it served last. If it ends here, that trial is over, so what goes
wrong is kept until `end` tells it. Shown by tests/harness/test_harness_explore_warm_clients.py.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from workloads.clients.process.peer import OnLine, Peer

RESTING_MAX: Final = 12  # A JVM of ours has about 100 MB.
TRIALS_MAX: Final = 20  # of one process; then it ends with its trial, which so sees how it ends


class WarmClients:
    """May be used by several threads. `resting_max` processes rest at most; each serves `trials_max` trials."""

    def __init__(self, *, resting_max: int = RESTING_MAX, trials_max: int = TRIALS_MAX) -> None:
        self._resting_max, self._trials_max = resting_max, trials_max
        self._lock = threading.Lock()
        self._resting: list[tuple[Peer, str]] = []  # with the trial that it served last; the last one is the warmest
        self._is_over = False
        self._troubles: list[str] = []

    def __enter__(self) -> WarmClients:
        return self

    def __exit__(self, *details: object) -> None:
        with self._lock:
            self._is_over = True
        self.end()

    def take(self, command: Sequence[str], environment: Mapping[str, str], on_line: OnLine) -> Peer:
        """A process that rests and was started so, or a new one. `on_line` hears it from now on."""
        started_as = tuple(command), dict(environment)
        while (resting := self._next(started_as)) is not None:
            if resting[0].hand_over(on_line):
                return resting[0]
            self._end(*resting)
        return Peer(command, environment=environment, on_line=on_line)

    def give_back(self, peer: Peer, trial: str) -> bool:
        """Whether it rests here now, and is nobody else's business any more. One that does not has to be ended by its
        trial, whose name is `trial`."""
        with self._lock:
            has_room = len(self._resting) < self._resting_max and peer.hand_overs + 1 < self._trials_max
            if self._is_over or not has_room or not peer.leave():
                return False
            self._resting.append((peer, trial))
            return True

    def end(self) -> Sequence[str]:
        """None rests any more. What went wrong between trials since this was asked last."""
        while (resting := self._next()) is not None:
            self._end(*resting)
        with self._lock:
            told, self._troubles = self._troubles, []
        return told

    def _next(self, started_as: tuple[tuple[str, ...], dict[str, str]] | None = None) -> tuple[Peer, str] | None:
        """The warmest that was started so, or any; it rests no more."""
        with self._lock:
            for place in reversed(range(len(self._resting))):
                if started_as in (None, self._resting[place][0].started_as):
                    return self._resting.pop(place)
        return None

    def _end(self, peer: Peer, trial: str) -> None:
        wrong = "" if peer.is_at_rest else "it said something after its close"
        peer.end()
        if peer.mistakes:
            wrong = str(peer.mistakes[0])
        if wrong:
            with self._lock:
                self._troubles.append(f"the client process of {trial}, when it waited for another trial: {wrong}")
