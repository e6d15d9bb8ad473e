"""Damage to one file of a planted case, and to nothing else of the run.

The damaged cell must be inconclusive and name this file and no other. Every other cell of the run must be judged as if
nothing had happened. The damage is done to the written files, because a plant that changes rows cannot make such a
file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from runlog.records.lines import CLUSTER, FAULTS, HISTORY, WIRE
from runlog.streams.schema import STREAMS
from tests.reports.planted_case import Case
from tests.runlog.test_runlog_inventory import fewer_rows, garble_footer, of_another_type, without_a_column, zero_middle

CALM_PARTITION = 70  # of lines that are there only so that a file has some
NOT_SEEN_WITHOUT_A_LIST = ("zeroed_middle", "part_absent", "rows_absent", "events_absent")


def with_calm_events(case: Case) -> None:
    """Lines that say nothing bad, so that each event file can be damaged."""
    for t_us in (1, 2, 3):
        case.event("high_watermark", t_us, partition=CALM_PARTITION, broker=1, offset=t_us)
        case.history.append({"t_us": t_us, "kind": "committed", "group": "calm", "partition": 0, "offset": t_us})


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _a_part(directory: Path, case: Case, damage: Callable[[Path], None]) -> str:
    found = [(name, path) for name in STREAMS for path in sorted((directory / name / f"cell={case.cell_id}").glob("*"))]
    stream, path = case.rng.choice(found)
    damage(path)
    return f"{stream}/{path.name}"


def zeroed_middle(directory: Path, case: Case) -> str:
    return _a_part(directory, case, zero_middle)


def garbled_footer(directory: Path, case: Case) -> str:
    return _a_part(directory, case, garble_footer)


def column_absent(directory: Path, case: Case) -> str:
    return _a_part(directory, case, without_a_column)


def column_of_another_type(directory: Path, case: Case) -> str:
    return _a_part(directory, case, of_another_type)


def part_cut(directory: Path, case: Case) -> str:
    return _a_part(directory, case, lambda path: path.write_bytes(path.read_bytes()[:-100]) and None)


def part_absent(directory: Path, case: Case) -> str:
    return _a_part(directory, case, Path.unlink)


def rows_absent(directory: Path, case: Case) -> str:
    """All but seven."""
    return _a_part(directory, case, fewer_rows)


# --- events and documents ---------------------------------------------------------------------------------------------


def _an_event_file(directory: Path, case: Case) -> Path:
    return directory / "cells" / case.cell_id / case.rng.choice(("cluster.jsonl", "history.jsonl"))


def torn_last_line(directory: Path, case: Case) -> str:
    """Not its line feed alone: the line itself ends early."""
    path = _an_event_file(directory, case)
    text = path.read_text()
    length = len(text.splitlines()[-1])
    path.write_text(text[: -case.rng.randint(2, length)])
    return path.name


def event_without_a_field(directory: Path, case: Case) -> str:
    path = _an_event_file(directory, case)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    line = case.rng.choice(lines)
    family = next(family for family in (CLUSTER, FAULTS, HISTORY, WIRE) if family.name == path.stem)
    del line[case.rng.choice(family.needed(str(line.get(family.tag))))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path.name


def events_absent(directory: Path, case: Case) -> str:
    path = _an_event_file(directory, case)
    path.unlink()
    return path.name


def document_torn(directory: Path, case: Case) -> str:
    path = directory / "cells" / case.cell_id / "cell.json"
    path.write_text(path.read_text()[: case.rng.randint(0, 300)])
    return path.name


def document_absent(directory: Path, case: Case) -> str:
    path = directory / "cells" / case.cell_id / "cell.json"
    path.unlink()
    return path.name


# Each damages one file of the case in the run directory, and gives the name by which it must be told.
DAMAGES: tuple[Callable[[Path, Case], str], ...] = (
    zeroed_middle, garbled_footer, column_absent, column_of_another_type, part_cut, part_absent, rows_absent,
    torn_last_line, event_without_a_field, events_absent, document_torn, document_absent,
)  # fmt: skip
OF_OLD_RUNS = tuple(damage for damage in DAMAGES if damage.__name__ not in NOT_SEEN_WITHOUT_A_LIST)
