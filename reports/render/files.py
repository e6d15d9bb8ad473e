"""Writes files that appear whole or not at all: text, JSON records, and CSV in which a spreadsheet finds no formula."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from reports.render.plain import csv_cell
from runlog.records.codec import to_json


def replace_text(path: Path, text: str) -> None:
    """Appears whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def write_record(path: Path, record: object) -> None:
    """Writes a record as JSON. ValueError for a number that JSON does not have."""
    replace_text(path, json.dumps(to_json(record), indent=1, allow_nan=False) + "\n")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(csv_cell(name) for name in header)
        writer.writerows([csv_cell(value) for value in row] for row in rows)
    os.replace(temporary, path)
