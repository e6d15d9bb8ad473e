"""`harness.explore.findings.junit`: what a CI server reads of a search."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from harness.explore.findings.junit import Case, junit

FOUND = Case(name="duplicated (producer; Produce)", failure="in the log twice: record 7", details="the story \x00")
KNOWN = Case(name="skipped", failure="", details="", allowed="issue 7")


def counts(text: str) -> tuple[str | None, ...]:
    root = ElementTree.fromstring(text)
    return tuple(root.get(name) for name in ("tests", "failures", "errors", "skipped"))


def test_a_finding_is_a_failure_and_a_known_one_is_skipped_with_its_reason() -> None:
    text = junit("a client", 600.0, [FOUND, KNOWN])
    assert counts(text) == ("3", "1", "0", "1")
    root = ElementTree.fromstring(text)
    assert [one.get("message") for one in root.iter("failure")] == ["in the log twice: record 7"]
    assert [one.get("message") for one in root.iter("skipped")] == ["known: issue 7"]


def test_a_search_that_proves_nothing_is_no_pass() -> None:
    assert counts(junit("a client", 1.0, [])) == ("1", "0", "0", "0")
    assert counts(junit("a client", 1.0, [], inconclusive="7 of 9 trials proved nothing")) == ("1", "0", "1", "0")
