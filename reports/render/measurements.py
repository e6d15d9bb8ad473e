"""results/measurements.json: the figures of each cell, and what each may be used for. `harness compare` reads it.

The analysis writes it. It is read back without Spark. Owns the form of the file, and not how its content is used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from reports.figures.measurements import Measurement
from reports.read.cell import Json
from reports.render.files import replace_text

SCHEMA_VERSION: Final = 1
FILE_NAME: Final = "measurements.json"


class MeasurementsError(Exception):
    """The file is missing or not what this version reads."""


def write_measurements(directory: Path, cells: Sequence[Measurement], *, analysis_id: str = "") -> None:
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)
    document = {"schema_version": SCHEMA_VERSION, "analysis_id": analysis_id, "cells": [asdict(cell) for cell in cells]}
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
