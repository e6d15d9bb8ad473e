"""The figures of each cell, and whether they may be used. `harness compare` compares them. Pure.

`runlog/records/measurements.py` has the record of results/measurements.json.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from reports.evidence.configuration import configuration_of
from reports.figures.gaps import gap_error_us
from reports.figures.sweep.observations import BROKER_CPU, Observation
from reports.judge.judged import Judged
from reports.judge.noise import host_noise
from reports.read.model import PREDICTED_KINDS
from runlog.records.measurements import FigureState, Measurement


def knows_compiler(cells: Sequence[Measurement]) -> bool:
    """Whether broker CPU is without the compilers' part in all cells that have it."""
    return all(cell.compiler_us_per_record is not None for cell in cells if BROKER_CPU in cell.values)


def with_compiler(cell: Measurement) -> Measurement:
    """The same with broker CPU as runs have it that did not record the compiler's part."""
    cpu = cell.values.get(BROKER_CPU)
    if cell.compiler_us_per_record is None or cpu is None:
        return cell
    values = {**cell.values, BROKER_CPU: cpu + cell.compiler_us_per_record}
    return replace(cell, values=values, compiler_us_per_record=None)


def configuration_name(cell_id: str) -> str:
    """The cell id without the number of the repetition. A cell that ran once has none."""
    return re.sub(r"-r\d+$", "", cell_id)


def measure(judged: Sequence[Judged], observations: Sequence[Observation]) -> list[Measurement]:
    """`observations` are of the sweep's cells (`observe`)."""
    by_cell = {item.cell_id: item for item in observations}
    return [_measurement(item, by_cell.get(item.facts.cell.cell_id)) for item in judged]


def _measurement(item: Judged, observation: Observation | None) -> Measurement:
    facts, cell = item.facts, item.facts.cell
    error_us = gap_error_us(cell.record.outcome.load_hosts)
    return Measurement(
        cell_id=cell.cell_id,
        name=configuration_name(cell.cell_id),
        title=cell.title,
        kind=cell.kind,
        round=cell.record.round_number,
        state=observation.state if observation else FigureState.OK,
        reason=observation.reason if observation else "",
        verdict=item.verdict.result,
        verdict_reason=item.verdict.reasons[0] if item.verdict.reasons else "",
        values=dict(observation.values) if observation else {},
        gap_ms=facts.gap_us / 1000 if facts.gap_us is not None else None,
        damage={kind: facts.set_count(kind) for kind in PREDICTED_KINDS},
        client=cell.record.client,
        engine=cell.record.engine,
        path=cell.record.path,
        durability=_durability(item),
        load=cell.record.workload,
        properties=dict(cell.record.properties),
        compiler_us_per_record=observation.behaviour.compiler_us_per_record if observation else None,
        noise=host_noise(item.facts),
        fork=observation.fork if observation else 1,
        security=cell.record.security,
        gap_clock_error_ms=None if error_us is None else error_us / 1000,
    )


def _durability(item: Judged) -> dict[str, str]:
    """What an acknowledgement promises: two runs that differ here measure two different services."""
    cell = item.facts.cell
    own = configuration_of(cell)
    effective = cell.record.outcome.effective
    flushes = ((effective.broker, "log.flush.interval.messages"), (effective.topic, "flush.messages"))
    flush = {name: settings[name] for settings, name in flushes if name in settings}
    return {
        "acks": own.acks,
        "idempotence": "on" if own.idempotence else "off",
        "replication factor": str(own.replication_factor),
        "min.insync.replicas": str(own.min_isr),
        "unclean election": "on" if own.unclean_election else "off",
        **flush,
    }
