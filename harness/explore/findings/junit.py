"""junit.xml of a search: one case for the search itself, and one for each cause that it confirmed.

A cause that is allowed is a skipped case with its reason. A search whose trials mostly prove nothing is an error,
because a pass would say that there is nothing. Shown by tests/harness/test_harness_explore_junit.py.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass

from runlog.files.strangers import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cause: `failure` in one sentence, or why it is allowed."""

    name: str
    failure: str
    details: str
    allowed: str = ""


def junit(name: str, took_s: float, cases: Sequence[Case], *, inconclusive: str = "") -> str:
    """`inconclusive`: why the search proves nothing; empty if it does."""
    failures = sum(not case.allowed for case in cases)
    counts = {
        "tests": str(len(cases) + 1),
        "failures": str(failures),
        "errors": str(int(bool(inconclusive))),
        "skipped": str(len(cases) - failures),
        "time": f"{took_s:.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "harness explore", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    whole = ElementTree.SubElement(suite, "testcase", classname=name, name="the search is whole", time=f"{took_s:.3f}")
    if inconclusive:
        ElementTree.SubElement(whole, "error", message=inconclusive, type="inconclusive")
    for case in cases:
        told = ElementTree.SubElement(suite, "testcase", classname=name, name=case.name, time="0.000")
        if case.allowed:
            ElementTree.SubElement(told, "skipped", message=f"known: {case.allowed}")
        else:
            ElementTree.SubElement(told, "failure", message=case.failure, type="fail").text = case.details
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{clean_text(ElementTree.tostring(root, encoding="unicode"))}\n'
