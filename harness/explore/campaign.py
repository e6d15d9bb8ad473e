"""One search from its first trial to its last: the workers, the budget, and the files that it leaves.

Everything is on disk as soon as it is known, so an interrupted search keeps all that it has found. The directory holds
`explore.json` and `explore.html`, the page, which is written anew while the search runs; and for each finding a
directory `findings/N` with `trial.json` (to try it again), `story.txt` and what exports.py makes of it. Shown by
tests/harness/test_harness_explore_campaign.py.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from harness.explore.execution.bench import Evidence
from harness.explore.findings.causes import Cause, by_cause, of_kind
from harness.explore.findings.exports import Exported, exports
from harness.explore.findings.known_findings import Allowance, allowance_of
from harness.explore.findings.story import story
from harness.explore.oracles.oracles import Suspicion
from harness.explore.search.diary import Diary, Result, Try, how_of, lane_of
from harness.explore.search.room import Room
from harness.explore.search.screening import alone
from harness.explore.search.search import Finding, Purpose, Search, Stage, Task
from harness.explore.trial.history import History
from harness.explore.trial.model import Takes, Trial, to_document
from reports.render.exploration import write_exploration_page
from reports.render.files import replace_text
from runlog.files.documents import write_json

# From here on only findings are confirmed and made smaller, if there are any that wait for it.
NEW_UNTIL: Final = 0.75
SMALLER_UNTIL: Final = 0.9  # and then the smallest trials are repeated
KEEP_EVERY_S: Final = 5.0
DRAW_EVERY_S: Final = 15.0  # the page; it takes some 20 ms
_WAIT_S: Final = 0.5
GRACE_S: Final = 20.0  # for what is under way when the time is over
MISTAKES_MAX: Final = 10  # trials in a row that ended by a mistake of ours: then the search ends with the last of them


class RunsTrials(Protocol):
    """`harness.explore.execution.bench.Bench`, or a client that is simulated."""

    @property
    def dropped_log_bytes(self) -> int: ...

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence: ...

    def end_warm(self) -> Sequence[str]: ...

    def give_up(self) -> None: ...


def _takes_all(side: str, name: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`about` goes into explore.json as it is: client, versions, cluster, seed. `client_words`: how the client stands
    in a command line, for the commands that are told. `known`: findings that are named and do not fail the search.
    `workers`: trials side by side; with `workers_max` as many more as the host has processors to spare for."""

    budget_s: float
    workers: int
    directory: Path
    about: dict[str, Any]
    client_words: str = ""
    known: Sequence[Allowance] = ()
    takes: Takes = _takes_all  # It says which properties the client declares.
    workers_max: int = 0  # 0: it is fixed


