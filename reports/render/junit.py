"""junit.xml: one test suite a cell, one case an invariant."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from reports.figures.cell import CellFigures
from reports.figures.figures import Figures
from reports.judge.verdict import FAIL, INCONCLUSIVE
from runlog.files.strangers import clean_text
from runlog.records.cell import Expectation


def junit(figures: Figures) -> str:
    """One test suite a cell, one case an invariant; inconclusive is an error, because a skip would look like a pass."""
    run = figures.run
    root = ElementTree.Element("testsuites", name=str(run.run_id or "run"))
    if run.problems:
        suite = ElementTree.SubElement(
            root, "testsuite", name="run", tests=str(len(run.problems)), failures="0", errors=str(len(run.problems)),
            skipped="0",
        )  # fmt: skip
        for number, problem in enumerate(run.problems, start=1):
            case = ElementTree.SubElement(suite, "testcase", classname="run", name=f"run is whole ({number})")
            ElementTree.SubElement(case, "error", message=problem, type="inconclusive")
    for cell in figures.cells:
        checks = cell.verdict.checks
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=cell.id,
            tests=str(len(checks)),
            failures=str(sum(check.result == FAIL for check in checks)),
            errors=str(sum(check.result == INCONCLUSIVE for check in checks)),
            skipped=str(sum(bool(check.allowed) for check in checks)),
        )
        again = reproduction(cell)
        lenient = [f"{kind}: {Expectation.ANY} expected" for kind in cell.damage]
        for check in checks:
            case = ElementTree.SubElement(suite, "testcase", classname=cell.id, name=check.name)
            if check.result == FAIL:
                ElementTree.SubElement(case, "failure", message=check.reason).text = again
            elif check.result == INCONCLUSIVE:
                ElementTree.SubElement(case, "error", message=check.reason, type="inconclusive").text = again
            elif check.allowed:
                ElementTree.SubElement(case, "skipped", message=check.allowed)
            elif check.name in lenient:
                ElementTree.SubElement(case, "system-out").text = check.reason
    ElementTree.indent(root)
    mark = f"<!-- analysis {run.analysis_id} -->\n" if run.analysis_id else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{mark}'
        + clean_text(ElementTree.tostring(root, encoding="unicode"))
        + "\n"
    )


def reproduction(cell: CellFigures) -> str:
    """Seed and command that carry out this cell alone, as it was."""
    return f"seed {cell.seed}; again by: {cell.command or 'no command recorded'}"
