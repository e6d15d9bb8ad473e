"""Generator health of each cell: how late and how busy the load generator was. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reports.evidence.asked import achieved_ratio
from reports.judge.broker_cpu import still_warming
from reports.judge.judged import Judged
from reports.judge.noise import disturbance, host_noise
from reports.judge.verdict import ceiling_share, generator_ceiling_per_s
from reports.read.cell import Json
from runlog.quality.criteria import Criteria

SERIES: Final = {
    "cpu_share_busiest": "generator CPU, of a core",
    "ceiling_share": "rate, of the generator's ceiling",
    "foreign_share": "foreign CPU, of all cores",
}
# (heading of the page, name in the CSV, factor)
COLUMNS: Final = (
    ("asked rate sent %", "achieved_share", 100.0),
    ("busiest process, % of a core", "cpu_share_busiest", 100.0),
    ("ceiling of the generator, records/s", "ceiling_records_per_s", 1.0),
    ("share of that ceiling %", "ceiling_share", 100.0),
    ("schedule lag p99 ms", "schedule_lag_us_p99", 1e-3),
    ("lag max ms", "schedule_lag_us_max", 1e-3),
    ("late sends", "late_sends", 1.0),
    ("refused for space", "backpressure_sends", 1.0),
    ("never sent", "unsent", 1.0),
    ("garbage collection ms", "gc_ms", 1.0),
    ("longest collection ms", "gc_ms_max", 1.0),
    ("hub p99 ms", "hub_lag_us_p99", 1e-3),
    ("foreign CPU %", "foreign_share", 100.0),
    ("stolen CPU %", "steal_share", 100.0),
    ("CPU pressure %", "psi_cpu_some_avg10", 1.0),
    ("IO pressure %", "psi_io_some_avg10", 1.0),
    ("memory pressure %", "psi_memory_some_avg10", 1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorRow:
    """`values` by the names of COLUMNS; None where it was not recorded."""

    cell_id: str
    title: str
    values: Mapping[str, float | None]
    mark: str

    def shown(self) -> list[float | None]:
        """In the units of the headings."""
        return [_scaled(self.values[name], factor) for _, name, factor in COLUMNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the generator reached by itself. `values` by the names of CERTIFICATE_COLUMNS."""

    id: str | None
    client: str | None
    shape: str | None
    settings: str
    values: Mapping[str, Any]

    def shown(self) -> list[float | None]:
        return [_scaled(self.values[name], factor) for _, name, factor in CERTIFICATE_COLUMNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePoint:
    order: int
    title: str
    share: float
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorFigures:
    certification: str
    problems: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    rows: tuple[GeneratorRow, ...]
    shares: tuple[SharePoint, ...]
    limits: tuple[Limit, ...]  # above which a figure may be the client's


def generator_figures(judged: Sequence[Judged], manifest: Json) -> GeneratorFigures:
    rows = tuple(_row(item) for item in judged)
    criteria = Criteria()
    certification = manifest.get("certification")
    problems = certification.get("problems") if isinstance(certification, dict) else None
    return GeneratorFigures(
        certification=certification_sentence(manifest),
        problems=tuple(str(one) for one in problems) if isinstance(problems, list) else (),
        certificates=certificates_of(manifest),
        rows=rows,
        shares=_shares(rows),
        limits=(Limit(share=criteria.generator_cpu_share_max), Limit(share=criteria.generator_ceiling_share_max)),
    )


def _row(item: Judged) -> GeneratorRow:
    cell = item.facts.cell
    return GeneratorRow(cell_id=cell.cell_id, title=cell.title, values=figures(item), mark=mark(item))


def _shares(rows: Sequence[GeneratorRow]) -> tuple[SharePoint, ...]:
    return tuple(
        SharePoint(order=order, title=row.title, share=round(value, 3), series=series)
        for order, row in enumerate(rows, start=1)
        for name, series in SERIES.items()
        if (value := row.values[name]) is not None
    )


def _scaled(value: object, factor: float) -> float | None:
    return value * factor if isinstance(value, int | float) else None


def figures(item: Judged) -> dict[str, float | None]:
    """Name of the CSV -> value; None where it was not recorded."""
    health: Json = item.facts.cell.outcome.get("health") or {}
    noise = host_noise(item.facts, window_only=True)
    shares = health.get("cpu_share_by_process")
    busiest = max(shares) if isinstance(shares, list) and shares else health.get("cpu_share")
    found: dict[str, Any] = {
        **health,
        **noise,
        "achieved_share": achieved_ratio(item.facts),
        "cpu_share_busiest": busiest,
        "ceiling_records_per_s": generator_ceiling_per_s(item.facts),
        "ceiling_share": ceiling_share(item.facts),
    }
    return {
        name: float(value) if isinstance(value := found.get(name), int | float) else None for _, name, _ in COLUMNS
    }  # fmt: skip


def mark(item: Judged) -> str:
    """What the reader must know of the cell: client-bound, disturbed, brokers still warming."""
    bound = [c.reason for c in item.verdict.checks if c.result != "pass" and "client-bound" in c.reason]
    return "; ".join([*bound, *filter(None, [disturbance(item.facts), still_warming(item.facts, Criteria())])])


CERTIFICATE_COLUMNS: Final = (
    ("ceiling, records/s", "records_per_s", 1.0),
    ("window s", "window_s", 1.0),
    ("tries", "attempts", 1.0),
    ("busiest process, % of a core", "cpu_share_busiest", 100.0),
    ("null broker, % of a core", "broker_cpu_share", 100.0),
    ("longest collection ms", "gc_ms_max", 1.0),
    ("hub p99 ms", "hub_lag_us_p99", 1e-3),
    ("foreign CPU %", "foreign_share", 100.0),
    ("disturbed", "disturbed", 1.0),
)


def _certificates(manifest: Json) -> list[Json]:
    certification = manifest.get("certification")
    found = certification.get("certificates") if isinstance(certification, dict) else None
    rows = [dict(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [{**one, "cpu_share_busiest": max(one.get("cpu_share_by_process") or [0.0])} for one in rows]


def certificates_of(manifest: Json) -> tuple[Certificate, ...]:
    return tuple(
        Certificate(
            id=one.get("id"),
            client=one.get("client"),
            shape=one.get("shape"),
            settings=_settings(one),
            values={name: one.get(name) for _, name, _ in CERTIFICATE_COLUMNS},
        )
        for one in _certificates(manifest)
    )


def _settings(certificate: Json) -> str:
    properties = certificate.get("properties")
    return " ".join(f"{name}={value}" for name, value in properties.items()) if isinstance(properties, dict) else ""


def certification_sentence(manifest: Json) -> str:
    """Whether the generator was measured by itself before the run, and what doubt there is."""
    found = manifest.get("certification")
    if not isinstance(found, dict):
        return "The generator was not certified: the run is older than that, or ended before."
    rows = _certificates(manifest)
    why = f": {found['why']}" if found.get("why") else ""
    if not rows:
        return f"The generator was not certified ({found.get('status')}{why})."
    doubt = " Others ran meanwhile: the true ceilings are higher." if any(one.get("disturbed") for one in rows) else ""
    return (
        f"Before the first cell the generator was run by itself, as fast as it goes, against a broker that stores "
        f"nothing: {len(rows)} shape{'s' if len(rows) > 1 else ''} in {found.get('seconds', 0):.0f} s.{doubt}"
    )
