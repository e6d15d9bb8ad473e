"""Which trial comes next, when a suspicion is a finding, and when it is small enough.

The search hands out tasks and learns from their histories. It has no clock and starts nothing, so all that it decides
can be tested against a client that is simulated. In this order:

1. Each program runs quietly, twice. What a quiet run shows needs no disturbance to be a finding. Requests are disturbed
   as soon as each program has run once, and what disturbs none begins beside these runs.
2. A suspicion is tried again beside its control, before anything new; one that can wait (like an earlier one, or one
   that did not show each time) has a fourth of the time of new trials. It is *confirmed* if it shows in each of its
   repetitions and in no control. One that shows in some of them is repeated further, as long as no control shows it,
   and must show in most of all repetitions in the end (repetition.py). Otherwise it is kept as a suspicion. One that
   did not show again is tried with the next trial that shows the same, and then never once only.
3. A confirmed finding is made smaller, until nothing smaller fails or its tries are used up. While new trials may be
   begun, at most a third of the time is for that: a client with several bugs, or one that hangs for minutes, would else
   leave none for the next one.
4. New trials from seven lanes in turn: the systematic pass, several disturbances of it in one run (screening.py), sizes
   at their limits with refusals that last, rare usage (one setting, calls in each order), programs on a cluster that
   does something, programs in which a broker's process dies, two disturbances one after the other, and drawn programs,
   quiet and disturbed. No lane waits for another one to end: which of them meets a bug cannot be known. A lane of sizes
   or of two disturbances that has nothing left gives its turn to the next one, and any other lane to the last two.

Trials in which a broker dies have one cluster for themselves, so at most one of them is handed out at a time, whatever
it is for. Others take its place meanwhile.

Suspicions with the same signature are one: the same oracle and program's role, and the same API that was disturbed
first, or "cluster" where only the cluster did something. A client may have two bugs of one kind that need no request to
be disturbed, so these are told apart by what the cluster did, or by the family of the program, but for not too many.
Shown by tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Final, TypeVar

from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.possible import is_conditional
from harness.explore.generators.cluster_moves import SENDS_MAX, changed, each_change, sends
from harness.explore.generators.extremes import crossed
from harness.explore.generators.pairs import paired
from harness.explore.generators.programs import drawn
from harness.explore.generators.shrink import measure, smaller
from harness.explore.generators.systematic import in_turn, systematic
from harness.explore.generators.usage import setting_of
from harness.explore.oracles.oracles import Kind, Suspicion, suspicions
from harness.explore.search.novelty import Met, features, vary
from harness.explore.search.pace import Pace
from harness.explore.search.repetition import BESIDE_CONTROLS, REPETITIONS, WITHOUT_CONTROLS, Verdict, verdict
from harness.explore.search.screening import AT_ONCE, alone, with_others
from harness.explore.trial.history import REFUSES, History, as_met
from harness.explore.trial.model import Disturbance, Do, How, Program, Role, Trial
from harness.explore.trial.requests_sent import Use, most

CONTROLS: Final = 2
REPETITIONS_NEEDED: Final = 2  # of the FINAL_REPETITIONS of a smaller trial
CHANCES_MAX: Final = 3  # A suspicion is tried with at most so many trials, if it does not show again.
SHRINK_TRIES_MAX: Final = 32
SHRINK_AT_ONCE: Final = 4
NEW_PER_SHRINKING: Final = 2  # in time, as it was reckoned when they began
NEW_PER_WAITING: Final = 4  # likewise
VARIED: Final = 0.6  # This share of the drawn programs is varied.
CORPUS_MAX: Final = 200
FUTILE_MAX: Final = 6  # repetitions that proved nothing, by our own fault; then the suspicion stays one
FINAL_REPETITIONS: Final = 3
CHANGED_DISTURBED: Final = 0.2
WHERES_MAX: Final = 4  # findings of one kind, role and API
TRIES_MAX: Final = 8  # turns of lanes, until one has what need not wait
STANDING: Final = (Kind.STUCK, Kind.HUNG)
# What one defect of a producer leaves in a log has many names. What was acknowledged and is lost is told by itself.
IN_LOG: Final = frozenset(
    (Kind.NOT_COPIED, Kind.TORN, Kind.ABORTED_VISIBLE, Kind.COPIED_TWICE, Kind.DUPLICATED, Kind.REORDERED,
     Kind.WRONG_PLACE, Kind.WRONG_CONTENT)
)  # fmt: skip
LOOK_AHEAD: Final = 24  # trials of a lane, if the first ones are of a kind that has had its share
EACH_OF: Final = 3  # One in so many programs on a cluster that does something is drawn. The list has the others.
OF_CLUSTER: Final = "cluster"


class Lane(StrEnum):
    SINGLE = "one disturbance"
    USAGE = "rare usage"
    CHANGED = "the cluster does something"
    DRAWN = "drawn"
    EXTREME = "sizes at their limits"
    DEATH = "a broker dies"
    PAIR = "two disturbances"


# Of 77 public bugs 19 need one disturbance, about 24 the cluster, and 14 an order of calls or a setting.
TURNS: Final = (
    *(Lane.EXTREME, Lane.SINGLE, Lane.USAGE, Lane.CHANGED, Lane.SINGLE),
    *(Lane.EXTREME, Lane.USAGE, Lane.SINGLE, Lane.CHANGED, Lane.DRAWN),
    *(Lane.SINGLE, Lane.DEATH, Lane.PAIR),
)


USUAL: Final = frozenset(
    (Do.SEND, Do.FLUSH, Do.SUBSCRIBE, Do.ASSIGN, Do.POLL, Do.READ, Do.COMMIT, Do.ARRIVE, Do.WAIT, Do.BEGIN, Do.COPY,
     Do.SEND_OFFSETS, Do.COMMIT_TRANSACTION, Do.SETTLE)
)  # fmt: skip


_TRANSACTIONAL: Final = "transactional"
_OF_READERS: Final = frozenset(
    ("Fetch", "ListOffsets", "OffsetForLeaderEpoch", "OffsetFetch", "OffsetCommit", "FindCoordinator", "JoinGroup",
     "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat", "Metadata", "ApiVersions")
)  # fmt: skip
_OF_MEMBERS: Final = frozenset(("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"))


class Purpose(StrEnum):
    CONTROL = "control"
    NEW = "new"
    REPETITION = "repetition"
    REPETITION_CONTROL = "control of a repetition"
    SHRINKING = "shrinking"

    @property
    def may_be_warm(self) -> bool:
        """Whether its client may have served other trials before. Then it can bring a suspicion, and no finding: what
        confirms, refutes or makes smaller shows it with processes of its own."""
        return self in (Purpose.NEW, Purpose.CONTROL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What makes two suspicions one. `api` is empty if neither the client's requests nor the cluster were touched.
    `where`: what the cluster did, if that was one thing, or else the family of the program."""

    kind: Kind
    role: Role
    api: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.role}{f', {self.api}' if self.api else ''})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    number: int
    trial: Trial
    purpose: Purpose
    signature: Signature | None = None  # It is about the finding with this one.


