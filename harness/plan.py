"""From a suite to the cells of a run, in the order in which they are carried out. Pure: same suite, same seed, same
plan.

A sweep's configurations are those of its design (sweep_plan.py), each once a round; their order is shuffled by the
seed, so that a host that warms up or slows down does not favour a knob. Chaos cells follow in the suite's order.
Shown by tests/harness/test_harness_plan.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chaos.model import Expect, Scenario
from harness.cluster_security import ClusterSecurity
from harness.designs import ONE_AT_A_TIME
from harness.errors import UsageError
from harness.limit_cells import check_limits, limits_of
from harness.planned_cell import PlannedCell, new_record
from harness.suite import BASELINE, Ceiling, ChaosEntry, Search, Suite, Sweep
from harness.sweep_plan import MECHANISM, SECURITY, SweepConfiguration, security_of, sweep_configurations
from reports.judge.limit_scope import CEILING_PREFIX
from runlog.records.cell import (
    CellKind,
    CriterionRecord,
    Expectation,
    Expectations,
    Shown,
    TopicRecord,
)
from workloads.model import RATE_MAX_PER_S, Closed, Workload

SWEEP_PREFIX: Final = "sweep-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioCase:
    """The scenarios and cases that the entries of the suite ask for."""

    reference: str  # the name or path by which the scenario is found again
    scenario: Scenario
    name: str


CasesOf = Callable[[ChaosEntry], Sequence[ScenarioCase]]


def build_plan(
    suite: Suite, cases_of: CasesOf, *, seed: int, client: str, sweep_client: str | None = None
) -> tuple[PlannedCell, ...]:
    """All cells in the order of execution. The ids are unique. `sweep_client`: of the sweep, if it has another one."""
    cells: list[PlannedCell] = []
    if suite.sweep is not None:
        cells += _sweep_cells(suite, suite.sweep, seed=seed, client=sweep_client or client)
    for index, entry in enumerate(suite.chaos):
        for case in _cases(suite, index, cases_of):
            cells += [
                _chaos_cell(suite, case, seed=seed, client=client, repetition=number, repetitions=entry.repetitions)
                for number in range(1, entry.repetitions + 1)
            ]
    ids = [cell.cell_id for cell in cells]
    assert len(ids) == len(set(ids)), f"cell ids are not unique: {sorted(ids)}"
    check_limits(suite, cells)
    return tuple(_limited(suite, cell) for cell in cells)


def _cases(suite: Suite, index: int, cases_of: CasesOf) -> Sequence[ScenarioCase]:
    """UsageError with the line of the suite that names the scenario."""
    try:
        return cases_of(suite.chaos[index])
    except UsageError as error:
        named = suite.source.data.get("chaos") if suite.source is not None else None
        if suite.source is None or not isinstance(named, list) or len(named) != len(suite.chaos):
            raise  # scenarios of the command line
        raise UsageError(f"{suite.source.place_of(('chaos', index))}: chaos.{index}: {error}") from error


def _limited(suite: Suite, cell: PlannedCell) -> PlannedCell:
    """The cell with the limits of the suite that apply to it."""
    return replace(cell, record=replace(cell.record, limits=tuple(limits_of(suite, cell))))


def _sweep_cells(suite: Suite, sweep: Sweep, *, seed: int, client: str) -> list[PlannedCell]:
    configurations = sweep_configurations(suite, sweep, seed=seed)
    baseline = next(one for one in configurations if not one.changed)
    others = len(configurations) - 1
    # On clusters of their own the rounds are the samples, and a second run in a round is none.
    runs = 1 if SECURITY in sweep.vary or MECHANISM in sweep.vary else sweep.runs_of_baseline(others)
    cells = []
    for repetition in range(1, sweep.repetitions + 1):
        suffix = f"-r{repetition}" if sweep.repetitions > 1 else ""
        round_cells = [
            _sweep_cell(suite, sweep, one, suffix=suffix, seed=seed, client=client, repetition=repetition)
            for one in configurations
        ]
        # More runs of the baseline have numbers of their own, after those of all rounds.
        round_cells += [
            _sweep_cell(
                suite, sweep, baseline, suffix=f"-r{number}", seed=seed, client=client, repetition=number,
                in_round=repetition,
            )
            for number in range(sweep.repetitions + repetition, sweep.repetitions * runs + 1, sweep.repetitions)
        ]  # fmt: skip
        if sweep.ceiling is not None:
            round_cells += [_ceiling_cell(cell, sweep.ceiling) for cell in round_cells]
        # Each repetition is a round. Drift within the run then shows as a difference between rounds.
        random.Random(f"{seed}/{repetition}").shuffle(round_cells)
        cells += _together(round_cells)
    return cells


def _together(cells: list[PlannedCell]) -> list[PlannedCell]:
    """Cells of one cluster.security stay together, so that a round starts one cluster for each. The seed decides their
    order."""
    order = list(dict.fromkeys(cell.security for cell in cells))
    return sorted(cells, key=lambda cell: order.index(cell.security))


def _sweep_cell(
    suite: Suite, sweep: Sweep, one: SweepConfiguration, *, suffix: str, seed: int, client: str, repetition: int,
    in_round: int | None = None,
) -> PlannedCell:  # fmt: skip
    """`in_round` is its round if that is not its repetition."""
    topic = {**suite.topic.model_dump(), **one.topic}
    workload = suite.workload.model_validate({**suite.workload.model_dump(), **one.workload})
    # If values are combined, the settings that one of them demands would be repeated in half of the titles.
    title = one.title + (f" ({one.note})" if one.note and sweep.design == ONE_AT_A_TIME else "")
    # If nothing varies and the cell has a name, readers do not see it as a sweep.
    prefix = SWEEP_PREFIX if sweep.vary or sweep.baseline_name == BASELINE else f"{_safe(suite.name)}-"
    if workload.is_closed_loop:
        title += " [closed loop]"
    record = new_record(
        cell_id=f"{prefix}{_safe(one.name)}{suffix}",
        kind=CellKind.SWEEP,
        title=title,
        client=one.client or client,
        repetition=repetition,
        properties={**suite.properties, **sweep.baseline, **one.properties},
        topic=TopicRecord(
            name=None,
            partitions=int(topic["partitions"]),
            replication_factor=int(topic["replication_factor"]),
            config=suite.topic.config,
        ),
        broker_settings=suite.cluster.settings,
        log_directories=suite.cluster.log_directories,
        racks=suite.cluster.racks,
        proxied=sweep.proxied,
        seed=seed,
    )
    of_sweep = replace(
        record,
        # Each round then starts its clusters anew.
        fork=repetition if SECURITY in sweep.vary or MECHANISM in sweep.vary else sweep.fork_of(in_round or repetition),
        round=in_round,
        baseline=not one.changed,
        changed=one.changed if sweep.design == ONE_AT_A_TIME else "",
        factors=one.factors,
        note=one.note,
    )
    return PlannedCell(record=of_sweep, workload=workload).secured(one.security)


def ceiling_id(sweep_cell_id: str) -> str:
    """The id of the cell that measures the ceiling of the same configuration in the same round."""
    return f"{CEILING_PREFIX}{sweep_cell_id.removeprefix(SWEEP_PREFIX)}"


def _ceiling_cell(paced: PlannedCell, ceiling: Ceiling) -> PlannedCell:
    """The same configuration in the same round, as fast as it can send. It is a cell of its own, so that a queue of one
    window never shows in the latency of the other."""
    record = replace(
        paced.record,
        cell_id=ceiling_id(paced.cell_id),
        kind=CellKind.CEILING,
        title=f"{paced.title} [ceiling]",
    )
    workload = Workload.model_validate(
        {
            **paced.workload.model_dump(),
            "rate_per_s": RATE_MAX_PER_S,
            "schedule": Closed(kind="closed", outstanding=ceiling.outstanding),
            "warmup_ms": ceiling.warmup_ms,
            "measure_ms": ceiling.measure_ms,
            "consumers": 0,
            "readers": (),
            "records_per_burst": 1,
            "processes": min(paced.workload.processes, paced.workload.producers),
        }
    )
    return replace(paced, record=record, workload=workload)


def search_cell(
    suite: Suite, search: Search, rate_per_s: float, *, number: int, fraction: float | None, seed: int, client: str,
    settle: bool = False,
) -> PlannedCell:  # fmt: skip
    """One try of a rate search. With `fraction` it is a point of the load curve, and `number` counts the repetitions of
    that point. `settle`: the try before overloaded the cluster, so this one warms up for longer."""
    rate = float(f"{rate_per_s:.4g}")
    name = f"search-probe-{number}" if fraction is None else f"search-load-{round(fraction * 100)}-r{number}"
    title = (
        f"try {number}: {rate:g} records/s"
        if fraction is None
        else f"{fraction:.0%} of the kept rate: {rate:g} records/s"
    )
    record = new_record(
        cell_id=name,
        kind=CellKind.SEARCH,
        title=title,
        client=client,
        repetition=number,
        properties={**suite.properties, **search.properties},
        topic=_topic(suite),
        broker_settings=suite.cluster.settings,
        log_directories=suite.cluster.log_directories,
        racks=suite.cluster.racks,
        proxied=False,
        seed=seed,
    )
    warmup_ms = suite.workload.warmup_ms + (search.settle_ms if settle else 0)
    workload = suite.workload.model_copy(update={"rate_per_s": rate, "warmup_ms": warmup_ms})
    return _limited(suite, PlannedCell(record=record, workload=workload).secured(security_of(suite)))


def _topic(suite: Suite) -> TopicRecord:
    """The topic without its name, which is known only when the cell runs."""
    topic = suite.topic
    return TopicRecord(
        name=None, partitions=topic.partitions, replication_factor=topic.replication_factor, config=topic.config
    )


def first_try(suite: Suite, client: str) -> tuple[PlannedCell, ...]:
    """The first cell of a rate search. Its settings can be checked before the search runs. Empty without a search."""
    search = suite.search
    if search is None:
        return ()
    return (search_cell(suite, search, search.low_per_s, number=1, fraction=None, seed=suite.seed, client=client),)


def _chaos_cell(
    suite: Suite, chosen: ScenarioCase, *, seed: int, client: str, repetition: int, repetitions: int
) -> PlannedCell:
    scenario, name = chosen.scenario, chosen.name
    case, topic = scenario.cases[name], _topic(suite)
    baseline = suite.sweep.baseline if suite.sweep is not None else {}
    suffix = f"-r{repetition}" if repetitions > 1 else ""
    record = new_record(
        cell_id=f"chaos-{_safe(scenario.name)}-{_safe(name)}{suffix}",
        kind=CellKind.CHAOS,
        title=f"{scenario.name}: {case.title}",
        client=client,
        repetition=repetition,
        properties={**suite.properties, **baseline, **scenario.properties_of(name)},
        topic=replace(
            topic,
            partitions=scenario.topic.partitions,
            replication_factor=scenario.topic.replication_factor,
            config={**topic.config, **scenario.topic_config_of(name)},
        ),
        broker_settings={**suite.cluster.settings, **scenario.broker_settings_of(name)},
        log_directories=max(suite.cluster.log_directories, scenario.log_directories),
        racks=scenario.racks or suite.cluster.racks,
        proxied=True,
        seed=seed,
    )
    of_scenario = replace(
        record,
        scenario=scenario.name,
        case=name,
        damage=scenario.damage,
        note=case.because,
        about=f"{scenario.title}. {scenario.description.strip()}",
        source=scenario.source.strip(),
        expect=_expectations(case.expect),
        criteria=tuple(
            CriterionRecord(text=item.text, figure=item.figure, limit=item.limit) for item in scenario.criteria_of(name)
        ),
        tags=scenario.tags,
        has_faults=scenario.has_faults,
    )
    return PlannedCell(
        record=of_scenario,
        workload=suite.workload.model_validate({**suite.workload.model_dump(), **scenario.workload_of(name)}),
        brokers=max(scenario.brokers, scenario.topic.replication_factor),
        releases=suite.cluster.releases or scenario.releases,
        engines=(*scenario.engines, *(("external",) if scenario.is_client_side else ())),
        is_for_fault_hosts=scenario.is_for_fault_hosts,
        clients=scenario.clients,
        scenario_reference=chosen.reference,
        until_done=scenario.until_done,
    ).secured(_security_of_scenario(suite, scenario))


def _security_of_scenario(suite: Suite, scenario: Scenario) -> ClusterSecurity:
    """The scenario overrides the suite."""
    said = {SECURITY: scenario.security, MECHANISM: scenario.sasl_mechanism}
    found = security_of(suite, {name: value for name, value in said.items() if value})
    return replace(found, is_authorized=scenario.authorization)


def _expectations(expect: Expect) -> Expectations:
    return Expectations(
        lost=Expectation(expect.lost),
        duplicated=Expectation(expect.duplicated),
        reordered=Expectation(expect.reordered),
        lost_unacked=Shown(expect.lost_unacked),
        passed_over=Shown(expect.passed_over),
    )


def _safe(text: str) -> str:
    """A part of a cell id. It is also a directory name of Spark's partitioning, so it has no slash and no equals
    sign."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)
