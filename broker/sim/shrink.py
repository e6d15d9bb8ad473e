"""Shrinks a seed that violates an invariant: what it did without which the invariant is violated all the same.

A seed's **parts** are the steps of its faults and the kinds of its clients. `shrunk` leaves out as many as it can
(`minimise`, with a limit on the runs). The steps that stay begin when the seed began them. What they draw then may be
something else than in the whole seed, since all steps draw from one generator: a shorter schedule counts if it violates
the same invariant, on whatever way. So it may show the defect more plainly than the whole seed did, and its name, the
seed and what is left out, shows it again. Shown by tests/broker_sim/test_sim_shrink.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Final

from broker.sim.minimise import fewest
from broker.sim.plan import Settings, settings_of
from broker.sim.seed_run import SeedResult, run

# Part -> what the settings say without it.
_KINDS: Final[dict[str, dict[str, object]]] = {
    "second producer": {"producers": 1},
    "transactional producers": {"transactional_producers": 0},
    "real producers": {"real_producers": 0},
    "real members": {"real_members": 0},
    "classic members": {"classic_members": 0},
    "consumer members": {"consumer_members": 0},
    "share members": {"share_members": 0},
    "lonely follower": {"has_lonely_follower": False},
    "late answers": {"has_late_answers": False},
    "aftermath": {"has_aftermath": False},
    "snapshots": {"snapshot_bytes": None},
    "small segments": {"segment_bytes": 1 << 20},
    "one entry a fetch": {"quorum_fetch_bytes": 1 << 20},
    "few fetch sessions": {"fetch_session_slots": 1000},
    "second partition": {"partitions": 1},
}
_STEPS: Final = {
    "fault": "faults",
    "disk fault": "disk_faults",
    "leader move": "leader_moves",
    "reassignment": "reassignments",
}
_ALONE: Final = ("figure eight", "earlier life", "last one standing")  # directed schedules without other faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    whole: SeedResult
    parts: tuple[str, ...]
    kept: tuple[str, ...]
    left: SeedResult  # the run of what is kept
    runs: int

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(part for part in self.parts if part not in self.kept)


def parts_of(settings: Settings) -> tuple[str, ...]:
    """All parts of a seed, by their names: the kinds first, then the steps of its faults."""
    kinds = [name for name, without in _KINDS.items() if _changes(settings, without)]
    steps = [] if settings.directed in _ALONE else [
        f"{kind} {number}" for kind, name in _STEPS.items() for number in range(getattr(settings, name))
    ]  # fmt: skip
    return (*kinds, *steps)


def without(settings: Settings, parts: Collection[str]) -> Settings:
    """Raises ValueError if the seed has no such part."""
    known = parts_of(settings)
    if strange := [part for part in parts if part not in known]:
        raise ValueError(f"seed {settings.seed} has no part {strange[0]!r}; it has {', '.join(known)}")
    steps = frozenset(part for part in parts if part not in _KINDS)
    changed = {name: value for part in parts if part in _KINDS for name, value in _KINDS[part].items()}
    return replace(settings, left_out=steps, **changed)  # type: ignore[arg-type]


def shrunk(seed: int, *, runs_max: int, tell: Callable[[str], None] = lambda line: None) -> Shrunk | None:
    """None if the seed violates nothing. `tell` gets a line for each shorter schedule."""
    settings = settings_of(seed)
    parts = parts_of(settings)
    whole = run(settings)
    if whole.violation is None:
        return None
    invariant, best, runs = whole.violation.invariant, whole, 1

    def shows(kept: list[str]) -> bool:
        nonlocal best, runs
        runs += 1
        found = run(without(settings, [part for part in parts if part not in kept]))
        is_same = found.violation is not None and found.violation.invariant == invariant
        if is_same:
            best = found
            tell(f"run {runs}: {len(kept)} of {len(parts)} parts are left")
        return is_same

    kept = [] if not parts or shows([]) else fewest(parts, shows, runs_max=runs_max - 2)
    if len(kept) == len(parts):
        best = whole
    return Shrunk(whole=whole, parts=parts, kept=tuple(kept), left=best, runs=runs)


def _changes(settings: Settings, without: dict[str, object]) -> bool:
    names = {field.name for field in fields(settings)}
    assert without.keys() <= names, without
    return any(getattr(settings, name) != value for name, value in without.items())
