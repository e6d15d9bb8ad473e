"""Why a test of a client fails, in words: how many records are gone, which fault, which offsets were truncated.

Pure: what happened comes as values, from the timeline and the brokers' journals. Shown by
tests/harness/test_harness_loss_words.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from runlog.records.fault import WAIT, FaultLine, FaultPhase

SHOWN: Final = 10  # So many records are shown, and all of them with -vv.
_CHARACTERS_MAX: Final = 80  # No more of one record is shown.
_FAULTS_SHOWN: Final = 12
ACKNOWLEDGED: Final = "acknowledged records lost"
UNREAD: Final = "records of the log were not read"
DUPLICATED: Final = "records are in the log more often than they were sent"
REORDERED: Final = "records are in the log behind one that was sent later"
Value = bytes | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Offsets [first, end) that a broker took off its log when it followed another leader."""

    broker: int
    topic: str
    partition: int
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One that was applied. Times in seconds since the test got its cluster; None: never healed, or never proved."""

    label: str  # killed (SIGKILL)
    target: str  # as the scenario says it: leader
    resolved: tuple[str, ...]  # what it meant: 3
    began_s: float
    healed_s: float | None
    is_proved: bool

    def words(self) -> str:
        end = f" to {self.healed_s:.1f} s" if self.healed_s is not None else ""
        return f"{self._who()} {self.label} at {self.began_s:.1f} s{end}{'' if self.is_proved else ' (without proof)'}"

    def _who(self) -> str:
        return f"{self.target} {', '.join(self.resolved)}" if len(self.resolved) == 1 else self.target


def faults_of(lines: Iterable[FaultLine]) -> tuple[Fault, ...]:
    """The faults, in the order in which they began."""
    found: dict[str, Fault] = {}
    open_faults: dict[str, str] = {}  # step -> key: a step of a later `inject` has the id of an earlier one
    for number, line in enumerate(lines):
        if line.kind == WAIT:
            continue
        at_s = line.t_us / 1e6
        if line.phase is FaultPhase.APPLIED:
            open_faults[line.id] = f"{line.id}/{number}"
            found[open_faults[line.id]] = Fault(
                label=line.label or line.kind,
                target=line.target,
                resolved=line.resolved,
                began_s=at_s,
                healed_s=None,
                is_proved=False,
            )
        elif line.id in open_faults:
            key = open_faults[line.id]
            found[key] = _later(found[key], line.phase, at_s)
    return tuple(found.values())


def _later(fault: Fault, phase: FaultPhase, at_s: float) -> Fault:
    healed_s = at_s if phase is FaultPhase.HEALED and fault.healed_s is None else fault.healed_s
    return replace(fault, healed_s=healed_s, is_proved=fault.is_proved or phase is FaultPhase.PROVED)


def lost(wanted: Collection[Value], there: Collection[Value]) -> list[Value]:
    """The values of `wanted` that are not there, with repetitions, in order; sets are sorted. A text means its
    UTF-8."""
    left = Counter(map(_bytes, there))
    found = []
    for value in sorted(wanted, key=_bytes) if isinstance(wanted, set | frozenset) else wanted:
        if left[_bytes(value)]:
            left[_bytes(value)] -= 1
        else:
            found.append(value)
    return found


def out_of_order(there: Iterable[Value], sent: Sequence[Value]) -> list[Value]:
    """The values that stand behind one that was sent later, in the order of `there`. Values that were not sent, and
    repetitions, do not count. Raises ValueError if a value was sent twice, because nobody can tell which one it is."""
    place = {_bytes(value): number for number, value in enumerate(sent)}
    if len(place) < len(sent):
        twice = next(value for value, count in Counter(map(_bytes, sent)).items() if count > 1)
        raise ValueError(f"each value must be sent once, but {_shown(twice)} stands there several times")
    found: list[Value] = []
    seen: set[bytes] = set()
    latest = -1
    for value in there:
        number = place.get(_bytes(value))
        if number is None or _bytes(value) in seen:
            continue
        seen.add(_bytes(value))
        if number < latest:
            found.append(value)
        latest = max(latest, number)
    return found


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value


def comparison_lines(
    op: str,
    left: object,
    right: object,
    in_log: Collection[bytes],
    tell: Callable[..., list[str]],
    *,
    is_all_shown: bool,
) -> list[str] | None:
    """For pytest: what `left <= right` or `left == right` misses, if one side is what the log holds (`in_log`). None
    where nothing is missed, or where it is a comparison of something else."""
    if not (_is_values(left) and _is_values(right)):
        return None
    assert isinstance(left, set | frozenset | list | tuple)
    assert isinstance(right, set | frozenset | list | tuple)
    sides = [(left, right)] if op == "<=" else [(left, right), (right, left)]
    for wanted, there in sides:
        gone = lost(wanted, there)
        if not gone:
            continue
        known = {_bytes(value) for value in there}
        if all(_bytes(value) in known for value in gone):  # none is missing: some stand there more often
            side = "left" if wanted is left else "right"
            what = f"records stand more often on the {side} side"
            return _told(op, left, right, gone, len(wanted), what, tell, is_all_shown) if known <= set(in_log) else None
        is_wanted_in_log = all(_bytes(value) in in_log for value in wanted)
        is_there_in_log = bool(there) and all(_bytes(value) in in_log for value in there)
        if not (is_wanted_in_log or is_there_in_log):
            return None
        what = UNREAD if is_wanted_in_log else ACKNOWLEDGED
        return _told(op, wanted, there, gone, len(wanted), what, tell, is_all_shown)
    return _order_lines(op, left, right, in_log, tell, is_all_shown)


def _order_lines(
    op: str,
    left: Collection[Value],
    right: Collection[Value],
    in_log: Collection[bytes],
    tell: Callable[..., list[str]],
    is_all_shown: bool,
) -> list[str] | None:
    """The same records in another order. None if it is something else."""
    if op != "==" or isinstance(left, set | frozenset) or isinstance(right, set | frozenset):
        return None
    if not all(_bytes(value) in in_log for value in (*left, *right)):
        return None
    try:
        behind = out_of_order(right, list(left))
    except ValueError:
        return None
    what = "records on the right side stand behind one that is later on the left side"
    return _told(op, left, right, behind, len(right), what, tell, is_all_shown) if behind else None


def _told(
    op: str,
    left: Collection[Value],
    right: Collection[Value],
    wrong: Sequence[Value],
    of: int,
    what: str,
    tell: Callable[..., list[str]],
    is_all_shown: bool,
) -> list[str]:
    return [f"{_side(left)} {op} {_side(right)}", *tell(wrong, of, what, shown=None if is_all_shown else SHOWN)]


def _is_values(side: object) -> bool:
    return isinstance(side, set | frozenset | list | tuple) and all(isinstance(value, bytes | str) for value in side)


def _side(values: Collection[Value]) -> str:
    return f"{len(values):,} records"


def loss_lines(
    gone: Sequence[Value],
    of: int,
    what: str,
    *,
    faults: Sequence[Fault],
    cuts: Sequence[Cut],
    shown: int | None = SHOWN,
) -> list[str]:
    """The first line is the whole story; `what` says what they are. `shown` None: all records."""
    story = [*_decisive(faults, cuts), *_cut_words(cuts)]
    lines = [f"{len(gone):,} of {of:,} {what}" + (f": {', '.join(story)}" if story else "")]
    if faults:
        lines.append("faults, in seconds since the test got its cluster:")
        lines += [f"  {fault.words()}" for fault in faults[:_FAULTS_SHOWN]]
        lines += [f"  and {len(faults) - _FAULTS_SHOWN} more"] if len(faults) > _FAULTS_SHOWN else []
    else:
        lines.append("no fault was applied")
    some = gone if shown is None else gone[:shown]
    more = "" if len(some) == len(gone) else f"the first {len(some)}, all of them with pytest -vv: "
    lines.append(f"records: {more}{', '.join(map(_shown, some))}")
    return lines


def _cut_words(cuts: Iterable[Cut]) -> list[str]:
    """Ranges that overlap are one: several replicas cut off the same tail."""
    merged: list[tuple[str, int, int]] = []
    for where, first, end in sorted((f"{cut.topic}-{cut.partition}", cut.first_offset, cut.end_offset) for cut in cuts):
        if merged and merged[-1][0] == where and first <= merged[-1][2]:
            merged[-1] = (where, merged[-1][1], max(end, merged[-1][2]))
        else:
            merged.append((where, first, end))
    return [f"offsets {first}-{end - 1} of {where} truncated" for where, first, end in merged]


def _decisive(faults: Sequence[Fault], cuts: Sequence[Cut]) -> list[str]:
    """What ended the brokers whose logs were cut; where nothing was cut, every fault."""
    cut = {str(one.broker) for one in cuts}
    own = [fault for fault in faults if not cut or cut & set(fault.resolved)]
    return [f"{fault._who()} {fault.label} at {fault.began_s:.1f} s" for fault in own[:3]]


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= _CHARACTERS_MAX else f"{text[: _CHARACTERS_MAX - 1]}…"
