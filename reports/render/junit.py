"""junit.xml: one test suite a cell, one case an invariant or a limit, named for a person who reads a CI page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from datetime import datetime, timedelta

from reports.figures.cell import CellFigures
from reports.figures.figures import Figures
from reports.judge.run_limits import RunLimit
from reports.judge.verdict import FAIL, INCONCLUSIVE, Check
from runlog.files.strangers import clean_text
from runlog.records.cell import Expectation

NO_COMMAND = "no command recorded"


def junit(figures: Figures) -> str:
    """One test suite a cell, one case an invariant; inconclusive is an error, because a skip would look like a pass."""
    run = figures.run
    root = ElementTree.Element("testsuites", name=str(run.run_id or "run"))
    if run.problems:
        root.append(_problems(run.problems))
    if run.limits:
        root.append(_run_limits(run.limits, run.seed, run.again))
    for cell in figures.cells:
        root.append(_suite(cell, figures.cells, run.t0_wall))
    _sum_up(root)
    ElementTree.indent(root)
    mark = f"<!-- analysis {run.analysis_id} -->\n" if run.analysis_id else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{mark}'
        + clean_text(ElementTree.tostring(root, encoding="unicode"))
        + "\n"
    )


def _problems(problems: Sequence[str]) -> ElementTree.Element:
    suite = ElementTree.Element(
        "testsuite", name="run", tests=str(len(problems)), failures="0", errors=str(len(problems)), skipped="0",
        time="0.000",
    )  # fmt: skip
    for number, problem in enumerate(problems, start=1):
        case = ElementTree.SubElement(suite, "testcase", classname="run", name=f"run is whole ({number})", time="0.000")
        ElementTree.SubElement(case, "error", message=problem, type="inconclusive")
    return suite


def _run_limits(limits: Sequence[RunLimit], seed: int | None, command: str) -> ElementTree.Element:
    """One case for each configuration that a limit is about, or for the run."""
    results = [one.check.result for one in limits]
    suite = ElementTree.Element(
        "testsuite", name="limits of the run", tests=str(len(limits)), failures=str(results.count(FAIL)),
        errors=str(results.count(INCONCLUSIVE)), skipped=str(sum(bool(one.check.allowed) for one in limits)),
        time="0.000",
    )  # fmt: skip
    for one in limits:
        case = ElementTree.SubElement(suite, "testcase", classname=one.subject, name=one.check.name, time="0.000")
        _outcome(case, one.check, f"seed {'unknown' if seed is None else seed}; again by: {command or NO_COMMAND}")
    return suite


def _suite(cell: CellFigures, cells: Sequence[CellFigures], t0_wall: str | None) -> ElementTree.Element:
    """All of the cell's time is that of its first case: the others only look at what it left."""
    checks = cell.verdict.checks
    suite = ElementTree.Element(
        "testsuite",
        name=title_of(cell, cells),
        id=cell.id,
        tests=str(len(checks)),
        failures=str(sum(check.result == FAIL for check in checks)),
        errors=str(sum(check.result == INCONCLUSIVE for check in checks)),
        skipped=str(sum(bool(check.allowed) for check in checks)),
        time=f"{cell.took_s:.3f}",
    )
    if (began := _began(t0_wall, cell.began_s)) is not None:
        suite.set("timestamp", began)
    for number, check in enumerate(checks):
        took_s = cell.took_s if number == 0 else 0.0
        case = ElementTree.SubElement(suite, "testcase", classname=cell.id, name=check.name, time=f"{took_s:.3f}")
        _tell(case, check, cell)
    return suite


def _tell(case: ElementTree.Element, check: Check, cell: CellFigures) -> None:
    if _outcome(case, check, reproduction(cell)):
        return
    if check.name in [f"{kind}: {Expectation.ANY} expected" for kind in cell.damage]:
        ElementTree.SubElement(case, "system-out").text = check.reason


def _outcome(case: ElementTree.Element, check: Check, again: str) -> bool:
    """Whether there was something to tell: anything but a plain pass."""
    if check.result == FAIL:
        ElementTree.SubElement(case, "failure", message=check.reason, type="fail").text = again
    elif check.result == INCONCLUSIVE:
        ElementTree.SubElement(case, "error", message=check.reason, type="inconclusive").text = again
    elif check.allowed:
        ElementTree.SubElement(case, "skipped", message=check.allowed)
    return check.result in (FAIL, INCONCLUSIVE) or bool(check.allowed)


def title_of(cell: CellFigures, cells: Sequence[CellFigures]) -> str:
    """What the cell is in words, and which of several that share them: by its repetition, else by its id."""
    if sum(other.title == cell.title for other in cells) < 2:
        return cell.title
    found = re.search(r"-r(\d+)$", cell.id)
    return f"{cell.title}, repetition {found[1]}" if found else f"{cell.title} [{cell.id}]"


def _began(t0_wall: str | None, after_s: float | None) -> str | None:
    """ISO 8601 without an offset, as JUnit's schema has it; None if the run does not tell."""
    if after_s is None:
        return None
    try:
        began = datetime.fromisoformat(t0_wall or "") + timedelta(seconds=after_s)
    except (ValueError, OverflowError):
        return None
    return began.replace(tzinfo=None).isoformat(timespec="seconds")


def _sum_up(root: ElementTree.Element) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")


def reproduction(cell: CellFigures) -> str:
    """Seed and command that carry out this cell alone, as it was."""
    return f"seed {'unknown' if cell.seed is None else cell.seed}; again by: {cell.command or NO_COMMAND}"
