"""A client against a tape: its program is carried out against the scripted peer, and the oracles of a search judge it.

Beside it the same client runs against the same peer without the fault. What shows there too comes from the host, or
from the peer: it is no proof of anything. A tape without a fault has nothing beside it, so nothing but its own claim is
taken from it: that one was seen with a real broker too. Shown by tests/harness/test_harness_tape_play.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from harness.explore.execution.subject import Site, Subject
from harness.explore.oracles.oracles import Kind, Suspicion, suspicions
from harness.explore.trial.history import History
from harness.explore.trial.model import Do, Move, Program
from harness.explore.trial.topics import Topics
from harness.tape.model import NAME, Tape
from harness.tape.peer import TapePeer
from workloads.clients.fates import failed_codes

PATIENCE_S: Final = 6.0  # a peer that only answers is never slow, and the programs' own time-outs are smaller

PATIENCE_FACTOR: Final = 3  # of a second play, where the first one says that the host may be too busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run against one peer. `missing`: what the client asked for and the tape has no answer to."""

    history: History
    found: tuple[Suspicion, ...]
    met: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """`healthy` is None if the tape has no fault."""

    tape: Tape
    faulty: Side
    healthy: Side | None

    @property
    def shown(self) -> Suspicion | None:
        """What the tape claims, if this client shows it, and not without the fault."""
        of_kind = next((one for one in self.found if one.kind is self.tape.kind), None)
        return None if self.is_unproved else of_kind

    @property
    def found(self) -> tuple[Suspicion, ...]:
        """What shows with the fault only. A client may have another bug that shows without it."""
        others = set() if self.healthy is None else _kinds(self.healthy)
        return tuple(one for one in self.faulty.found if one.kind not in others)

    @property
    def is_unproved(self) -> bool:
        return bool(self.why_unproved)

    @property
    def why_unproved(self) -> str:
        """Why this run proves nothing; empty if it does."""
        if self.faulty.history.problem:
            return self.faulty.history.problem
        if self.healthy is None:
            return self._why_unproved_alone()
        if self.healthy.history.problem:
            return f"without the fault, {self.healthy.history.problem}"
        if self.faulty.found and not self.found:
            both = next(one for one in self.healthy.found if one.kind in _kinds(self.faulty))
            return f"it shows without the fault too: {both.kind}: {both.what}{_asked(self.healthy)}"
        if not self.faulty.met and not self.faulty.found:
            first = next((frame for frame in self.tape.frames if frame.is_script), None)
            return f"the client never sent request {first.request} of {first.api}" if first else "the tape has no fault"
        return ""

    @property
    def is_late(self) -> bool:
        """Whether a client stood still that should not: a busy host does that too, and then this proves nothing."""
        side = self.faulty if self.healthy is None else self.healthy
        return self.is_unproved and Kind.STUCK in _kinds(side)

    def _why_unproved_alone(self) -> str:
        if not self.faulty.found or self.tape.kind in _kinds(self.faulty):
            return ""
        other = self.faulty.found[0]
        return (
            f"the tape has no fault, and the client shows something else than it claims: {other.kind}: "
            f"{other.what}{_asked(self.faulty)}"
        )


def _kinds(side: Side) -> set[Kind]:
    return {one.kind for one in side.found}


def _asked(side: Side) -> str:
    return f"; it asked for {', '.join(side.missing)}, which the tape does not have" if side.missing else ""


def play(
    tape: Tape, command: Sequence[str], environment: Mapping[str, str], *, patience_s: float = PATIENCE_S
) -> Played:
    """Both runs, side by side: some seconds more than `patience_s` where the client stands still. If it stands still
    where nothing is wrong, the host may be too busy for that, and both are given more."""
    # Nothing beside it would say that the host is too busy, so it gets at once what the others get at last.
    is_alone = not tape.has_fault and tape.kind is Kind.STUCK
    given_s = patience_s * PATIENCE_FACTOR if is_alone else patience_s
    played = _played(tape, command, environment, given_s)
    if played.is_late and not is_alone:
        played = _played(tape, command, environment, patience_s * PATIENCE_FACTOR)
    return played


def _played(tape: Tape, command: Sequence[str], environment: Mapping[str, str], patience_s: float) -> Played:
    if not tape.has_fault:
        alone = play_side(tape, command, environment, patience_s=patience_s)
        return Played(tape=tape, faulty=alone, healthy=None)
    with ThreadPoolExecutor(2, thread_name_prefix="tape") as pool:
        faulty = pool.submit(play_side, tape, command, environment, patience_s=patience_s)
        healthy = pool.submit(play_side, tape.healthy, command, environment, patience_s=patience_s)
        return Played(tape=tape, faulty=faulty.result(), healthy=healthy.result())


def play_side(
    tape: Tape, command: Sequence[str], environment: Mapping[str, str], *, patience_s: float = PATIENCE_S
) -> Side:
    """Only one of both. What is missing or breaks the protocol is in the side's history."""
    program = tape.trial.program
    with TapePeer(tape) as peer:
        subject = Subject(command, environment, program, _site(peer, program, patience_s))
        try:
            subject.run()
            problem = subject.problem
        except (OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        script = peer.script
        history = History(
            happened=tuple(subject.happened),
            log=script.state.partitions.logged(),
            ends=script.state.partitions.visible_ends,
            disturbed=script.met,
            first_disturbed_us=peer.first_met_us,
            healed_us=peer.spent_us,
            is_auto_commit=program.properties.get("enable.auto.commit") == "true",
            is_read_uncommitted=program.is_read_uncommitted,
            problem=problem,
        )
    return Side(
        history=history,
        found=tuple(suspicions(tape.trial, history)),
        met=script.met,
        missing=tuple(f"{name}, {count} times" for name, count in script.missing.items()),
    )


def _no_change(move: Move) -> None:
    raise ValueError(f"the scripted peer does nothing by itself: {move}")


def _site(peer: TapePeer, program: Program, patience_s: float) -> Site:
    return Site(
        bootstrap_servers=peer.bootstrap_servers,
        topics=Topics((NAME,), program.partitions),
        group=f"{NAME}-group",
        transactional_id=f"{NAME}-id",
        client_id=NAME,
        log_starts=dict,
        log_ends=peer.ends,
        write=peer.write_others,
        write_in_transaction=peer.write_others_in_transaction,
        compact=lambda: _no_change(Move(do=Do.COMPACT)),
        change=_no_change,
        is_settled=lambda: True,
        is_healed=lambda: not peer.is_disturbing(),
        has_met=lambda: peer.script.met > 0,
        failed_codes=failed_codes(retries_possible=True),
        patience_s=patience_s,
    )
