"""The report: `python -m reports RUN_DIR` as a child, so that Spark never shares a process with anything; then the
verdicts.

Knows of the analysis only results/verdicts.json. Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from harness.clusters.process import spawn, tail_text
from harness.errors import ExitCode, HarnessError, UsageError
from harness.run.progress import Progress
from harness.run.stop import StopFlag
from harness.suite_source import file_problem
from reports.allowances import AllowanceError, read_allowances
from runlog.events import read_json

REPORT_TIMEOUT_S: Final = 1_800.0
_STYLES: Final = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}


def check_allowances(path: Path | None) -> None:
    """Before anything is started: UsageError when the file of `--allow` cannot be used."""
    if path is None:
        return
    if problem := file_problem(path):
        raise UsageError(f"--allow {problem}")
    try:
        read_allowances(path)
    except AllowanceError as error:
        raise UsageError(f"--allow {error}") from error


def make_report(
    run_dir: Path, *, spark_master: str | None, allow: Path | None = None, stop: StopFlag, progress: Progress
) -> dict[str, Any]:
    """verdicts.json of the run. HarnessError with the end of the analysis' stderr when it fails."""
    progress.say("analysis by PySpark …")
    stderr_path = run_dir / "report.stderr.log"
    stderr_path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "reports", str(run_dir)]
    command += ["--master", spark_master] if spark_master else []
    command += ["--allow", str(allow.resolve())] if allow else []
    process = spawn("analysis", command, stderr_path=stderr_path)
    deadline = time.monotonic() + REPORT_TIMEOUT_S
    try:
        while process.is_running():
            if stop.wait(0.1):
                raise HarnessError(f"the analysis was stopped; `harness report {run_dir}` does it again")
            if time.monotonic() > deadline:
                raise HarnessError(f"the analysis took longer than {REPORT_TIMEOUT_S:.0f} s and was ended")
    finally:
        process.stop(3.0)
    verdicts_path = run_dir / "results" / "verdicts.json"
    code = process.popen.returncode
    if code not in (ExitCode.PASS, ExitCode.FAIL, ExitCode.INCONCLUSIVE) or not verdicts_path.is_file():
        raise HarnessError(f"the analysis ended with {code}:\n{tail_text(stderr_path, 15)}")
    return read_json(verdicts_path)


def exit_code_of(verdicts: dict[str, Any]) -> ExitCode:
    """0, 1 or 4 as the analysis decided; anything else is our own error."""
    try:
        return ExitCode(int(verdicts.get("exit_code", ExitCode.HARNESS_ERROR)))
    except ValueError:
        return ExitCode.HARNESS_ERROR


def print_verdicts(verdicts: dict[str, Any], report_path: Path) -> None:
    """The table on stdout; the report's path alone on the last line."""
    console = Console(highlight=False)
    rows = [_row(cell) for cell in verdicts.get("cells", [])]
    headings = (
        "cell",
        "verdict",
        "records/s",
        "p50 ms",
        "p99 ms",
        "p99 ms uncorrected",
        "lost",
        "dup",
        "reordered",
        "predicted",
    )
    if console.is_terminal:
        table = Table(show_edge=False, pad_edge=False)
        for index, heading in enumerate(headings):
            table.add_column(heading, justify="left" if index < 2 else "right", no_wrap=index > 0)
        for row in rows:
            table.add_row(row[0], f"[{_STYLES.get(row[1], '')}]{row[1]}[/]" if row[1] in _STYLES else row[1], *row[2:])
        console.print(table)
    else:
        for line in plain_table(headings, rows):
            print(line)
    for cell in verdicts.get("cells", []):
        if cell.get("verdict") != "pass" and cell.get("reasons"):
            print(f"{cell.get('cell_id')}: {'; '.join(map(str, cell['reasons'][:3]))}")
    print(f"verdict: {verdicts.get('verdict', 'unknown')}")
    print(report_path, flush=True)


def plain_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[index]) for row in (headings, *rows)) for index in range(len(headings))]
    lines = []
    for row in (headings, *rows):
        parts = [
            value.ljust(width) if index < 2 else value.rjust(width)
            for index, (value, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(parts).rstrip())
    return lines


def _row(cell: dict[str, Any]) -> tuple[str, ...]:
    latency = cell.get("latency_us") or {}
    corrected, uncorrected = latency.get("corrected") or {}, latency.get("uncorrected") or {}
    return (
        str(cell.get("cell_id", "?")),
        str(cell.get("verdict", "?")),
        _number(cell.get("throughput_records_per_s")),
        _milliseconds(corrected.get("p50")),
        _milliseconds(corrected.get("p99")),
        _milliseconds(uncorrected.get("p99")),
        _number(cell.get("lost")),
        _number(cell.get("duplicated")),
        _number(cell.get("reordered")),
        _predicted(cell.get("predicted") or {}),
    )


def _predicted(predicted: dict[str, Any]) -> str:
    """Predicted/observed of what happened, or what of it was allowed; a dash where neither says anything."""
    shown = []
    for name in ("lost", "duplicated", "reordered"):
        entry = predicted.get(name)
        if not isinstance(entry, dict):
            continue
        wanted, seen = _count(entry.get("predicted")), _count(entry.get("observed"))
        if entry.get("expected") == "any":
            if seen:
                shown.append(f"{seen:,} {name} (allowed)")
        elif wanted or seen:
            exact = _count(entry.get("only_predicted")) == 0 and _count(entry.get("only_observed")) == 0
            shown.append(f"{wanted:,}{' =' if exact else ' !='} {seen:,} {name}")
    return ", ".join(shown) or "-"


def _count(value: Any) -> int:
    if isinstance(value, dict):
        value = value.get("count", 0)
    return int(value) if isinstance(value, int | float) else 0


def _number(value: Any) -> str:
    return "-" if not isinstance(value, int | float) else f"{value:,.0f}"


def _milliseconds(value: Any) -> str:
    return "-" if not isinstance(value, int | float) else f"{value / 1000:.1f}"
