"""May these two runs be compared at all? Host, engine, path, durability and load must be alike. Pure.

The subject of the comparison may differ: versions, client, and client settings that promise nothing. It is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.measurements import knows_compiler
from reports.figures.sweep.number_words import rounded
from runlog.quality.noise import FOREIGN_SHARE, STEAL_SHARE
from runlog.records.codec import to_json
from runlog.records.measurements import Measurement
from runlog.records.run import HostRecord, RunRecord
from runlog.records.stats import HostFigure
from runlog.records.workload import WorkloadRecord

_MEMORY_TOLERANCE: Final = 0.02  # kernels reserve a little more or less
_ONE_AFTER_THE_OTHER: Final = (
    "BASE and NEW were measured one after the other: what changed on the host in between counts as difference too"
)
NOT_QUIET: Final = "the host was not equally quiet"  # then no figure decides
_NOISE_FACTOR: Final = 2.0
# Pressure is reported and does not decide: on a small host the measured processes cause it themselves.
_PRESSURE_MIN: Final[Mapping[str, float]] = {HostFigure.CPU_PRESSURE: 10.0}
_TAKEN_MIN: Final[Mapping[str, float]] = {STEAL_SHARE: 0.02, FOREIGN_SHARE: 0.1}
# How far what others left of the processors may lie apart. Capacity goes with it, and 5 % is what `compare` calls a
# change. Of ten like runs while others took 67 to 82 %, seven of 45 pairs were called worse without this rule, although
# no share was twice another (benchmarks/results/2026-11-23-same.md).
_LEFT_APART_MAX: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    unlike: tuple[str, ...]  # reasons to refuse
    differs: tuple[str, ...]  # what is compared
    warnings: tuple[str, ...]
    unequal: tuple[str, ...] = ()  # how much more others took from the host in one run: no figure decides then


def compare_surroundings(
    base_run: RunRecord, new_run: RunRecord, pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]
) -> Likeness:
    """`pairs` are the cells of both runs that have one name."""
    unlike = _hosts(base_run.host, new_run.host)
    differs = _versions(base_run.versions, new_run.versions)
    for base, new in pairs:
        one, other = base[0], new[0]
        unlike += _different("engine", one.engine, other.engine)
        unlike += _different("path", one.path, other.path)
        unlike += [
            line
            for name in sorted({*one.durability, *other.durability})
            for line in _different(
                f"durability, {name}", one.durability.get(name, "unknown"), other.durability.get(name, "unknown")
            )
        ]
        of_base, of_new = _asked(one.load), _asked(other.load)
        unlike += [line for name in of_base for line in _different(f"load, {name}", of_base[name], of_new[name])]
        differs += _different("client", one.client, other.client)
        if one.security and other.security:
            differs += _different("security", one.security, other.security)
        differs += _settings(one.properties, other.properties)
    unequal = _noise(pairs, _TAKEN_MIN) or _left(pairs)
    noise = [f"{NOT_QUIET}: {line}" for line in unequal]
    noise += [f"the host was not under equal pressure: {line}" for line in _noise(pairs, _PRESSURE_MIN)]
    return Likeness(
        unlike=_once(unlike),
        differs=_once(differs),
        warnings=(_ONE_AFTER_THE_OTHER, *noise, *_clusters(pairs), *_compilers(pairs)),
        unequal=unequal,
    )


def _asked(load: WorkloadRecord) -> dict[str, object]:
    """How the load is asked for, not how it is made."""
    return {
        "rate_per_s": load.rate_per_s,
        "record_size_bytes": load.record_size_bytes,
        "compressibility": load.compressibility,
        "producers": load.producers,
        "consumers": load.consumers,
        "keys": load.keys,
        "key_count": load.key_count,
        "measure_ms": load.measure_ms,
        "schedule": to_json(load.schedule),
    }


def _once(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _different(name: str, base: object, new: object) -> list[str]:
    return [] if str(base) == str(new) else [f"{name}: BASE {base}, NEW {new}"]


def _hosts(base: HostRecord, new: HostRecord) -> list[str]:
    lines = [
        *_different("host, system", base.system, new.system),
        *_different("host, machine", base.machine, new.machine),
        *_different("host, cpu", base.cpu, new.cpu),
        *_different("host, cores", base.cores, new.cores),
    ]
    if not _nearly_equal(base.memory_bytes, new.memory_bytes):
        lines += _different("host, memory_bytes", base.memory_bytes, new.memory_bytes)
    return lines


def _nearly_equal(base: int | None, new: int | None) -> bool:
    return base is not None and new is not None and abs(base - new) <= _MEMORY_TOLERANCE * max(base, new)


def _versions(base: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        line
        for name in sorted({*base, *new})
        for line in _different(f"version of {name}", base.get(name, "none"), new.get(name, "none"))
    ]


def _settings(base: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        line
        for name in sorted({*base, *new})
        for line in _different(name, base.get(name, "default"), new.get(name, "default"))
    ]


def _noise(
    pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]], least_of: Mapping[str, float]
) -> tuple[str, ...]:
    """Names the kinds of noise that were much stronger in one run than in the other."""
    lines = []
    for name, least in least_of.items():
        base, new = _means(pairs, name)
        if base is None or new is None or max(base, new) < least:
            continue
        if max(base, new) > _NOISE_FACTOR * max(min(base, new), least / 10):
            lines.append(f"{name} {rounded(base, 3)} in BASE, {rounded(new, 3)} in NEW")
    return tuple(lines)


def _means(
    pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]], name: str
) -> tuple[float | None, float | None]:
    """The means of BASE and NEW over their cells; None if no cell has the figure."""
    sides = [[one.noise[name] for pair in pairs for one in pair[side] if name in one.noise] for side in (0, 1)]
    base, new = (sum(found) / len(found) if found else None for found in sides)
    return base, new


def _left(pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]) -> tuple[str, ...]:
    """What others left of all processors, if that lies apart. Where they take most of it, a little more halves what is
    left, and no share has doubled."""
    base = new = 1.0
    for of_base, of_new in (_means(pairs, name) for name in (FOREIGN_SHARE, STEAL_SHARE)):
        if of_base is not None and of_new is not None:
            base, new = base - of_base, new - of_new
    if abs(base - new) <= _LEFT_APART_MAX * max(base, new):
        return ()
    return (f"others left {base:.0%} of the processors in BASE, {new:.0%} in NEW",)


def _clusters(pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]) -> tuple[str, ...]:
    """A difference between two clusters looks like a change, unless a run has several clusters."""
    sides = [[cell for pair in pairs for cell in pair[side] if cell.kind == "sweep"] for side in (0, 1)]
    single = [name for name, side in zip(("BASE", "NEW"), sides, strict=True) if len({cell.fork for cell in side}) == 1]
    if not single:
        return ()
    return (
        f"{' and '.join(single)} ran on one cluster: what differs from cluster to cluster counts as a difference too "
        "(sweep.forks)",
    )


def _compilers(pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]) -> tuple[str, ...]:
    """An older run of brokers on a JVM beside one that tells their compilers' CPU apart."""
    told = [any(cell.compiler_us_per_record is not None for side in pair for cell in side) for pair in pairs]
    known = [all(knows_compiler(side) for side in pair) for pair in pairs]
    if not any(some and not every for some, every in zip(told, known, strict=True)):
        return ()
    return (
        "one run does not know what the brokers' just-in-time compilers took: broker CPU of both runs contains it, "
        "and depends on the age of the brokers",
    )
