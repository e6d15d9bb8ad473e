"""Generator health of each cell: how late and how busy the load generator was. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from reports.evidence.asked import achieved_ratio
from reports.figures.told_columns import ToldColumns, told_columns
from reports.judge.broker_cpu import still_warming
from reports.judge.checks import PASS
from reports.judge.figure_checks import ceiling_limit, ceiling_share, generator_ceiling_per_s
from reports.judge.judged import Judged
from reports.judge.noise import disturbance, host_noise
from reports.read.model import SCHEDULE_LAG, CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.records.cell import CellKind
from runlog.records.load import Health
from runlog.records.run import CertificateRecord, CertificationRecord
from runlog.records.stats import HostFigure

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """All facts about the load generator of a cell."""

    facts: CellFacts
    health: Health
    noise: Mapping[str, float]  # means of the host in the measured window


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[T]):
    heading: str  # The page's heading.
    name: str  # in the CSV
    of: Callable[[T], float | None]  # None: not recorded
    factor: float = 1.0  # from the CSV's unit to the heading's

    def shown(self, value: float | None) -> float | None:
        return None if value is None else value * self.factor


_BUSIEST: Final = "cpu_share_busiest"
_CEILING_SHARE: Final = "ceiling_share"
_FOREIGN: Final = HostFigure.FOREIGN_SHARE.value
_STOLEN: Final = HostFigure.STEAL_SHARE.value


def _pressure(heading: str, figure: HostFigure) -> Column[_Told]:
    return Column(heading=heading, name=figure.value, of=lambda told: told.noise.get(figure))


COLUMNS: Final[Sequence[Column[_Told]]] = (
    Column(heading="asked rate sent %", name="achieved_share", factor=100, of=lambda told: achieved_ratio(told.facts)),
    Column(
        heading="busiest process, % of a core",
        name=_BUSIEST,
        factor=100,
        of=lambda told: told.health.busiest_process_cpu_share,
    ),
    Column(
        heading="generator alone with these settings, records/s",
        name="ceiling_records_per_s",
        of=lambda told: generator_ceiling_per_s(told.facts),
    ),
    Column(
        heading="share of that ceiling %", name=_CEILING_SHARE, factor=100, of=lambda told: ceiling_share(told.facts)
    ),
    Column(
        heading="schedule lag p99 ms",
        name="schedule_lag_us_p99",
        factor=1e-3,
        of=lambda told: told.facts.latency[SCHEDULE_LAG].p99_us or told.health.schedule_lag_us_p99,
    ),
    Column(
        heading="lag max ms",
        name="schedule_lag_us_max",
        factor=1e-3,
        of=lambda told: told.health.schedule_lag_us_max,
    ),
    Column(heading="late sends", name="late_sends", of=lambda told: told.health.late_sends),
    Column(heading="refused for space", name="backpressure_sends", of=lambda told: told.health.backpressure_sends),
    Column(heading="never sent", name="unsent", of=lambda told: told.health.unsent),
    Column(heading="garbage collection ms", name="gc_ms", of=lambda told: told.health.gc_ms),
    Column(heading="longest collection ms", name="gc_ms_max", of=lambda told: told.health.gc_ms_max),
    Column(heading="hub p99 ms", name="hub_lag_us_p99", factor=1e-3, of=lambda told: told.health.hub_lag_us_p99),
    Column(heading="foreign CPU %", name=_FOREIGN, factor=100, of=lambda told: told.noise.get(_FOREIGN)),
    Column(heading="stolen CPU %", name=_STOLEN, factor=100, of=lambda told: told.noise.get(_STOLEN)),
    _pressure("CPU pressure %", HostFigure.CPU_PRESSURE),
    _pressure("IO pressure %", HostFigure.IO_PRESSURE),
    _pressure("memory pressure %", HostFigure.MEMORY_PRESSURE),
)
CERTIFICATE_COLUMNS: Final[Sequence[Column[CertificateRecord]]] = (
    Column(heading="ceiling, records/s", name="records_per_s", of=lambda one: one.records_per_s),
    Column(heading="window s", name="window_s", of=lambda one: one.window_s),
    Column(heading="tries", name="attempts", of=lambda one: one.attempts),
    Column(
        heading="busiest process, % of a core",
        name=_BUSIEST,
        factor=100,
        of=lambda one: max(one.cpu_share_by_process, default=None),
    ),
    Column(
        heading="null broker, % of a core", name="broker_cpu_share", factor=100, of=lambda one: one.broker_cpu_share
    ),
    Column(heading="longest collection ms", name="gc_ms_max", of=lambda one: one.gc_ms_max),
    Column(heading="hub p99 ms", name="hub_lag_us_p99", factor=1e-3, of=lambda one: one.hub_lag_us_p99),
    Column(heading="foreign CPU %", name="foreign_share", factor=100, of=lambda one: one.foreign_share),
    Column(heading="disturbed", name="disturbed", of=lambda one: one.disturbed),
)
SERIES: Final[Mapping[str, str]] = {
    _BUSIEST: "generator CPU, of a core",
    _CEILING_SHARE: "rate, of the generator's ceiling",
    _FOREIGN: "foreign CPU, of all cores",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorRow:
    """`values` by the names of COLUMNS; None where it was not recorded."""

    cell_id: str
    title: str
    values: Mapping[str, float | None]
    mark: str

    def shown(self) -> list[float | None]:
        """The values in the units of the headings."""
        return [column.shown(self.values[column.name]) for column in COLUMNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What the generator reached by itself. `values` by the names of CERTIFICATE_COLUMNS."""

    id: str
    client: str
    shape: str
    settings: str
    values: Mapping[str, float | None]

    def shown(self) -> list[float | None]:
        return [column.shown(self.values[column.name]) for column in CERTIFICATE_COLUMNS]


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
    capacities: str  # how they are judged, because the generator's ceiling is not used; empty: there are none
    problems: tuple[str, ...]
    doubts: tuple[str, ...]  # about the generator's own ceiling
    certificates: tuple[Certificate, ...]
    rows: tuple[GeneratorRow, ...]
    table: ToldColumns[float | None]  # The rows, in the units of the headings.
    shares: tuple[SharePoint, ...]
    limits: tuple[Limit, ...]  # above a limit, the client may be the reason for a figure


