"""One directory for a CI system to keep: reports, JUnit, summaries and logs of all runs of one invocation.

These are copies without the run log: Parquet and broker data, which make a run large, are left out.
Shown by tests/harness/test_harness_ci.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from harness.errors import EnvironmentFault
from harness.output_places import check_output_directory

_RESULTS: Final = ("report.html", "junit.xml", "summary.md", "results/verdicts.json")
_LOGS: Final = ("*.log", "clusters/*/broker-*/stderr.log", "clusters/*/proxies/*.log", "cells/*/cell.json")
_LOG_BYTES_MAX: Final = 8 << 20


def check_artifacts(directory: Path | None) -> None:
    """UsageError if nothing could be kept there. Asked before a run, which would otherwise be told at its end."""
    check_output_directory("--artifacts", directory)


def collect_artifacts(run_dir: Path, directory: Path, *, with_results: bool = True) -> None:
    """DIRECTORY/<run>/ gets what there is, and DIRECTORY/junit.xml and summary.md speak for all runs in it.

    Without results where the analysis failed: those of an earlier one, here or there, would seem to be its own.
    """
    target = directory / run_dir.name
    try:
        if target.resolve() != run_dir.resolve():  # else all is there already, and no copy
            _copy(run_dir, target, with_results)
        _merge_junit(directory)
        _merge_summaries(directory)
    except OSError as error:
        raise EnvironmentFault(f"--artifacts {directory}: {error}") from error


def _copy(run_dir: Path, target: Path, with_results: bool) -> None:
    for name in _RESULTS:
        (target / name).unlink(missing_ok=True)
    for path in _wanted(run_dir, with_results):
        copy = target / path.relative_to(run_dir)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _wanted(run_dir: Path, with_results: bool) -> list[Path]:
    files = [run_dir / name for name in ("manifest.json", *(_RESULTS if with_results else ()))]
    logs = [path for pattern in _LOGS for path in sorted(run_dir.glob(pattern)) if path.stat().st_size < _LOG_BYTES_MAX]
    return [path for path in (*files, *logs) if path.is_file()]


def _merge_junit(directory: Path) -> None:
    root = ElementTree.Element("testsuites", name="kafka-harness")
    for path in sorted(directory.glob("*/junit.xml")):
        root.extend(ElementTree.parse(path).getroot())
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(directory / "junit.xml", encoding="utf-8", xml_declaration=True)


def _merge_summaries(directory: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(directory.glob("*/summary.md"))]
    (directory / "summary.md").write_text("\n".join(texts), encoding="utf-8")
