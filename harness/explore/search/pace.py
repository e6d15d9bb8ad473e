"""How long new trials take, by kind of program, and which kind has had more than its share of the time.

A client that hangs in each transaction makes such a trial take two minutes, where others take five seconds. A few of
them side by side would leave no room for anything else. So a kind whose trials take much longer than those of another
kind gets no more time than the ordinary kinds have on average, and none any more when it is known to hang without a
disturbance. Such trials may have a whole processor each, so at most two of them take place at once, whatever they are
for. Clients without such a kind do not notice. Pure. Shown by tests/harness/test_harness_explore_pace.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from harness.explore.trial.model import Program, Role

Kind = tuple[Role, bool]  # the role of a program, and whether it is transactional
SLOW: Final = 4.0  # A kind is slow if its trials take so many times as long as those of the quickest one.
KNOWN: Final = 3  # so many trials say how long those of a kind take
UNKNOWN_S: Final = 1.0
LONG_S: Final = 40.0  # Ordinary trials end sooner, on a busy host too.
LONG_AT_ONCE: Final = 2
OVERTAKEN: Final = 24  # trials that ended since it began; on a busy host an ordinary one sees fewer


def kind_of(program: Program) -> Kind:
    return program.role, program.is_transactional


class Pace:
    def __init__(self) -> None:
        self._ended: Counter[Kind] = Counter()
        self._lasted_s: defaultdict[Kind, float] = defaultdict(float)
        self._spent_s: defaultdict[Kind, float] = defaultdict(float)  # as it was reckoned when each trial began
        self.spent_s = 0.0  # likewise, of all
        self._hangs: set[Kind] = set()
        self._under_way: dict[int, tuple[Kind, int]] = {}  # with how many had ended when it began
        self._back = 0  # trials that have ended, whatever they were for

    def note_begun(self, program: Program) -> None:
        kind = kind_of(program)
        self._spent_s[kind] += self._mean_s(kind)
        self.spent_s += sum(self._lasted_s.values()) / self._ended.total() if self._ended else UNKNOWN_S

    def note_ended(self, program: Program, duration_s: float) -> None:
        kind = kind_of(program)
        self._ended[kind] += 1
        self._lasted_s[kind] += duration_s

    def note_hangs(self, program: Program) -> None:
        """It is confirmed that a program of this kind hangs without a disturbance."""
        self._hangs.add(kind_of(program))

    def note_handed_out(self, number: int, program: Program) -> None:
        """Any trial of it has begun, whatever it is for."""
        self._under_way[number] = kind_of(program), self._back

    def note_back(self, number: int) -> None:
        """It has ended."""
        del self._under_way[number]
        self._back += 1

    def is_overtaken(self, number: int) -> bool:
        """Whether so many trials have ended since it began that nobody should wait for it."""
        return number in self._under_way and self._back - self._under_way[number][1] >= OVERTAKEN

    @property
    def is_any_under_way(self) -> bool:
        return bool(self._under_way)

    def must_wait(self, program: Program) -> bool:
        """Whether it would be one long trial too many side by side. A kind of which nothing has ended is long if one
        of it was overtaken: an ordinary kind may have a single trial that stands still."""
        long = {
            kind
            for number, (kind, _) in self._under_way.items()
            if self._mean_s(kind) >= LONG_S or (not self._ended[kind] and self.is_overtaken(number))
        }
        if kind_of(program) not in long:
            return False
        return sum(kind in long for kind, _ in self._under_way.values()) >= LONG_AT_ONCE

    def is_slow(self, program: Program) -> bool:
        return kind_of(program) in self._slow_and_ordinary()[0]

    def has_had_its_share(self, program: Program) -> bool:
        """Whether a trial of this program had better wait for others."""
        kind = kind_of(program)
        slow, ordinary = self._slow_and_ordinary()
        if kind not in slow:
            return False
        average_s = sum(self._spent_s[each] for each in ordinary) / len(ordinary)
        return kind in self._hangs or self._spent_s[kind] > average_s

    def _slow_and_ordinary(self) -> tuple[list[Kind], list[Kind]]:
        known = [kind for kind, ended in self._ended.items() if ended >= KNOWN]
        slow_s = SLOW * min(map(self._mean_s, known), default=0.0)
        slow = [each for each in known if self._mean_s(each) > slow_s]
        return slow, [each for each in known if each not in slow]

    def _mean_s(self, kind: Kind) -> float:
        return self._lasted_s[kind] / self._ended[kind] if self._ended[kind] else UNKNOWN_S