def generator_figures(judged: Sequence[Judged], certification: CertificationRecord | None) -> GeneratorFigures:
    """`certification` comes from the run's manifest."""
    rows = tuple(_row(item) for item in judged)
    return GeneratorFigures(
        certification=_certification_sentence(certification),
        capacities=_capacities(judged),
        problems=certification.problems if certification else (),
        doubts=_doubts(certification),
        certificates=tuple(_certificate(one) for one in certification.certificates) if certification else (),
        rows=rows,
        table=told_columns([column.heading for column in COLUMNS], [row.shown() for row in rows]),
        shares=_shares(rows),
        limits=(Limit(share=CRITERIA.generator_cpu_share_max), Limit(share=CRITERIA.generator_ceiling_share_max)),
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


def figures(item: Judged) -> dict[str, float | None]:
    """Name of the CSV -> value; None where it was not recorded."""
    told = _Told(
        facts=item.facts,
        health=item.facts.cell.record.outcome.health,
        noise=host_noise(item.facts, window_only=True),
    )
    values = {column.name: column.of(told) for column in COLUMNS}
    return {name: None if value is None else float(value) for name, value in values.items()}


def mark(item: Judged) -> str:
    """What the reader must know of the cell: client-bound, disturbed, brokers still warming."""
    bound = [c.reason for c in item.verdict.checks if c.result != PASS and "client-bound" in c.reason]
    return "; ".join([*bound, *filter(None, [disturbance(item.facts), still_warming(item.facts)])])


def _certificate(one: CertificateRecord) -> Certificate:
    return Certificate(
        id=one.id,
        client=one.client,
        shape=one.shape,
        settings=" ".join(f"{name}={value}" for name, value in one.properties.items()),
        values={column.name: column.of(one) for column in CERTIFICATE_COLUMNS},
    )


def _capacities(judged: Sequence[Judged]) -> str:
    """How the run checked that the load generator did not limit a capacity."""
    ceilings = [item.facts for item in judged if item.facts.cell.kind is CellKind.CEILING]
    if not ceilings:
        return ""
    shares = [facts.cell.record.outcome.health.limiting_cpu_share for facts in ceilings]
    known = [share for share in shares if share is not None]
    most = f"; the most that was seen is {max(known):.0%}" if known else ""
    unclaimed = sum(bool(ceiling_limit(facts)) for facts in ceilings)
    without = f" {unclaimed} of {len(ceilings)} claim no capacity for that reason." if unclaimed else ""
    return (
        "A capacity is not held against these ceilings, which are of other cells. It is held against the processor "
        f"time of the generator in its own window: from {CRITERIA.generator_cpu_share_max:.0%} of a core on, or "
        f"where that was not recorded, none is claimed{most}.{without}"
    )


def _doubts(found: CertificationRecord | None) -> tuple[str, ...]:
    struck = sum(bool(one.disturbed) for one in found.certificates) if found else 0
    if found is None or not struck:
        return ()
    which = "" if struck == len(found.certificates) else f" for {struck} of {len(found.certificates)} settings"
    return (
        f"what the generator reaches by itself was measured{which} while others ran: the true figure is higher, and "
        "how near a cell came to it is not known",
    )


def _certification_sentence(found: CertificationRecord | None) -> str:
    """Whether the generator was measured by itself before the run, and the doubts about it."""
    if found is None:
        return "The generator was not certified: the run is older than that, or ended before."
    if not found.certificates:
        why = f": {found.why}" if found.why else ""
        return f"The generator was not certified ({found.status}{why})."
    is_disturbed = any(one.disturbed for one in found.certificates)
    doubt = " Others ran meanwhile: the true ceilings are higher." if is_disturbed else ""
    shapes = len(found.certificates)
    return (
        f"Before the first cell the generator was run by itself, as fast as it goes, against a broker that stores "
        f"nothing: {shapes} shape{'s' if shapes > 1 else ''} in {found.seconds:.0f} s.{doubt}"
    )
