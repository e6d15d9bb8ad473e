"""`harness report --to-edn` and `--from-edn`: histories of operations in the shape of Jepsen's Kafka workload.

No cluster, no Java and no Spark. What a history is and what is lawful in one: docs/reference/histories.md.
Shown by tests/harness/test_harness_histories.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.errors import ExitCode, UsageError
from harness.output_places import check_output_file
from harness.run.directory.recover import recover_run
from harness.run.directory.run_directory import check_run_directory
from harness.terminal.tables import print_fitting
from reports.jepsen.check import check, to_json, to_lines
from reports.jepsen.edn import EdnError
from reports.jepsen.export import ExportError, history_lines
from reports.jepsen.operations import History, HistoryError, read_history
from reports.jepsen.terms import TermError, parse_pair, terms_of, told_settings
from reports.read.cell import Cell, Run
from reports.read.run_files import read_run
from reports.render.files import replace_text
from runlog.files.nearest import nearest_name

FILE_BYTES_MAX: Final = 1 << 30  # of a history that is read: it is in memory at once, with what it says


def write_history(directory: Path, file: Path, cell_id: str | None) -> ExitCode:
    """Writes one cell of a run. The file appears when it is whole."""
    check_run_directory(directory)
    _check_file("--to-edn", file)
    for line in recover_run(directory):
        print_fitting(line, to_stderr=True)
    run = read_run(directory)
    cell = _chosen(run, cell_id)
    try:
        lines = history_lines(directory.resolve(), cell)
    except ExportError as error:
        store = f"; its run log lies in {run.record.store}, which --to-edn does not read" if run.record.store else ""
        raise UsageError(f"{error}{store}") from error
    temporary = file.with_name(f".{file.name}.tmp")
    count = 0
    try:
        with temporary.open("w", encoding="utf-8") as out:
            for line in lines:
                out.write(f"{line}\n")
                count += 1
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    for hole in cell.holes:
        print_fitting(f"the evidence has a hole: {hole.what}", to_stderr=True)
    print_fitting(
        f"{count} lines of cell {cell.cell_id}: `harness report --from-edn {file}` checks them", to_stderr=True
    )
    print(file, flush=True)
    return ExitCode.PASS


def _check_file(option: str, file: Path | None) -> None:
    """UsageError, before anything is read. No directory is made for it."""
    if file is not None and not os.path.exists(file.parent):
        raise UsageError(f"{option} {file}: there is no directory {file.parent}")
    check_output_file(option, file)


def _chosen(run: Run, cell_id: str | None) -> Cell:
    cells = {cell.cell_id: cell for cell in run.cells}
    if cell_id is None:
        if len(cells) != 1:
            raise UsageError(
                f"the run has {len(cells)} cells: --cell ID says which, e.g. --cell {min(cells, default='')}"
            )
        return next(iter(cells.values()))
    if cell_id not in cells:
        near = nearest_name(cell_id, cells)
        meant = f"did you mean {near}?" if near else f"expected one of {', '.join(sorted(cells)[:5])}"
        raise UsageError(f"--cell {cell_id}: the run has no such cell; {meant}")
    return cells[cell_id]


def check_history(file: Path, settings: Sequence[str], json_file: Path | None) -> ExitCode:
    """0: nothing that is not lawful, 1: something, 2: the file is no history, or a setting is wrong."""
    try:
        asked = dict(parse_pair(text) for text in settings)
    except TermError as error:
        raise UsageError(f"--set {error}") from error
    _check_file("--json", json_file)
    history = _read(file)
    told = {**told_settings(history.settings), **asked}
    try:
        terms = terms_of(told)
    except TermError as error:
        raise UsageError(f"--set {error}" if asked else f"{file}: {error}") from error
    checked = check(history, terms)
    if json_file is not None:
        document = to_json(checked, source=str(file), settings=told)
        replace_text(json_file, f"{json.dumps(document, indent=1, ensure_ascii=False)}\n")
    for line in to_lines(checked):
        print_fitting(line, hanging=2)
    return ExitCode.PASS if checked.is_lawful else ExitCode.FAIL


def _read(file: Path) -> History:
    if not file.is_file():
        raise UsageError(f"--from-edn {file}: {'is a directory' if file.is_dir() else 'there is no such file'}")
    if (size := file.stat().st_size) > FILE_BYTES_MAX:
        raise UsageError(f"--from-edn {file}: it has {size:,} bytes; expected at most {FILE_BYTES_MAX:,}")
    content = file.read_bytes()
    try:
        return read_history(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise UsageError(f"{file}: line {line}, byte {column}: no UTF-8, which EDN is") from error
    except (EdnError, HistoryError) as error:
        raise UsageError(f"{file}: {error}") from error