class Stage(StrEnum):
    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    NOT_REPEATED = "did not show again"
    IN_CONTROL = "shows without the disturbance too"


@dataclass(slots=True, kw_only=True)
class Finding:
    signature: Signature
    first: Trial
    suspicion: Suspicion  # as the smallest trial shows it
    trial: Trial  # the smallest so far
    stage: Stage = Stage.SUSPECTED
    seen_with: list[Trial] = field(default_factory=list)  # other trials with this signature, in order
    shown: int = 0  # in how many
    tried: int = 0  # repetitions of `trial`
    controls_shown: int = 0
    controls_tried: int = 0
    shrink_tries: int = 0
    lasts_s: float = 1.0  # a run that shows it
    futile: int = 0
    rounds: int = 1  # So many rounds of repetitions were begun.
    handed_out: int = 0  # repetitions, each with its control if there is one
    chances: int = 1  # trials that it was tried with: another one if it did not show again
    # Of `first`, when it was confirmed: in how many repetitions it showed, of how many, and what the last one showed.
    confirmed: tuple[int, int, Suspicion, History | None] | None = None
    is_done: bool = False  # nothing is to be tried any more
    history: History | None = None  # The last run of `trial` that showed it left this.
    found_after_s: float = 0.0  # set by whoever has a clock
    # The same trial has shown it besides, and what is repeated for the one is judged for this one too. It has no
    # repetitions of its own.
    beside: Signature | None = None
    _waiting: int = 0  # tasks that are under way
    _candidates: Iterator[Trial] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What was tried, for the page that also says what was not reached."""

    trials: int
    by_api: Mapping[str, int]
    unmet: int  # disturbances that met no request
    left: int  # single disturbances that were planned and not tried
    met: int  # features that some trial met (novelty.py)
    unseen: float  # an estimate of how many more there are at the least
    kept: int  # programs that are kept because they met something new


T = TypeVar("T")
Judge = Callable[[Trial, History], list[Suspicion]]


class Search:
    """`rare`: programs that are tried once each (usage.py). `extreme`: programs at a limit, which are crossed with
    refusals that last (extremes.py). `kept` and `first`, of searches before: programs that are varied, and trials that
    are tried before others. `refused`: properties with a value that the client is known not to take, of a role.
    `transaction_version`: the newest that the cluster has. `at_once`: so many single disturbances may share a run.
    `judge` says what a history shows, `change` puts the cluster's moves into one of the programs, from a seed. `deaths`
    makes of these programs others in which a broker dies; without it none does."""

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        abilities: Collection[str],
        seed: int,
        rare: Sequence[Program] = (),
        extreme: Sequence[Program] = (),
        kept: Sequence[Program] = (),
        first: Sequence[Trial] = (),
        refused: Collection[tuple[Role, str, str]] = (),
        transaction_version: int = 2,
        at_once: int = AT_ONCE,
        judge: Judge = suspicions,
        change: Callable[[Sequence[Program], int], Program] = changed,
        deaths: Callable[[Sequence[Program], int], Iterator[Program]] | None = None,
    ) -> None:
        self._judges, self._change_by, self._transaction_version = judge, change, transaction_version
        self._abilities, self._seed, self._at_once = abilities, seed, at_once
        self._rng = random.Random(seed)
        self._refused = set(refused)  # properties with a value that the client cannot set
        self._programs = list(programs)
        self._numbers = 0
        self._tasks: deque[tuple[Trial, Purpose, Signature | None]] = deque(
            (Trial(program=program), Purpose.CONTROL, None) for _ in range(CONTROLS) for program in programs
        )
        self._uses: dict[str, dict[str, Use]] = {}  # program -> API -> what quiet runs sent, the most seen
        self._controls_left = Counter({program.name: CONTROLS for program in programs})
        self._planned: deque[Trial] = deque()
        self._left_to_plan = [program.name for program in programs]
        self._quiet_runs: dict[str, int] = {}  # program -> the number of its first one
        self._had: set[tuple[str, Disturbance]] = set()  # what programs of a kind are disturbed by
        self._rare = deque(map(self._possible, rare))
        self._extreme = list(map(self._possible, extreme))
        self._crossed: deque[Trial] = deque()
        self._pairs: deque[Trial] = deque()  # with two disturbances
        # The cluster's moves need time, and not mass.
        self._changing = [program for program in programs if sends(program) <= SENDS_MAX]
        self._changes = deque(each_change(self._changing, seed))
        self._deaths = None if deaths is None else deaths(self._changing, seed)
        self._dying: deque[Program] = deque()  # its next ones
        self._is_own_taken = False  # A trial with brokers of its own is under way.
        self._drawn = self._changed = self._turn = 0
        self._begun = 0  # new trials
        self._pace = Pace()  # of new trials
        self._shrinking_s = 0.0  # What smaller trials were to take.
        self._waiting_s = 0.0  # what repetitions took of suspicions that can wait
        self._tried: Counter[str] = Counter()
        self._trials = self._unmet = 0
        self._met = Met()
        self._corpus: list[Program] = list(kept)[-CORPUS_MAX:]  # drawn programs that met something new
        self._first: deque[Trial] = deque(first)  # They are tried before whatever the lanes have.
        self._accused: set[str] = set()  # names of programs that show a finding without a disturbance
        self.findings: dict[Signature, Finding] = {}
        self.problems: list[str] = []  # trials that proved nothing, by our own fault

    @property
    def reach(self) -> Reach:
        return Reach(
            trials=self._trials,
            by_api=dict(self._tried),
            unmet=self._unmet,
            left=sum(self.not_tried.values()),
            met=self._met.count,
            unseen=self._met.unseen,
            kept=len(self._corpus),
        )

    @property
    def kept(self) -> Sequence[Program]:
        """Drawn programs that met something new, with those of searches before."""
        return self._corpus

    @property
    def not_tried(self) -> Mapping[str, int]:
        """By API, the single disturbances that are planned and were not tried."""
        left = (*self._planned, *self._crossed)
        return Counter(trial.disturbance.api for trial in left if trial.disturbance is not None)

    @property
    def confirmed(self) -> list[Finding]:
        return [finding for finding in self.findings.values() if finding.stage is Stage.CONFIRMED]

    # --- what comes next ----------------------------------------------------------------------------------------------

    def next_task(self, *, may_be_new: bool = True) -> Task | None:
        """None if nothing may be begun now: `learn` of a task that is under way may bring something. Without
        `may_be_new` only findings are confirmed and made smaller."""
        if (due := self._due(may_be_new=may_be_new)) is not None:
            return due
        if not may_be_new or self._shrinking_s * NEW_PER_SHRINKING <= self._pace.spent_s:
            for finding in self.findings.values():
                if self._is_possible_now(finding.trial) and (candidate := self._next_smaller(finding)) is not None:
                    self._shrinking_s += finding.lasts_s
                    return self._task(candidate, Purpose.SHRINKING, finding.signature)
        if (
            due := self._due(may_be_new=may_be_new)
        ) is not None:  # the last repetitions of one that became as small as it gets
            return due
        if not may_be_new:
            return None
        self._plan()
        if not self._first and not (self._uses and self._programs):
            return None
        new = self._first.popleft() if self._first else self._new()
        if new is None:
            return None
        self._pace.note_begun(new.program)
        return self._task(new, Purpose.NEW, None)

    def _due(self, *, may_be_new: bool) -> Task | None:
        """The first of the tasks that wait and may begin now. While there are new trials, suspicions that can wait have
        a fourth of the time of these: a client that does one thing wrong does it under many disturbances."""
        is_late = may_be_new and self._waiting_s * NEW_PER_WAITING > self._pace.spent_s
        for place, (trial, purpose, signature) in enumerate(self._tasks):
            if is_late and signature is not None and self._can_wait(signature):
                continue
            if self._is_possible_now(trial):
                del self._tasks[place]
                return self._task(trial, purpose, signature)
        return None

    def _is_possible_now(self, trial: Trial) -> bool:
        return not (self._is_own_taken and trial.program.has_own_brokers) and not self._pace.must_wait(trial.program)

    def _new(self) -> Trial | None:
        """None if whatever the lanes have next had better wait, and something is under way meanwhile."""
        for _ in range(TRIES_MAX):
            self._begun += 1
            trial = self._of_lane(self._next_lane())
            if trial is not None and not self._had_better_wait(trial.program):
                return trial
        return None if self._pace.is_any_under_way else trial or self._draw()

    def _of_lane(self, lane: Lane) -> Trial | None:
        if lane is Lane.DEATH and self._deaths is not None:
            self._dying.extend(islice(self._deaths, LOOK_AHEAD - len(self._dying)))
            if self._dying:
                dying = self._take(self._dying, lambda program: program)
                return None if dying is None else Trial(program=dying)
            self._deaths = None
        if lane is Lane.EXTREME:
            return self._take(self._crossed, lambda trial: trial.program)
        if lane is Lane.PAIR:
            return self._take(self._pairs, lambda trial: trial.program)
        if lane is Lane.SINGLE and self._planned:
            first = self._take(self._planned, lambda trial: trial.program)
            return None if first is None else with_others(first, self._planned, self._stays_alone, self._at_once)
        if lane is Lane.USAGE and self._rare:
            program = self._take(self._rare, lambda program: program)
            if program is None:
                return None
            return Trial(program=program if setting_of(program) else self._possible(program))
        is_changed = lane is Lane.CHANGED or (lane is not Lane.DRAWN and self._begun % 2 == 0)
        return (self._change() if is_changed and self._changing else None) or self._draw()

    def _had_better_wait(self, program: Program) -> bool:
        """Whether a new trial of it had better come later than others."""
        return self._pace.has_had_its_share(program) or self._pace.must_wait(program)

    def _take(self, queue: deque[T], program_of: Callable[[T], Program]) -> T | None:
        """The first one that need not wait. None if there is none among the first."""
        for place, each in enumerate(islice(queue, LOOK_AHEAD)):
            if not self._had_better_wait(program_of(each)):
                del queue[place]
                return each
        return None

    def _stays_alone(self, trial: Trial) -> bool:
        """Whether something is known of its program or API that any run with it may show."""
        assert trial.disturbance is not None
        role, api = trial.program.role, trial.disturbance.api
        return trial.program.name in self._accused or any(
            (each.role, each.api) == (role, api) and one.stage in (Stage.SUSPECTED, Stage.CONFIRMED)
            for each, one in self.findings.items()
        )

    def _next_lane(self) -> Lane:
        while True:
            lane = TURNS[self._turn % len(TURNS)]
            self._turn += 1
            may_die = self._deaths is not None and not self._is_own_taken
            is_there = {
                Lane.SINGLE: bool(self._had),
                Lane.EXTREME: bool(self._crossed),
                Lane.PAIR: bool(self._pairs),
                Lane.DEATH: may_die,
            }.get(lane, True)
            if is_there:
                return lane

    def _task(self, trial: Trial, purpose: Purpose, signature: Signature | None) -> Task:
        self._numbers += 1
        self._is_own_taken |= trial.program.has_own_brokers
        self._pace.note_handed_out(self._numbers, trial.program)
        if purpose is Purpose.CONTROL:
            self._quiet_runs.setdefault(trial.program.name, self._numbers)
        if signature is not None:
            self.findings[signature]._waiting += 1
        return Task(number=self._numbers, trial=trial, purpose=purpose, signature=signature)

    def _plan(self) -> None:
        """One quiet run of each program says what can be disturbed, and the programs are planned together. Until the
        slowest one has ended there are trials that disturb no request. One that many trials have overtaken is not
        waited for any more, and is planned when it has ended."""
        names = [name for name in self._left_to_plan if self._controls_left[name] < CONTROLS]
        if not names or any(self._may_end_soon(name) for name in self._left_to_plan if name not in names):
            return
        self._left_to_plan = [name for name in self._left_to_plan if name not in names]
        programs = [(number, one) for number, one in enumerate(self._programs) if one.name in names]
        later = self._planned
        self._planned = deque(in_turn([later, self._single(programs)]))
        self._pairs.extend(
            paired([one for _, one in programs], lambda program: self._uses.get(program.name, {}), self._seed)
        )
        self._put_last()
        known = [one for one in self._extreme if self._uses_of(one) or not self._left_to_plan]
        self._extreme = [one for one in self._extreme if one not in known]
        self._crossed.extend(crossed(known, self._uses_of, self._seed))

    def _may_end_soon(self, name: str) -> bool:
        number = self._quiet_runs.get(name)
        return number is None or not self._pace.is_overtaken(number)

    def _single(self, programs: Sequence[tuple[int, Program]]) -> list[Trial]:
        """Their single disturbances, the programs in turn. Each has its own order, and what another program of the same
        kind has had already comes later, so that little time reaches much. A copier is a member of a group and a
        producer in one, so what those have comes later for it. So do programs of mass: what they are there for is
        crossed with refusals that last, and what is disturbed once meets little of them."""
        passes = {
            program.name: self._systematic(program, self._uses.get(program.name, {}), self._seed * 1_009 + number)
            for number, program in programs
        }
        copiers = [program.name for _, program in programs if program.role is Role.COPIER]
        massive = [program.name for _, program in programs if sends(program) > SENDS_MAX]
        others = [one for name, one in passes.items() if name not in (*copiers, *massive)]
        first, again = self._first_of_kind(in_turn(others))
        own, later = self._first_of_kind(in_turn([passes[name] for name in copiers]))
        last = [passes[name] for name in massive]
        return [*in_turn([first[::2], first[1::2], own]), *in_turn([again[::2], again[1::2], later, *last])]

    def _first_of_kind(self, trials: Sequence[Trial]) -> tuple[list[Trial], list[Trial]]:
        """Those that no program of their kind has had, and the others. Who is a member meets what is disturbed in a
        group of several, if there is one: a member alone has nobody to wait for, and shows less."""
        of_several = {kind_of_single(trial) for trial in trials if trial.program.members > 1}
        first: list[Trial] = []
        again: list[Trial] = []
        for trial in trials:
            assert trial.disturbance is not None
            key = kind_of_single(trial)
            is_alone = trial.program.members == 1 and trial.disturbance.api in _OF_MEMBERS and key in of_several
            (again if key in self._had or is_alone else first).append(trial)
            if not is_alone:
                self._had.add(key)
        return first, again

    def _change(self) -> Trial | None:
        """A program on a cluster that does something: each thing once, and drawn ones, now and then with a disturbance
        too."""
        self._changed += 1
        if self._changes and self._changed % EACH_OF:
            each = self._take(self._changes, lambda program: program)
            return None if each is None else Trial(program=each)
        program = self._change_by(self._changing, self._seed * 1_000_003 + self._changed)
        if self._rng.random() < CHANGED_DISTURBED:
            return self._disturbed(program)
        return Trial(program=program)

    def _systematic(self, program: Program, uses: Mapping[str, Use], seed: int) -> list[Trial]:
        return systematic(program, uses, seed, transaction_version=self._transaction_version)

    def _disturbed(self, program: Program) -> Trial:
        """The program with one disturbance of what programs of its kind send."""
        single = self._systematic(program, self._uses_of(program), self._rng.randrange(1 << 30))
        return self._rng.choice(single) if single else Trial(program=program)

    def _draw(self) -> Trial:
        """A drawn program, or one like a program that met something new; every second time with a disturbance of what
        programs of its role send."""
        self._drawn += 1
        program = drawn(self._abilities, self._seed * 1_000_003 + self._drawn)
        if program is None:
            return self._planned.popleft() if self._planned else self._disturbed(self._rng.choice(self._programs))
        if self._corpus and self._rng.random() < VARIED:
            # The later half: what was kept last has been varied least.
            program = vary(self._rng.choice(self._corpus[len(self._corpus) // 2 :]), self._rng, program.name)
        program = self._possible(program)
        return Trial(program=program) if self._rng.random() < 0.5 else self._disturbed(program)

    def _possible(self, program: Program) -> Program:
        """Without what the client has refused to set: it would be refused again, and the trial would prove nothing."""
        kept = {name: value for role, name, value in wishes(program) if (role, name, value) not in self._refused}
        return program if len(kept) == len(program.properties) else replace(program, properties=kept)

    def _uses_of(self, program: Program) -> dict[str, Use]:
        merged: dict[str, Use] = {}
        for each in self._programs:
            if each.role is program.role and each.is_transactional == program.is_transactional:
                merged = most(merged, self._uses.get(each.name, {}))
        return merged

    def settle(self) -> None:
        """No smaller trials any more: what is left is to repeat the smallest ones."""
        for finding in self.findings.values():
            finding.shrink_tries = SHRINK_TRIES_MAX

    def conclude(self) -> None:
        """The search is over. A smaller trial that was not repeated enough is none that was confirmed, so it is given
        up for the one that was."""
        for finding in self.confirmed:
            if finding.trial is not finding.first and finding.shown < REPETITIONS_NEEDED:
                _go_back(finding)

    # --- what was learnt ----------------------------------------------------------------------------------------------

    def learn(
        self, task: Task, history: History, uses: Mapping[str, Use], *, duration_s: float = 1.0
    ) -> list[Suspicion]:
        """`uses`: what the client sent, by API. Returns what the history shows."""
        self._trials += 1
        self._pace.note_back(task.number)
        if task.purpose in (Purpose.NEW, Purpose.CONTROL):
            self._pace.note_ended(task.trial.program, duration_s)
        if task.trial.program.has_own_brokers:
            self._is_own_taken = False
        if task.purpose is Purpose.CONTROL:
            name = task.trial.program.name
            self._controls_left[name] -= 1
            self._uses[name] = most(self._uses.get(name, {}), uses)
        if task.signature is not None:
            self.findings[task.signature]._waiting -= 1
        if history.problem:
            program = task.trial.program
            if history.refused or history.problem.startswith(REFUSES):
                self._crossed = deque(each for each in self._crossed if each.program.name != program.name)
                if task.purpose is Purpose.CONTROL:
                    self._give_up(program)
            refused = refused_by(program, history)
            if refused and task.purpose in (
                Purpose.NEW,
                Purpose.CONTROL,
            ):  # what a client cannot do is no trouble of ours
                self._refused.add((program.role, refused, program.properties.get(refused, "")))
            else:
                self.problems.append(f"{task.trial}: {history.problem}")
            self._judge(task, None, history)
            return []
        if task.trial.besides:
            return self._learn_screened(task.trial, history)
        disturbance = task.trial.disturbance
        is_new = self._met.add(features(history))
        is_kept = task.purpose is Purpose.NEW and task.trial.program.name not in self._uses
        if is_new and is_kept and sends(task.trial.program) <= SENDS_MAX:
            self._corpus.append(task.trial.program)
            del self._corpus[:-CORPUS_MAX]
        if disturbance is not None:
            self._tried[disturbance.api] += 1
            self._unmet += history.disturbed == 0
            if history.disturbed == 0 and not self._try_sooner(task):
                self._leave_out(task.trial)
        found = self._judges(task.trial, history)
        known = None if task.signature is None else self.findings[task.signature]
        if known is not None and found:
            known.lasts_s = duration_s
        repeats = (Purpose.REPETITION, Purpose.REPETITION_CONTROL)
        if known is not None and task.purpose in repeats and self._can_wait(known.signature):
            self._waiting_s += duration_s
        if disturbance is not None and history.disturbed == 0 and task.purpose is Purpose.NEW:
            # Nothing was disturbed in truth. What it shows is told as what the program shows alone.
            task = replace(task, trial=replace(task.trial, disturbance=None, then=None))
        elif task.purpose is Purpose.NEW:
            task = replace(task, trial=as_met(task.trial, history))
        if task.purpose in (Purpose.NEW, Purpose.CONTROL):
            worst: Signature | None = None
            for suspicion in found:
                new = self._suspect(task.trial, suspicion, history, beside=worst, lasts_s=duration_s)
                worst = worst or new
            if task.purpose is Purpose.CONTROL and any(one.kind in STANDING for one in found):
                self._leave_out_control(task.trial.program)  # The repetitions say what it would.
        else:
            self._judge(task, found, history)
        return found

    def _learn_screened(self, trial: Trial, history: History) -> list[Suspicion]:
        """What several of them show at once accuses none, and each is tried alone. So is one that met nothing, because
        the others may have kept the client from asking."""
        self._met.add(features(history))
        found = self._judges(trial, history)
        for one, met in zip(alone(trial), (history.disturbed, *history.disturbed_besides), strict=True):
            if found or not met:
                self._first.append(one)
            else:
                assert one.disturbance is not None
                self._tried[one.disturbance.api] += 1
        return found

    def _give_up(self, program: Program) -> None:
        """The client cannot do this program, as it says when it is to begin. Nothing that is made of it can show
        anything, and what the cluster does meanwhile would even excuse the refusal as an error that passes."""
        self._programs = [each for each in self._programs if each.name != program.name]
        self._changing = [each for each in self._changing if each.name != program.name]
        self._changes = deque(each for each in self._changes if not each.name.startswith(f"{program.name}, "))
        self._left_to_plan = [name for name in self._left_to_plan if name != program.name]
        self._leave_out_control(program)

    def _leave_out_control(self, program: Program) -> None:
        for each in [one for one in self._tasks if one[1] is Purpose.CONTROL and one[0].program.name == program.name]:
            self._tasks.remove(each)
            self._controls_left[program.name] -= 1

    def _try_sooner(self, task: Task) -> bool:
        """Whether the same disturbance comes next after fewer requests. What a client asks for every so often it asks
        for less often in a run that is quicker than the quiet one was, so that nothing may be left to disturb. An error
        that not every request can get may have met nothing because of that, so it has one more try and not several."""
        unmet = task.trial.disturbance
        assert unmet is not None
        if task.purpose is not Purpose.NEW or unmet.skip < 2:
            return False
        skip = 1 if _depends_on_request(unmet) else unmet.skip // 2
        queue = self._planned if task.trial.then is None else self._pairs
        queue.appendleft(replace(task.trial, disturbance=replace(unmet, skip=skip)))
        return True

    def _leave_out(self, trial: Trial) -> None:
        """An error that met no request, and that no broker gives to every request: requests of this kind of program do
        not ask for it, so it is not planned for others of the kind."""
        unmet = trial.disturbance
        assert unmet is not None
        if _depends_on_request(unmet):
            self._planned = deque(each for each in self._planned if not _is_like(each, trial))
            self._crossed = deque(each for each in self._crossed if not each.disturbance or not _is_like(each, trial))

    def _suspect(
        self,
        trial: Trial,
        suspicion: Suspicion,
        history: History | None,
        *,
        beside: Signature | None = None,
        lasts_s: float = 1.0,
    ) -> Signature | None:
        """Its signature, if it is to be repeated now. `beside`: what the same trial has shown that is worse, and is
        repeated. One run shows whether either shows again, so there are no further runs for this one."""
        signature = self._told_apart(signature_of(trial, suspicion), trial.program)
        known = self.findings.get(signature)
        if known is not None:
            known.seen_with.append(trial)
            if known.stage is Stage.NOT_REPEATED and known.chances < CHANCES_MAX:
                self._try_anew(known, trial, suspicion, history)
            return None
        for quiet in self._like(replace(signature, api="")):
            if quiet.stage is Stage.CONFIRMED and _is_shown_by(quiet, trial.program):
                quiet.seen_with.append(trial)  # it needs no disturbance
                return None
        finding = Finding(
            signature=signature,
            first=trial,
            trial=trial,
            suspicion=suspicion,
            history=history,
            beside=beside,
            lasts_s=lasts_s,
        )
        self.findings[signature] = finding
        if beside is None:
            self._repeat(finding)
        return signature

    def _can_wait(self, signature: Signature) -> bool:
        """Whether it is like an earlier one, or did not show as it should when it was repeated first. What is confirmed
        cannot: its smallest trial counts only if it is repeated before the end."""
        finding = self.findings[signature]
        is_late = finding.rounds > 1 or finding.chances > 1 or self._is_like_another(signature)
        return finding.stage is Stage.SUSPECTED and is_late

    def _is_like_another(self, signature: Signature) -> bool:
        """Whether one of its role that may have the same cause was suspected before. It need not have shown again: then
        this kind shows now and then, and takes most repetitions of all. One that its control refuted does not count:
        what the control shows is the bug itself, and it is suspected next."""
        for each, one in self.findings.items():
            if each == signature:
                return False
            is_alike = each.role is signature.role and _are_alike(each.kind, signature.kind)
            if is_alike and one.stage is not Stage.IN_CONTROL:
                return True
        return False

    def _like(self, signature: Signature) -> list[Finding]:
        """Of this kind, role and API, wherever they showed."""
        return [one for each, one in self.findings.items() if replace(each, where=signature.where) == signature]

    def _told_apart(self, signature: Signature, program: Program) -> Signature:
        """Itself, or that of a finding which this one is most likely: one whose smallest trial has nothing rare that
        this program has not, or the first one, if there are many already."""
        if signature in self.findings or signature.api not in ("", OF_CLUSTER):
            return signature
        like = self._like(signature)
        if like and self._pace.is_slow(program):
            return like[0].signature
        shown = [one for one in like if one.stage is Stage.CONFIRMED and _is_within(one.trial.program, program)]
        if shown or len(like) >= WHERES_MAX:
            return (shown or like)[0].signature
        return signature

    def _try_anew(self, finding: Finding, trial: Trial, suspicion: Suspicion, history: History | None) -> None:
        """With another trial: the one before may have shown something else, or something that seldom shows."""
        finding.first = finding.trial = trial
        finding.suspicion, finding.history = suspicion, history
        finding.stage, finding.is_done, finding.rounds, finding.handed_out = Stage.SUSPECTED, False, 1, 0
        finding.shown = finding.tried = finding.controls_shown = finding.controls_tried = finding.futile = 0
        finding.chances += 1
        finding.beside = None
        self._repeat(finding)

    def _repeat(self, finding: Finding) -> None:
        """The next repetitions of its round. Beside controls first one pair, because one control is enough to refute
        it, and then the others."""
        is_first = not finding.first.is_quiet and finding.handed_out < (finding.rounds - 1) * REPETITIONS + 1
        for _ in range(1 if is_first else finding.rounds * REPETITIONS - finding.handed_out):
            finding.handed_out += 1
            self._tasks.append((finding.first, Purpose.REPETITION, finding.signature))
            if not finding.first.is_quiet:
                self._tasks.append((finding.first.control, Purpose.REPETITION_CONTROL, finding.signature))

    def _judge(self, task: Task, found: Sequence[Suspicion] | None, history: History) -> None:
        """A repetition, its control, or a try of something smaller has ended. `found` is None if it proved nothing."""
        if task.signature is None:
            return
        finding = self.findings[task.signature]
        shown = _of_kind(finding, found)
        if task.purpose is Purpose.SHRINKING:
            finding.shrink_tries += 1
            if shown is not None and measure(task.trial) < measure(finding.trial):
                finding.trial, finding.suspicion, finding.history = task.trial, shown, history
                finding.shown = finding.tried = 0
                finding._candidates = None
            return
        if found is None:
            finding.futile += 1
            if finding.futile <= FUTILE_MAX:
                self._tasks.append((task.trial, task.purpose, task.signature))
            elif finding.stage is Stage.SUSPECTED:
                for each in (finding, *self._besides(finding)):
                    each.stage, each.is_done = Stage.NOT_REPEATED, True
            return
        besides = self._besides(finding) if finding.stage is Stage.SUSPECTED else []
        for each in (finding, *besides):
            _count(each, task.purpose, _of_kind(each, found), history)
        self._check_smallest(finding)
        if finding.stage is not Stage.SUSPECTED:
            return
        due = finding.rounds * REPETITIONS
        is_refuted = all(each.controls_shown for each in (finding, *besides))
        is_counted = finding.tried >= finding.handed_out and (
            finding.first.is_quiet or finding.controls_tried >= finding.handed_out
        )
        if is_counted and finding.handed_out < due and not is_refuted:
            self._repeat(finding)
        elif is_refuted or is_counted:
            self._decide(finding)
            if finding.stage is not Stage.SUSPECTED:  # else all of them are repeated further
                for each in besides:
                    self._decide_beside(each, finding)

    def _besides(self, finding: Finding) -> list[Finding]:
        """What the same trial has shown besides, and is not decided yet."""
        return [
            each
            for each in self.findings.values()
            if each.beside == finding.signature and each.stage is Stage.SUSPECTED
        ]

    def _decide_beside(self, finding: Finding, worst: Finding) -> None:
        """By the same repetitions. It is made small by itself only if the worse one is no finding. One that they do not
        decide is tried with the next trial that shows it."""
        rule = WITHOUT_CONTROLS if finding.first.is_quiet else BESIDE_CONTROLS
        found = verdict(rule, worst.rounds, finding.shown, is_first_trial=worst.chances == 1)
        if finding.controls_shown:
            finding.stage = Stage.IN_CONTROL
        elif found is Verdict.FINDING:
            finding.stage = Stage.CONFIRMED
            finding.confirmed = finding.shown, finding.tried, finding.suspicion, finding.history
        else:
            finding.stage = Stage.NOT_REPEATED
        finding.is_done = finding.stage is not Stage.CONFIRMED or worst.stage is Stage.CONFIRMED

    def _put_last(self) -> None:
        """What is planned for programs that show a finding without any disturbance: whatever disturbs them, they show
        the same. Other programs of their role meet the same disturbances and show what these would hide."""
        self._planned = deque(sorted(self._planned, key=lambda trial: trial.program.name in self._accused))
        self._pairs = deque(sorted(self._pairs, key=lambda trial: trial.program.name in self._accused))
        self._changes = deque(sorted(self._changes, key=lambda each: each.name.rpartition(", ")[0] in self._accused))

    def _check_smallest(self, finding: Finding) -> None:
        """One that was made too small shows only now and then: the trial that was confirmed counts instead."""
        is_repeated = finding.trial is not finding.first and finding.tried >= FINAL_REPETITIONS
        if finding.confirmed is not None and is_repeated and finding.shown < REPETITIONS_NEEDED:
            _go_back(finding)

    def _decide(self, finding: Finding) -> None:
        rule = WITHOUT_CONTROLS if finding.first.is_quiet else BESIDE_CONTROLS
        found = verdict(rule, finding.rounds, finding.shown, is_first_trial=finding.chances == 1)
        if finding.controls_shown:
            finding.stage = Stage.IN_CONTROL
            self._tasks = deque(task for task in self._tasks if task[2] != finding.signature)
            self._suspect(finding.first.control, finding.suspicion, finding.history)
        elif found is Verdict.MORE:
            finding.rounds += 1
            self._repeat(finding)
            return
        elif found is Verdict.FINDING:
            finding.stage = Stage.CONFIRMED
            finding.confirmed = finding.shown, finding.tried, finding.suspicion, finding.history
            if finding.first.is_quiet:
                if finding.signature.kind in STANDING:
                    self._pace.note_hangs(finding.first.program)
                self._accused.add(finding.first.program.name)
                self._put_last()
        else:
            finding.stage = Stage.NOT_REPEATED
        finding.is_done = finding.stage is not Stage.CONFIRMED

    def _next_smaller(self, finding: Finding) -> Trial | None:
        """The next smaller trial. A few at once: most of them do not fail, so the next one is seldom tried in vain."""
        if finding.stage is not Stage.CONFIRMED or finding.is_done or finding._waiting >= SHRINK_AT_ONCE:
            return None
        if finding.shrink_tries < SHRINK_TRIES_MAX:
            if finding._candidates is None:
                finding._candidates = smaller(finding.trial)
            candidate = next(finding._candidates, None)
            if candidate is not None:
                return candidate
        if finding._waiting:
            return None
        finding.is_done = True
        if finding.trial is not finding.first:
            self._tasks.extend((finding.trial, Purpose.REPETITION, finding.signature) for _ in range(FINAL_REPETITIONS))
        return None


def _are_alike(kind: Kind, other: Kind) -> bool:
    return kind is other or {kind, other} <= IN_LOG


def _of_kind(finding: Finding, found: Sequence[Suspicion] | None) -> Suspicion | None:
    return next((one for one in found or () if one.kind is finding.signature.kind), None)


def _count(finding: Finding, purpose: Purpose, shown: Suspicion | None, history: History) -> None:
    """One repetition, or the control of one."""
    if purpose is Purpose.REPETITION_CONTROL:
        finding.controls_tried += 1
        finding.controls_shown += shown is not None
        return
    finding.tried += 1
    finding.shown += shown is not None
    if shown is not None:
        finding.suspicion, finding.history = shown, history


def _go_back(finding: Finding) -> None:
    """To the trial that was confirmed."""
    assert finding.confirmed is not None
    finding.trial = finding.first
    finding.shown, finding.tried, finding.suspicion, finding.history = finding.confirmed


def signature_of(trial: Trial, suspicion: Suspicion) -> Signature:
    program = trial.program
    if trial.disturbance is not None:
        return Signature(kind=suspicion.kind, role=program.role, api=trial.disturbance.api)
    if not program.changes:
        return Signature(kind=suspicion.kind, role=program.role, api="", where=family_of(program))
    did = {str(move.do) for move in program.changes}
    if str(Do.RECREATE) in did:
        did.discard(str(Do.MOVE_LEADER))  # It makes the epochs of before higher (cluster_moves.py).
    return Signature(kind=suspicion.kind, role=program.role, api=OF_CLUSTER, where=did.pop() if len(did) == 1 else "")


def wishes(program: Program) -> list[tuple[Role, str, str]]:
    """Its settings, as `Search` has them if they are refused."""
    return [(program.role, name, value) for name, value in program.properties.items()]


def is_about(program: Program, refused: Collection[tuple[Role, str, str]]) -> bool:
    """Whether it is there for a setting that is refused."""
    name = setting_of(program)
    return bool(name) and (program.role, name, program.properties[name]) in refused


def rare_of(program: Program) -> set[Do]:
    """What it does, or the cluster, that most programs have not."""
    return {move.do for move in program.moves} - USUAL


def _is_within(smaller_one: Program, program: Program) -> bool:
    """Whether a program has all that is rare in another one, the setting that the other one tries too."""
    name = setting_of(smaller_one)
    has_setting = not name or smaller_one.properties[name] == program.properties.get(name)
    has_setting = has_setting and smaller_one.is_one_by_one <= program.is_one_by_one
    return has_setting and rare_of(smaller_one) <= rare_of(program)


def family_of(program: Program) -> str:
    """Its name without the setting that it tries, and without its number among its like."""
    name = program.name.removesuffix(f", {setting_of(program)}={program.properties.get(setting_of(program), '')}")
    return name.rstrip("0123456789 ")


def kind_of_single(trial: Trial) -> tuple[str, Disturbance]:
    """Two trials with the same kind ask the same of a client. An idempotent producer keeps a state that another one
    does not have, and one with transactions has another one."""
    program, disturbance = trial.program, trial.disturbance
    assert disturbance is not None
    what = replace(disturbance, skip=min(1, disturbance.skip))
    if disturbance.how is How.HELD:
        return str(program.role), what  # A copier's next transaction begins later, and may be the one that is torn.
    if program.role is Role.COPIER:
        is_reading = disturbance.api in _OF_READERS
        return (str(Role.CONSUMER) if is_reading else _TRANSACTIONAL), what
    idempotence = program.properties.get("enable.idempotence", "")
    return (_TRANSACTIONAL if program.is_transactional else f"{program.role} {idempotence}".strip()), what


def refused_by(program: Program, history: History) -> str:
    """The property that the client cannot set, as far as that is known: it says so, the program is there for that
    property only, or the client's words name one of the program's properties and no other one."""
    if history.refused or not history.problem.startswith(REFUSES):
        return history.refused
    named = {
        name
        for name in program.properties
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", history.problem.removeprefix(REFUSES))
    }
    return setting_of(program) or (named.pop() if len(named) == 1 else "")


def _depends_on_request(disturbance: Disturbance) -> bool:
    return disturbance.how.is_error and is_conditional(API_KEYS[disturbance.api], disturbance.code)


def _is_like(trial: Trial, other: Trial) -> bool:
    """The same error to the same API, in a program of the same kind."""
    one, two = trial.disturbance, other.disturbance
    assert one is not None
    assert two is not None
    kind = (trial.program.role, trial.program.is_transactional)
    is_same_kind = kind == (other.program.role, other.program.is_transactional)
    return is_same_kind and (one.api, one.how, one.code) == (two.api, two.how, two.code)


def _is_shown_by(finding: Finding, program: Program) -> bool:
    """Whether this program has shown it, or the one whose moves it has besides the cluster's. What another program
    shows may be another bug."""
    shown = (finding.first, *finding.seen_with)
    return any(program.name.startswith(trial.program.name) for trial in shown)
