"""From a suite to the cells of a run, in the order in which they are carried out. Pure: same suite, same seed, same
plan.

A sweep's configurations are those of its design (sweep_plan.py), each once a round; their order is shuffled by the
seed, so that a host that warms up or slows down does not favour a knob. Chaos cells follow in the suite's order.
Shown by tests/harness/test_harness_plan.py.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from harness.designs import ONE_AT_A_TIME
from harness.limit_cells import check_limits, limits_of
from harness.suite import BASELINE, KAFKA_DEFAULTS, KNOBS, ChaosEntry, Search, Suite, Sweep
from harness.sweep_plan import SweepConfiguration, sweep_configurations
from workloads.model import Workload, copy_topic, topic_names

Expectation = Literal["none", "predicted", "exact", "any"]
# Kafka allows 249 characters. This leaves room for what is appended (-copy, -t12, a group's name).
_TOPIC_NAME_MAX: Final = 200
NO_DAMAGE: Final[Mapping[str, str]] = {"lost": "none", "duplicated": "none", "reordered": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioCase:
    """What the plan must know about one case of a chaos scenario. scenarios.py makes it from chaos' model."""

    scenario: str
    case: str
    reference: str = ""  # the name or path by which the scenario is found again
    title: str
    because: str = ""
    about: str = ""  # the scenario in words
    source: str = ""
    damage: str
    expect: Mapping[str, str]
    properties: Mapping[str, str] = field(default_factory=dict)
    topic_config: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    replication_factor: int | None = None
    broker_settings: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)  # values as the workload model takes them
    brokers: int = 3
    engines: Sequence[str] = ("reference", "kafka")
    clients: Sequence[str] = ()
    tags: Sequence[str] = ()
    has_faults: bool = True
    until_done: bool = False
    criteria: Sequence[Mapping[str, Any]] = ()  # as the document of a cell has them