class Campaign:
    def __init__(
        self,
        search: Search,
        bench: RunsTrials,
        plan: Plan,
        *,
        say: Callable[[str], None],
        should_stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        host_used: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`host_used`: the share of all processors that was used since it was asked last."""
        self.search, self._bench, self._plan = search, bench, plan
        self._room, self._host_used = Room(plan.workers, max(plan.workers, plan.workers_max)), host_used
        self._most_running = 0
        self._say, self._should_stop, self._clock = say, should_stop, clock
        self._begun_s = clock()
        self._told: dict[int, Stage] = {}
        self._numbers: dict[int, int] = {}  # id of a finding -> its number
        self._kept: dict[int, tuple[object, ...]] = {}  # number of a finding -> what is on disk of it
        self._kept_s = self._drawn_s = 0.0
        self._stories: dict[int, str] = {}
        self._files: dict[int, list[str]] = {}  # The key is the number of the finding.
        self._diary = Diary()
        self.is_interrupted = False
        self._over_s: float | None = None  # since when nothing is begun any more
        self.given_up = 0  # trials that were under way when the time was over, and did not end soon
        self._mistakes = 0  # in a row
        self._between_trials: list[str] = []  # What went wrong there is in no history.

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._begun_s

    def run(self) -> None:
        """Returns when the budget is used up, or when asked to stop. Trials that are under way then have GRACE_S more.
        What has not ended by then is given up and shows nothing: some take minutes."""
        running: dict[Future[Evidence], Task] = {}
        late: set[Future[Evidence]] = set()
        most = max(self._plan.workers, self._plan.workers_max)
        with ThreadPoolExecutor(max_workers=most, thread_name_prefix="trial") as pool:
            while True:
                self.is_interrupted = self.is_interrupted or self._should_stop()
                if self._room.is_due(self._clock()):
                    self._room.look(self._host_used(), len(running), self._clock())
                while len(running) < self._room.trials and (task := self._next()) is not None:
                    run = partial(self._bench.run, may_be_warm=task.purpose.may_be_warm)
                    running[pool.submit(run, task.trial, task.number)] = task
                self._most_running = max(self._most_running, len(running))
                if not running:
                    break
                if not late and self._is_grace_over():
                    late = {future for future in running if not future.done()}
                    self._bench.give_up()
                done, _ = wait(running, timeout=_WAIT_S, return_when=FIRST_COMPLETED)
                for future in done:
                    task = running.pop(future)
                    if future in late:
                        self.given_up += 1
                    else:
                        self._learn(task, self._evidence(task, future))
        self.search.conclude()
        self._between_trials.extend(self._bench.end_warm())
        for trouble in self._between_trials:
            self._say(f"{self.elapsed_s:6.0f} s  {trouble}")
        self._keep(is_last=True)

    def _is_grace_over(self) -> bool:
        if self._over_s is None and (self.is_interrupted or self.elapsed_s >= self._plan.budget_s):
            self._over_s = self.elapsed_s
        return self._over_s is not None and self.elapsed_s >= self._over_s + GRACE_S

    def _evidence(self, task: Task, future: Future[Evidence]) -> Evidence:
        """A mistake of ours in one trial proves nothing, and costs that trial only."""
        try:
            found = future.result()
        except Exception as error:
            self._mistakes += 1
            if self._mistakes > MISTAKES_MAX:
                raise
            problem = f"a mistake of the harness: {type(error).__name__}: {error}"
            return Evidence(history=History(happened=(), log=(), problem=problem), uses={}, duration_s=0.0)
        self._mistakes = 0
        return found

    def _next(self) -> Task | None:
        if self.is_interrupted or self.elapsed_s >= self._plan.budget_s:
            return None
        if self.elapsed_s >= SMALLER_UNTIL * self._plan.budget_s:
            self.search.settle()
        may_be_new = self.elapsed_s < NEW_UNTIL * self._plan.budget_s or not self._is_any_waiting()
        return self.search.next_task(may_be_new=may_be_new)

    def _is_any_waiting(self) -> bool:
        return any(not finding.is_done for finding in self.search.findings.values())

    def _learn(self, task: Task, evidence: Evidence) -> None:
        shown = self.search.learn(task, evidence.history, evidence.uses, duration_s=evidence.duration_s)
        self._note(task, evidence, shown)
        mark = "; ".join(str(suspicion.kind) for suspicion in shown) or evidence.history.problem or "as it should"
        is_news = bool(evidence.history.problem or shown) and task.purpose is not Purpose.SHRINKING
        if is_news or task.purpose is Purpose.CONTROL:
            self._say(f"{self.elapsed_s:6.0f} s  {task.purpose}: {task.trial}: {mark} ({evidence.duration_s:.1f} s)")
        for finding in self.search.findings.values():
            finding.found_after_s = finding.found_after_s or self.elapsed_s
            number = self._numbers.setdefault(id(finding), len(self._numbers) + 1)
            if self._told.get(number) is not finding.stage:
                self._told[number] = finding.stage
                self._say(f"{self.elapsed_s:6.0f} s  finding {number}, {finding.stage}: {finding.signature}")
        self._keep()

    def _note(self, task: Task, evidence: Evidence, shown: Sequence[Suspicion]) -> None:
        result = Result.RIGHT
        if evidence.history.problem:
            result = Result.NOTHING
        elif shown:
            result = Result.SUSPICIOUS
        elif task.trial.disturbance is not None and not evidence.history.disturbed:
            result = Result.UNMET
        self._diary.note(
            Try(
                at_s=self.elapsed_s,
                duration_s=evidence.duration_s,
                purpose=str(task.purpose),
                lane=lane_of(task.trial),
                how=how_of(task.trial),
                result=result,
                what="; ".join(str(one.kind) for one in shown),
                met=self.search.reach.met,
            ),
            shared=_shared(task.trial, evidence.history, is_right=not shown) if task.trial.besides else None,
        )

    def _keep(self, *, is_last: bool = False) -> None:
        """Findings that have changed, at once; how far the search is, now and then."""
        is_due = is_last or self.elapsed_s - self._kept_s >= KEEP_EVERY_S
        for finding in self.search.findings.values():
            number = self._numbers.setdefault(id(finding), len(self._numbers) + 1)
            state = finding.stage, finding.trial, finding.shown, finding.tried
            if self._kept.get(number) != state:
                self._keep_finding(number, finding)
                self._kept[number] = state
                is_due = True
        if is_due:
            self._kept_s = self.elapsed_s
            document = self.document(is_running=not is_last)
            write_json(self._plan.directory / "explore.json", document)
            if is_last or self.elapsed_s - self._drawn_s >= DRAW_EVERY_S or not self._drawn_s:
                self._drawn_s = max(self.elapsed_s, 0.001)
                write_exploration_page(document, self._stories, self._plan.directory)

    def _keep_finding(self, number: int, finding: Finding) -> None:
        place = self._plan.directory / "findings" / str(number)
        write_json(place / "trial.json", to_document(finding.trial))
        told = self._stories[number] = story(finding)
        made = {"story.txt": told}
        if finding.stage is Stage.CONFIRMED:
            made |= exports(self._exported(number, finding))
        for name, text in made.items():
            replace_text(place / name, text)
        self._files[number] = ["trial.json", *made]

    def _exported(self, number: int, finding: Finding) -> Exported:
        return Exported(
            number=number,
            trial=finding.trial,
            suspicion=finding.suspicion,
            client=str(self._plan.about.get("client", "")),
            version=str(self._plan.about.get("version", "")),
            again=self._again(number),
            takes=self._plan.takes,
        )

    def _again(self, number: int) -> str:
        trial_file = self._plan.directory / "findings" / str(number) / "trial.json"
        return f"harness explore --again {shlex.quote(str(trial_file))} {self._plan.client_words}".rstrip()

    def again(self, finding: Finding) -> str:
        """The command that tries a finding again."""
        return self._again(self._numbers.get(id(finding), 0))

    def causes(self) -> list[tuple[Cause, list[Finding], Allowance | None]]:
        """Of the confirmed findings: those of one cause are one, and whether it is known."""
        return [
            (
                cause,
                members,
                allowance_of(self._plan.known, str(cause), *(str(one.signature) for one in of_kind(cause, members))),
            )
            for cause, members in by_cause(self.search.confirmed)
        ]

    def document(self, *, is_running: bool = False) -> dict[str, Any]:
        """`explore.json`: what was tried, what was found, and what was not reached."""
        reach = self.search.reach
        return {
            "format": 1,
            **self._plan.about,
            "client_words": self._plan.client_words,
            "is_running": is_running,
            "elapsed_s": round(self.elapsed_s, 1),
            "budget_s": self._plan.budget_s,
            "is_interrupted": self.is_interrupted,
            "trials": reach.trials,
            "trials_at_once_max": self._most_running,
            "disturbed_by_api": dict(reach.by_api),
            "disturbances_that_met_nothing": reach.unmet,
            "single_disturbances_not_tried": reach.left,
            "not_tried_by_api": dict(self.search.not_tried),
            "features_met": reach.met,
            "features_unseen_at_least": round(reach.unseen, 1),
            "programs_kept": reach.kept,
            "exchange_log_bytes_dropped": self._bench.dropped_log_bytes,  # Trials that had ended wrote them.
            "trials_that_proved_nothing": self.search.problems,
            "trials_given_up": self.given_up,
            "went_wrong_between_trials": self._between_trials,
            "findings": [self._finding(finding) for finding in self.search.findings.values()],
            "causes": [
                {
                    "cause": str(cause),
                    "findings": [self._numbers.get(id(one), 0) for one in members],
                    "known": "" if allowed is None else str(allowed),
                }
                for cause, members, allowed in self.causes()
            ],
            "diary": self._diary.document(),
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        number = self._numbers.get(id(finding), 0)
        return {
            "number": number,
            "again": self._again(number),
            "files": [f"findings/{number}/{name}" for name in self._files.get(number, ())],
            "stage": str(finding.stage),
            "signature": str(finding.signature),
            "kind": str(finding.signature.kind),
            "role": str(finding.signature.role),
            "api": finding.signature.api,
            "what": finding.suspicion.what,
            "shown": finding.shown,
            "tried": finding.tried,
            "controls_shown": finding.controls_shown,
            "controls_tried": finding.controls_tried,
            "steps": len(finding.trial.program.moves) + len(finding.trial.disturbances),
            "disturbance": finding.trial.disturbed,
            "found_after_s": round(finding.found_after_s, 1),
            "seen_with": [str(trial) for trial in finding.seen_with[:_SEEN_MAX]],
        }


def _shared(trial: Trial, history: History, *, is_right: bool) -> list[tuple[str, str]]:
    """Lane and how of each that shared this run, without those that come again alone: all of them if anything showed,
    or else what met nothing."""
    met = (history.disturbed, *history.disturbed_besides) if is_right else ()
    return [(lane_of(one), how_of(one)) for one, count in zip(alone(trial), met, strict=False) if count]


_SEEN_MAX: Final = 20


def cause_lines(
    causes: Sequence[tuple[Cause, Sequence[Finding], Allowance | None]], again: Callable[[Finding], str] | None = None
) -> list[str]:
    """The confirmed causes as the terminal tells them at the end, one paragraph each, known ones last. `again`: the
    command that tries one again."""
    lines = []
    for cause, members, allowed in sorted(causes, key=lambda one: one[2] is not None):
        smallest = members[0]
        text = (
            f"{cause}\n  {smallest.suspicion.what}\n  smallest: {smallest.trial}, "
            f"{len(smallest.trial.program.moves)} moves; {smallest.shown} of {smallest.tried} repetitions show it"
        )
        if others := of_kind(cause, members)[1:]:
            text += "\n  the same with " + ", ".join(one.signature.api or "no disturbance" for one in others)
        if besides := [one.signature.kind for one in members if one.signature.kind is not cause.kind]:
            text += "\n  the same trial shows: " + ", ".join(besides)
        if again is not None:
            text += f"\n  again: {again(smallest)}"
        lines.append(text if allowed is None else f"known: {allowed}\n  {text}")
    return lines


def suspicion_lines(findings: Iterable[Finding]) -> list[str]:
    """How many suspicions stayed such, and why: none of them is told as a finding."""
    stages = Counter(finding.stage for finding in findings)
    refuted = stages[Stage.NOT_REPEATED] + stages[Stage.IN_CONTROL]
    lines = []
    if refuted:
        lines.append(f"{refuted} suspicions that did not show again, or show without the disturbance too")
    if stages[Stage.SUSPECTED]:
        lines.append(f"{stages[Stage.SUSPECTED]} suspicions that there was no time to try again: --again does it")
    return lines
