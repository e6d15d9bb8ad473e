"""May these two runs be compared at all? Host, engine, path, durability and load must be alike. Pure.

What the comparison is about may differ: versions, client, client settings that promise nothing. It is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.measurements import Measurement, knows_compiler
from reports.read.cell import Json

_HOST: Final = ("system", "machine", "cpu", "cores", "memory_bytes")
_MEMORY_TOLERANCE: Final = 0.02  # kernels reserve a little more or less
# How the load is asked for, not how it is made.
_LOAD: Final = (
    "rate_per_s", "record_size_bytes", "compressibility", "producers", "consumers", "keys", "key_count", "measure_ms",
    "schedule",
)  # fmt: skip
_NOISE_FACTOR: Final = 2.0
_NOISE_MIN: Final = {"psi_cpu_some_avg10": 10.0, "steal_share": 0.02, "foreign_share": 0.1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    unlike: tuple[str, ...]  # reasons to refuse
    differs: tuple[str, ...]  # what is compared
    warnings: tuple[str, ...]


def compare_surroundings(
    base_manifest: Json, new_manifest: Json, pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]
) -> Likeness:
    """`pairs` are the cells of both runs that have one name."""
    unlike = _hosts(base_manifest, new_manifest)
    differs = _versions(base_manifest, new_manifest)
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
        unlike += [
            line for name in _LOAD for line in _different(f"load, {name}", one.load.get(name), other.load.get(name))
        ]
        differs += _different("client", one.client, other.client)
        differs += _settings(one.properties, other.properties)
    return Likeness(
        unlike=_once(unlike), differs=_once(differs), warnings=(*_noise(pairs), *_clusters(pairs), *_compilers(pairs))
    )


def _once(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _different(name: str, base: object, new: object) -> list[str]:
    return [] if str(base) == str(new) else [f"{name}: BASE {base}, NEW {new}"]


def _hosts(base: Json, new: Json) -> list[str]:
    hosts: list[Json] = [manifest.get("host") or {} for manifest in (base, new)]
    lines: list[str] = []
    for name in _HOST:
        one, other = (host.get(name) for host in hosts)
        if name != "memory_bytes" or not _nearly_equal(one, other):
            lines += _different(f"host, {name}", one, other)
    return lines


def _nearly_equal(base: object, new: object) -> bool:
    if not isinstance(base, int) or not isinstance(new, int):
        return False
    return abs(base - new) <= _MEMORY_TOLERANCE * max(base, new)


def _versions(base: Json, new: Json) -> list[str]:
    one, other = (manifest.get("versions") or {} for manifest in (base, new))
    return [
        line
        for name in sorted({*one, *other})
        for line in _different(f"version of {name}", one.get(name, "none"), other.get(name, "none"))
    ]


def _settings(base: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        line
        for name in sorted({*base, *new})
        for line in _different(name, base.get(name, "default"), new.get(name, "default"))
    ]


def _noise(pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]) -> tuple[str, ...]:
    """The two runs were made one after the other: a host that was busier in one of them looks like a change."""
    lines = [
        "BASE and NEW were measured one after the other: what changed on the host in between counts as difference too"
    ]
    for name, least in _NOISE_MIN.items():
        means = []
        for side in (0, 1):
            found = [item.noise[name] for pair in pairs for item in pair[side] if name in item.noise]
            means.append(sum(found) / len(found) if found else None)
        base, new = means
        if base is None or new is None or max(base, new) < least:
            continue
        if max(base, new) > _NOISE_FACTOR * max(min(base, new), least / 10):
            lines.append(f"the host was not equally quiet: {name} {base:.3g} in BASE, {new:.3g} in NEW")
    return tuple(lines)


def _clusters(pairs: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]]) -> tuple[str, ...]:
    """What differs between two clusters is seen as a change unless a run has several of them."""
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
