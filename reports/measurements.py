"""results/measurements.json: each cell's figures with what they may be used for; what `harness compare` reads.

Written by the analysis, read back without Spark. Owns the file's form and nothing of what is made of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from reports.lawful import configuration_of
from reports.model import PREDICTED_KINDS, Json
from reports.noise import host_noise
from reports.outputs import Judged, replace_text
from reports.sweep.observations import Observation, observe

SCHEMA_VERSION: Final = 1
FILE_NAME: Final = "measurements.json"


class MeasurementsError(Exception):
    """The file is missing or not what this version reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One cell. `name` is the cell without its repetition: cells of two runs with one name are set side by side."""

    cell_id: str
    name: str
    title: str
    kind: str
    round: int
    state: str
    reason: str
    verdict: str
    verdict_reason: str
    values: dict[str, float]  # of sweep cells
    gap_ms: float | None
    damage: dict[str, int]
    client: str
    engine: str
    path: str
    durability: dict[str, str]
    load: dict[str, Any]  # the workload as cell.json has it
    properties: dict[str, str]
    compiler_us_per_record: float | None = None  # not part of broker_cpu; None: part of it, if there is a compiler
    noise: dict[str, float] = field(default_factory=dict)  # means of what the host sampler saw
    fork: int = 1  # number of the cluster that a sweep's cell ran on


def knows_compiler(cells: Sequence[Measurement]) -> bool:
    """Whether broker CPU is without the compilers' part in all cells that have it."""
    return all(cell.compiler_us_per_record is not None for cell in cells if "broker_cpu" in cell.values)


def with_compiler(cell: Measurement) -> Measurement:
    """The same with broker CPU as runs have it that did not record the compiler's part."""
    cpu = cell.values.get("broker_cpu")
    if cell.compiler_us_per_record is None or cpu is None:
        return cell
    values = {**cell.values, "broker_cpu": cpu + cell.compiler_us_per_record}
    return replace(cell, values=values, compiler_us_per_record=None)


def configuration_name(cell_id: str) -> str:
    """Without the number of the repetition, which a cell that ran once does not have."""
    return re.sub(r"-r\d+$", "", cell_id)


def measure(judged: Sequence[Judged]) -> list[Measurement]:
    observations = {item.cell_id: item for item in observe(judged)}
    return [_measurement(item, observations.get(item.facts.cell.cell_id)) for item in judged]


def _measurement(item: Judged, observation: Observation | None) -> Measurement:
    facts, cell = item.facts, item.facts.cell
    return Measurement(
        cell_id=cell.cell_id,
        name=configuration_name(cell.cell_id),
        title=cell.title,
        kind=cell.kind,
        round=int(cell.document.get("repetition") or 1),
        state=observation.state if observation else "ok",
        reason=observation.reason if observation else "",
        verdict=item.verdict.result,
        verdict_reason=item.verdict.reasons[0] if item.verdict.reasons else "",
        values=dict(observation.values) if observation else {},
        gap_ms=facts.gap_us / 1000 if facts.gap_us is not None else None,
        damage={kind: facts.set_count(kind) for kind in PREDICTED_KINDS},
        client=cell.text("client"),
        engine=cell.text("engine"),
        path=cell.text("path"),
        durability=_durability(item),
        load={str(name): value for name, value in cell.part("workload").items()},
        properties={str(name): str(value) for name, value in cell.part("properties").items()},
        compiler_us_per_record=observation.behaviour.compiler_us_per_record if observation else None,
        noise=host_noise(item.facts),
        fork=observation.fork if observation else 1,
    )


def _durability(item: Judged) -> dict[str, str]:
    """What an acknowledgement promises: two runs that differ here measure two different services."""
    cell = item.facts.cell
    own = configuration_of(cell)
    effective = cell.outcome.get("effective") or {}
    flush = {}
    for group, name in (("broker", "log.flush.interval.messages"), ("topic", "flush.messages")):
        settings = effective.get(group)
        if isinstance(settings, dict) and name in settings:
            flush[name] = str(settings[name])
    return {
        "acks": own.acks,
        "idempotence": "on" if own.idempotence else "off",
        "replication factor": str(own.replication_factor),
        "min.insync.replicas": str(own.min_isr),
        "unclean election": "on" if own.unclean_election else "off",
        **flush,
    }


def write_measurements(directory: Path, judged: Sequence[Judged], *, analysis_id: str = "") -> None:
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)
    cells = [asdict(item) for item in measure(judged)]
    document = {"schema_version": SCHEMA_VERSION, "analysis_id": analysis_id, "cells": cells}
    replace_text(results / FILE_NAME, json.dumps(document, indent=1, allow_nan=False) + "\n")


def read_measurements(directory: Path) -> list[Measurement]:
    """MeasurementsError says what is wrong; `harness report DIR` writes the file anew."""
    path = directory / "results" / FILE_NAME
    try:
        document: Json = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MeasurementsError(f"{path}: cannot be read: {error}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        raise MeasurementsError(f"{path}: schema version {version}, expected {SCHEMA_VERSION}")
    try:
        return [Measurement(**cell) for cell in document["cells"]]
    except (KeyError, TypeError) as error:
        raise MeasurementsError(f"{path}: not the form of version {SCHEMA_VERSION}: {error}") from error


def read_analysis_id(directory: Path) -> str:
    """Which analysis wrote the figures of `read_measurements`; empty for one of a version that did not say."""
    try:
        document = json.loads((directory / "results" / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(document.get("analysis_id", "")) if isinstance(document, dict) else ""