def own_name(mark: str, text: str) -> str:
    """A legal topic name of at most 200 characters that begins with `mark`. Different texts give different names."""
    legal = re.sub(r"[^A-Za-z0-9._-]", "-", text)
    if legal != text or len(mark) + 1 + len(legal) > _TOPIC_NAME_MAX:
        digest = hashlib.blake2s(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
        legal = f"{legal[: _TOPIC_NAME_MAX - len(mark) - len(digest) - 2]}-{digest}"
    return f"{mark}-{legal}"


CasesOf = Callable[[ChaosEntry], Sequence[ScenarioCase]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    cell_id: str
    kind: Literal["sweep", "chaos", "search"]
    title: str
    client: str
    repetition: int
    properties: Mapping[str, str]
    topic_config: Mapping[str, str]
    partitions: int
    replication_factor: int
    workload: Workload
    broker_settings: Mapping[str, str]
    proxied: bool
    baseline: bool
    expect: Mapping[str, str]
    seed: int
    changed: str = ""  # the setting in which a cell of a one-at-a-time sweep differs from the baseline
    factors: Mapping[str, str] = field(default_factory=dict)  # the swept settings and their values in this cell
    note: str = ""
    about: str = ""  # what the scenario does, and where it comes from
    source: str = ""
    scenario: str = ""
    scenario_reference: str = ""
    case: str = ""
    damage: str = ""
    brokers: int | None = None  # None: as many as the suite's cluster has
    engines: Sequence[str] = ("reference", "kafka", "external")
    clients: Sequence[str] = ()  # empty: all
    tags: Sequence[str] = ()
    fork: int = 1  # which of the sweep's clusters it runs on
    has_faults: bool = False
    until_done: bool = False  # the load ends with the timeline; measure_ms is the longest
    criteria: Sequence[Mapping[str, Any]] = ()
    limits: Sequence[str] = ()  # of the suite, that hold for this cell
    mark: str = ""  # of the run; everything that the cell makes on a cluster begins with it

    def marked(self, mark: str) -> PlannedCell:
        """The cell as it is carried out: with the mark, so that its names on the cluster are unique."""
        return replace(self, mark=mark)

    @property
    def knobs(self) -> dict[str, str]:
        """The five settings that the reports compare."""
        return {name: self.properties.get(name, KAFKA_DEFAULTS[name]) for name in KNOBS}

    @property
    def topic_name(self) -> str:
        """Also the beginning of the names of groups and transactional ids."""
        assert self.mark, "a cell that is carried out is marked: a bare cell id may be the name of anybody's topic"
        return own_name(self.mark, self.cell_id)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """All topics of the cell; the first is `topic_name`."""
        return topic_names(self.topic_name, self.workload.topics)

    @property
    def all_topics(self) -> tuple[str, ...]:
        """With the one that copiers write to."""
        return (*self.topic_names, *((copy_topic(self.topic_name),) if self.workload.has_copiers else ()))

    @property
    def duration_ms(self) -> int:
        return self.workload.warmup_ms + self.workload.measure_ms


def build_plan(suite: Suite, cases_of: CasesOf, *, seed: int, client: str) -> tuple[PlannedCell, ...]:
    """All cells in the order of execution. The ids are unique."""
    cells: list[PlannedCell] = []
    if suite.sweep is not None:
        cells += _sweep_cells(suite, suite.sweep, seed=seed, client=client)
    for entry in suite.chaos:
        for case in cases_of(entry):
            cells += [
                _chaos_cell(suite, case, seed=seed, client=client, repetition=number, repetitions=entry.repetitions)
                for number in range(1, entry.repetitions + 1)
            ]
    ids = [cell.cell_id for cell in cells]
    assert len(ids) == len(set(ids)), f"cell ids are not unique: {sorted(ids)}"
    check_limits(suite, cells)
    return tuple(replace(cell, limits=limits_of(suite, cell)) for cell in cells)


def _sweep_cells(suite: Suite, sweep: Sweep, *, seed: int, client: str) -> list[PlannedCell]:
    configurations = sweep_configurations(suite, sweep, seed=seed)
    cells = []
    for repetition in range(1, sweep.repetitions + 1):
        suffix = f"-r{repetition}" if sweep.repetitions > 1 else ""
        round_cells = [
            _sweep_cell(suite, sweep, one, suffix=suffix, seed=seed, client=client, repetition=repetition)
            for one in configurations
        ]
        # Each repetition is a round. Drift within the run then shows as a difference between rounds.
        random.Random(f"{seed}/{repetition}").shuffle(round_cells)
        cells += round_cells
    return cells


def _sweep_cell(
    suite: Suite, sweep: Sweep, one: SweepConfiguration, *, suffix: str, seed: int, client: str, repetition: int
) -> PlannedCell:
    topic = {**suite.topic.model_dump(), **one.topic}
    workload = suite.workload.model_validate({**suite.workload.model_dump(), **one.workload})
    # If values are combined, the settings that one of them demands would be repeated in half of the titles.
    title = one.title + (f" ({one.note})" if one.note and sweep.design == ONE_AT_A_TIME else "")
    # If nothing varies and the cell has a name, readers do not see it as a sweep.
    prefix = "sweep" if sweep.vary or sweep.baseline_name == BASELINE else _safe(suite.name)
    if workload.is_closed_loop:
        title += " [closed loop]"
    return PlannedCell(
        cell_id=f"{prefix}-{_safe(one.name)}{suffix}",
        kind="sweep",
        title=title,
        client=client,
        repetition=repetition,
        fork=sweep.fork_of(repetition),
        properties={**suite.properties, **sweep.baseline, **one.properties},
        topic_config=suite.topic.config,
        partitions=int(topic["partitions"]),
        replication_factor=int(topic["replication_factor"]),
        workload=workload,
        broker_settings=suite.cluster.settings,
        proxied=sweep.proxied,
        baseline=not one.changed,
        expect=NO_DAMAGE,
        seed=seed,
        changed=one.changed if sweep.design == ONE_AT_A_TIME else "",
        factors=one.factors,
        note=one.note,
    )


def search_cell(
    suite: Suite, search: Search, rate_per_s: float, *, number: int, fraction: float | None, seed: int, client: str
) -> PlannedCell:
    """One try of a rate search. With `fraction` it is a point of the load curve, and `number` counts the repetitions of
    that point."""
    rate = float(f"{rate_per_s:.4g}")
    name = f"search-probe-{number}" if fraction is None else f"search-load-{round(fraction * 100)}-r{number}"
    title = (
        f"try {number}: {rate:g} records/s" if fraction is None else f"{fraction:.0%} of the limit: {rate:g} records/s"
    )
    cell = PlannedCell(
        cell_id=name,
        kind="search",
        title=title,
        client=client,
        repetition=number,
        properties={**suite.properties, **search.properties},
        topic_config=suite.topic.config,
        partitions=suite.topic.partitions,
        replication_factor=suite.topic.replication_factor,
        workload=suite.workload.model_copy(update={"rate_per_s": rate}),
        broker_settings=suite.cluster.settings,
        proxied=False,
        baseline=False,
        expect=NO_DAMAGE,
        seed=seed,
    )
    return replace(cell, limits=limits_of(suite, cell))


def first_try(suite: Suite, client: str) -> tuple[PlannedCell, ...]:
    """The first cell of a rate search. Its settings can be checked before the search runs. Empty without a search."""
    search = suite.search
    if search is None:
        return ()
    return (search_cell(suite, search, search.low_per_s, number=1, fraction=None, seed=suite.seed, client=client),)


def _chaos_cell(
    suite: Suite, case: ScenarioCase, *, seed: int, client: str, repetition: int, repetitions: int
) -> PlannedCell:
    baseline = suite.sweep.baseline if suite.sweep is not None else {}
    suffix = f"-r{repetition}" if repetitions > 1 else ""
    return PlannedCell(
        cell_id=f"chaos-{_safe(case.scenario)}-{_safe(case.case)}{suffix}",
        kind="chaos",
        title=case.title,
        client=client,
        repetition=repetition,
        properties={**suite.properties, **baseline, **case.properties},
        topic_config={**suite.topic.config, **case.topic_config},
        partitions=case.partitions or suite.topic.partitions,
        replication_factor=case.replication_factor or suite.topic.replication_factor,
        workload=suite.workload.model_validate({**suite.workload.model_dump(), **case.workload}),
        broker_settings={**suite.cluster.settings, **case.broker_settings},
        proxied=True,
        baseline=False,
        expect={**NO_DAMAGE, **case.expect},
        seed=seed,
        note=case.because,
        about=case.about,
        source=case.source,
        scenario=case.scenario,
        scenario_reference=case.reference or case.scenario,
        case=case.case,
        damage=case.damage,
        brokers=max(case.brokers, case.replication_factor or 1),
        engines=case.engines,
        clients=case.clients,
        tags=case.tags,
        has_faults=case.has_faults,
        until_done=case.until_done,
        criteria=case.criteria,
    )


def _safe(text: str) -> str:
    """A part of a cell id: a directory name of Spark's partitioning too, so neither slash nor equals sign."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)
