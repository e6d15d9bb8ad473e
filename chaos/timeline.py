"""Carries out a scenario's steps against a cluster: waits, injects, proves, heals, and records each of these.

Every wait has a limit and ends when `stop` is set. Whatever happens, every injected fault is healed at the end, the
last one first. The clock is passed in, so tests run without waiting. It knows nothing of load or analysis.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from chaos import conditions
from chaos.faults.base import Compares, FaultContext, FaultRun, FaultSpec, Proof
from chaos.lease import Lease
from chaos.model import Scenario
from chaos.ports.brokers import HostProcesses
from chaos.ports.cluster import ClusterPort
from chaos.step import Step
from chaos.targets import PartitionOfInterest, TargetError
from runlog.records.fault import PLANNED_US, WAIT, FaultLine, FaultPhase

POLL_MS = 20
PROVE_WITHIN_MS = 2_000
RESOLVE_WITHIN_MS = 5_000  # during an election, nobody may have a role

Recorder = Callable[[FaultLine], None]


class Clock(Protocol):
    """The time of the run. `wait_ms` returns True if a stop has ended the wait early."""

    def now_us(self) -> int: ...

    def wait_ms(self, duration_ms: float) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningClock:
    """The host's monotonic clock, relative to the run's start."""

    t0_monotonic_ns: int
    stop: threading.Event

    def now_us(self) -> int:
        return (time.monotonic_ns() - self.t0_monotonic_ns) // 1000

    def wait_ms(self, duration_ms: float) -> bool:
        return self.stop.wait(max(0.0, duration_ms) / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineResult:
    """`problem` is empty if all steps were carried out. Otherwise the cell cannot pass. `unproved` names the steps
    whose fault was not proved. `unhealed` tells of each heal that failed: what is broken after it may be our work.
    `os_error`: an error of this host that ended the steps, such as a full disk under a lease. Hosts elsewhere have
    errors of other kinds."""

    problem: str
    unproved: tuple[str, ...]
    unhealed: tuple[str, ...] = ()
    os_error: OSError | None = None


class StepFailed(Exception):
    """A step could not be carried out. The rest of the timeline is not attempted."""


class TargetMissed(Exception):
    """Nobody has the role of a step that may miss, so the step is left out."""


@dataclass(slots=True, kw_only=True)
class _Applied:
    step: Step
    spec: FaultSpec
    run: FaultRun
    target: str
    resolved: list[str]
    heal_due_us: int | None


@dataclass(slots=True, kw_only=True)
class _State:
    applied: list[_Applied] = field(default_factory=list)  # not healed yet, in the order of injection
    ended_us: dict[str, int] = field(default_factory=dict)  # The key is the id of the step.
    unproved: list[str] = field(default_factory=list)
    unhealed: list[str] = field(default_factory=list)


def run(
    scenario: Scenario,
    case: str,
    port: ClusterPort,
    recorder: Recorder,
    *,
    clock: Clock,
    topic: str,
    measure_start_us: int,
    lease: Lease | None = None,
    seed: int = 0,
    group: str = "",
    transactional_id: str = "",
) -> TimelineResult:
    """Run the timeline. It blocks until all steps are done or one has failed, and everything is healed. Start it in a
    thread of its own.

    A target that is a coordinator and names nothing means the one of `group` or `transactional_id`. Empty: the load has
    none.
    """
    assert case in scenario.cases
    executor = _Executor(
        port=port,
        recorder=recorder,
        clock=clock,
        lease=lease,
        of=PartitionOfInterest(
            topic=topic, partition=scenario.partition, group=group, transactional_id=transactional_id
        ),
        measure_start_us=measure_start_us,
        prefix=f"{scenario.name}-{case}",
    )
    return executor.run(scenario.steps(seed))


class _Executor:
    def __init__(
        self,
        *,
        port: ClusterPort,
        recorder: Recorder,
        clock: Clock,
        lease: Lease | None,
        of: PartitionOfInterest,
        measure_start_us: int,
        prefix: str,
    ) -> None:
        self._port, self._recorder, self._clock, self._lease, self._of = port, recorder, clock, lease, of
        self._measure_start_us = measure_start_us
        self._prefix = prefix
        self._state = _State()
        self._observed = conditions.Observed(leader=None)

    def run(self, steps: tuple[Step, ...]) -> TimelineResult:
        problem, os_error = "", None
        try:
            self._observed.leader = self._port.brokers.leader(self._of.topic, self._of.partition)
            self._observed.controller = self._port.brokers.controller()
            for step in steps:
                self._do(step)
                self._state.ended_us[step.id] = self._clock.now_us()
            self._await_timed_heals()
        except StepFailed as error:
            problem = str(error)
        # This is the entry point of a thread. Whatever a port raises, the healing must not be skipped.
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            os_error = error if isinstance(error, OSError) else None
        finally:
            problem = "; ".join(filter(None, [problem, *self._heal_all()]))
        state = self._state
        return TimelineResult(
            problem=problem, unproved=tuple(state.unproved), unhealed=tuple(state.unhealed), os_error=os_error
        )

    def _do(self, step: Step) -> None:
        self._await_trigger(step)
        if step.fault:
            self._inject(step)
        elif step.heal:
            applied = next((item for item in self._state.applied if item.step.id == step.heal), None)
            if applied:  # otherwise its `for` has ended it already
                self._heal(applied)

    # --- waiting ---

    def _await_trigger(self, step: Step) -> None:
        if step.at is not None:
            self._wait_until(self._measure_start_us + step.at * 1000)
        elif step.after is not None:
            self._wait_until(self._state.ended_us[step.after] + step.delay * 1000)
        elif step.when is not None:
            self._wait_condition(step, conditions.parse(step.when))
        if step.after is None and step.delay:
            self._wait_until(self._clock.now_us() + step.delay * 1000)

    def _wait_until(self, due_us: int) -> None:
        while (left_us := due_us - self._clock.now_us()) > 0:
            self._pause(min(POLL_MS, left_us / 1000))

    def _wait_condition(self, step: Step, condition: conditions.Condition) -> None:
        started_us = self._clock.now_us()
        self._observed.acked_at_start_of_wait = self._port.load.acked
        self._observed.running = self._running()
        while True:
            is_met, seen = condition.holds(self._port, self._of, self._observed)
            waited_us = self._clock.now_us() - started_us
            if is_met:
                self._record(step.id, WAIT, condition.text, [], FaultPhase.PROVED, seen | {"waited_us": waited_us})
                return
            if waited_us > step.within * 1000:
                self._record(
                    step.id, WAIT, condition.text, [], FaultPhase.NOT_EFFECTIVE, seen | {"waited_us": waited_us}
                )
                raise StepFailed(f"step {step.id}: {condition.text!r} did not come within {step.within} ms, saw {seen}")
            self._pause(POLL_MS)

    def _running(self) -> frozenset[int]:
        brokers = self._port.brokers
        return frozenset(broker for broker in brokers.broker_ids if brokers.is_running(broker))

    def _await_timed_heals(self) -> None:
        while due := [item.heal_due_us for item in self._state.applied if item.heal_due_us is not None]:
            self._wait_until(max(due))
            self._heal_due()

    def _pause(self, duration_ms: float) -> None:
        self._heal_due()
        if self._clock.wait_ms(duration_ms):
            raise StepFailed("stopped")

    def _heal_due(self) -> None:
        now_us = self._clock.now_us()
        for applied in list(self._state.applied):
            if applied.heal_due_us is not None and applied.heal_due_us <= now_us:
                self._heal(applied)

    # --- faults ---

    def _inject(self, step: Step) -> None:
        spec = step.spec
        target = step.target or spec.default_target
        try:
            context = self._resolve(step, spec, target)
        except TargetMissed as error:
            self._record(step.id, spec.name, target, [], FaultPhase.MISSED, {"problem": str(error)})
            return
        resolved = [str(item) for item in (*context.brokers, *context.links, *context.clients)] or [self._of.topic]
        run = spec.make(context, {**spec.parameters, **step.with_})
        applied = _Applied(step=step, spec=spec, run=run, target=target, resolved=resolved, heal_due_us=None)
        self._state.applied.append(applied)  # noted before it acts, so that a failure half-way is healed too
        if isinstance(run, Compares):
            run.observe()
        started_us = self._clock.now_us()
        run.inject()
        if step.for_ is not None:
            applied.heal_due_us = self._clock.now_us() + step.for_ * 1000
        # The fault may take effect from the moment when `inject` begins, so this is its time.
        detail = {"took_us": self._clock.now_us() - started_us, **self._times_at_hosts()}
        if step.at is not None:
            detail[PLANNED_US] = self._measure_start_us + (step.at + step.delay) * 1000
        self._record_fault(applied, FaultPhase.APPLIED, detail, t_us=started_us)
        if not spec.is_proved_at_heal:
            self._record_proof(applied, self._await_proof(applied, PROVE_WITHIN_MS))

    def _resolve(self, step: Step, spec: FaultSpec, target: str) -> FaultContext:
        deadline_us = self._clock.now_us() + RESOLVE_WITHIN_MS * 1000
        while True:
            try:
                name = f"{self._prefix}-{step.id}"
                return spec.context(target, self._port, self._of, self._lease, name)
            except TargetError as error:
                if step.may_miss:
                    raise TargetMissed(str(error)) from error
                if self._clock.now_us() > deadline_us:
                    raise StepFailed(f"step {step.id}: {error}") from error
            self._pause(POLL_MS)

    def _await_proof(self, applied: _Applied, within_ms: int) -> Proof:
        deadline_us = self._clock.now_us() + within_ms * 1000
        while True:
            proof = self._try_prove(applied)
            if proof.is_effective or self._clock.now_us() >= deadline_us or self._clock.wait_ms(POLL_MS):
                return proof

    def _record_proof(self, applied: _Applied, proof: Proof, *, t_us: int | None = None) -> None:
        if proof.is_effective:
            phase = FaultPhase.PROVED
        elif applied.step.may_miss:
            phase = FaultPhase.MISSED
        else:
            phase = FaultPhase.NOT_EFFECTIVE
            self._state.unproved.append(applied.step.id)
        self._record_fault(applied, phase, proof.detail, t_us=t_us)

    def _try_prove(self, applied: _Applied) -> Proof:
        try:
            return applied.run.prove()
        except Exception as error:  # missing evidence is a result; the fault must still be healed
            return Proof(is_effective=False, detail={"error": f"{type(error).__name__}: {error}"})

    def _heal(self, applied: _Applied) -> None:
        """Healing comes before everything that can fail by itself, such as a line on a full disk."""
        proof = self._await_proof(applied, 0) if applied.spec.is_proved_at_heal else None
        proved_us = self._clock.now_us()
        try:
            applied.run.heal()
        except Exception as error:
            self._state.unhealed.append(f"healing {applied.step.id} failed: {error}")
            raise
        self._state.applied.remove(applied)
        if proof is not None:
            self._record_proof(applied, proof, t_us=proved_us)
        self._record_fault(applied, FaultPhase.HEALED, self._times_at_hosts())

    def _heal_all(self) -> list[str]:
        """Heal everything, the last fault first. It continues after a failure and returns what failed."""
        problems: list[str] = []
        for applied in reversed(list(self._state.applied)):
            try:
                self._heal(applied)
            except Exception as error:  # the others must still be healed
                what = "healing" if applied in self._state.applied else "the record of the heal of"
                problems.append(f"{what} {applied.step.id} failed: {error}")
        return problems

    # --- records ---

    def _times_at_hosts(self) -> dict[str, object]:
        """When the actions on other hosts took effect, with the error bounds of their clocks."""
        brokers = self._port.brokers
        times = brokers.take_times() if isinstance(brokers, HostProcesses) else []
        return {"at_hosts": times} if times else {}

    def _record_fault(
        self, applied: _Applied, phase: FaultPhase, detail: dict[str, object], *, t_us: int | None = None
    ) -> None:
        labels: dict[str, object] = {"label": applied.spec.label, "colour": applied.spec.colour}
        self._record(
            applied.step.id, applied.spec.name, applied.target, applied.resolved, phase, labels | detail, t_us=t_us
        )

    def _record(
        self,
        step_id: str,
        kind: str,
        target: str,
        resolved: list[str],
        phase: FaultPhase,
        detail: dict[str, object],
        *,
        t_us: int | None = None,
    ) -> None:
        self._recorder(
            FaultLine(
                t_us=self._clock.now_us() if t_us is None else t_us,
                id=step_id,
                kind=kind,
                target=target,
                resolved=tuple(resolved),
                phase=phase,
                detail=detail,
            )
        )
