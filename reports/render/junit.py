"""junit.xml: one test suite for each cell, one case for each invariant or limit that the cell can break, with names
that people can read."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence

from reports.figures.cell import CellFigures
from reports.figures.figures import Figures
from reports.figures.suites import CellSuite, SuiteCounts
from reports.judge.checks import FAIL, INCONCLUSIVE, Check
from reports.judge.evidence_checks import RECORDED
from reports.judge.run_limits import RunLimit
from runlog.files.strangers import clean_text
from runlog.records.cell import Expectation

NO_COMMAND = "no command recorded"


def junit(figures: Figures) -> str:
    """One test suite a cell, one case an invariant; inconclusive is an error, because a skip would look like a pass."""
    run, suites = figures.run, figures.suites
    root = ElementTree.Element("testsuites", name=str(run.run_id or "run"))
    if run.problems:
        root.append(_problems(run.problems, suites.problems))
    if run.limits:
        root.append(_run_limits(run.limits, suites.limits, run.seed, run.again))
    for suite in suites.cells:
        root.append(_suite(suite))
    root.attrib.update(_attributes(suites.total))
    ElementTree.indent(root)
    mark = f"<!-- analysis {run.analysis_id} -->\n" if run.analysis_id else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{mark}'
        + clean_text(ElementTree.tostring(root, encoding="unicode"))
        + "\n"
    )


def _attributes(counts: SuiteCounts) -> Mapping[str, str]:
    return {
        "tests": str(counts.tests),
        "failures": str(counts.failures),
        "errors": str(counts.errors),
        "skipped": str(counts.skipped),
        "time": f"{counts.took_s:.3f}",
    }


def _problems(problems: Sequence[str], counts: SuiteCounts) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", {"name": "run", **_attributes(counts)})
    for number, problem in enumerate(problems, start=1):
        case = ElementTree.SubElement(suite, "testcase", classname="run", name=f"run is whole ({number})", time="0.000")
        ElementTree.SubElement(case, "error", message=problem, type="inconclusive")
    return suite


def _run_limits(limits: Sequence[RunLimit], counts: SuiteCounts, seed: int | None, command: str) -> ElementTree.Element:
    """One case for each configuration that a limit is about, or for the run."""
    suite = ElementTree.Element("testsuite", {"name": "limits of the run", **_attributes(counts)})
    for one in limits:
        case = ElementTree.SubElement(suite, "testcase", classname=one.subject, name=one.check.name, time="0.000")
        _outcome(case, one.check, f"seed {'unknown' if seed is None else seed}; again by: {command or NO_COMMAND}")
    return suite


def _suite(own: CellSuite) -> ElementTree.Element:
    """All of the cell's time is that of its first case: the others only look at what it left."""
    cell = own.cell
    suite = ElementTree.Element("testsuite", {"name": own.name, "id": cell.id, **_attributes(own.counts)})
    if own.began is not None:
        suite.set("timestamp", own.began)
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="client", value=cell.client)
    ElementTree.SubElement(properties, "property", name="cluster", value=cell.cluster)
    for number, check in enumerate(own.checks):
        took_s = cell.took_s if number == 0 else 0.0
        case = ElementTree.SubElement(suite, "testcase", classname=cell.id, name=check.name, time=f"{took_s:.3f}")
        _tell(case, check, cell)
    return suite


def _tell(case: ElementTree.Element, check: Check, cell: CellFigures) -> None:
    if _outcome(case, check, reproduction(cell)):
        return
    is_hole_told = check.name == RECORDED and bool(cell.verdict.holes)  # one on which no check of this cell rests
    if is_hole_told or check.name in [f"{kind}: {Expectation.ANY} expected" for kind in cell.damage]:
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


def reproduction(cell: CellFigures) -> str:
    """Seed and command that carry out this cell alone, as it was."""
    return f"seed {'unknown' if cell.seed is None else cell.seed}; again by: {cell.command or NO_COMMAND}"
