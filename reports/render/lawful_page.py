"""`python -m reports.render.lawful_page`: docs/reference/lawful.md, every anomaly with its rule and where it is lawful.

It is written from `anomalies.py`, from all cases of `lawful.py`, and from `criteria.py`. So every exception in the code
is on the page. A test requires that the file in docs/ is what this prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from reports.evidence.contradictions import RULES as CONTRADICTIONS
from reports.judge.anomalies import ANOMALIES, BY_NAME
from reports.judge.damage_checks import JUDGED_ELSEWHERE, NEEDS_WHOLE_STREAMS
from reports.judge.evidence_checks import EVIDENCE_CHECKS
from reports.judge.holes import ALL, PREDICTION, RESTS, TOUCHES, Evidence
from reports.judge.lawful import ALWAYS, RULES, TYPICAL, rule
from reports.read.model import PREDICTED_KINDS


def render() -> str:
    return "\n".join([*_head(), *_verdict(), *_holes(), *_anomalies()]) + "\n"


def _head() -> Iterator[str]:
    yield from (
        "# Anomalies, and what is lawful",
        "",
        "An anomaly is an event that a correct system without faults does not show, for example a lost record. This",
        "page has the exact rule of each anomaly, and says for which configuration it is lawful. It is written by",
        "`python -m reports.render.lawful_page > docs/reference/lawful.md` from the rules that the verdict applies.",
        "",
        "- **lawful**: the protocol permits it, and a fault may cause it.",
        "- **unlawful**: a promise was broken. The verdict is fail.",
        "- **impossible**: it cannot happen in this configuration. A run that shows it contradicts this table, and",
        "  fails.",
        "",
        "The table has six typical configurations. Nothing else happens in their cells:",
        "",
        "| anomaly | " + " | ".join(item.text() for item in TYPICAL) + " |",
        "|---|" + "---|" * len(TYPICAL),
    )
    for anomaly in ANOMALIES:
        rulings = [rule(anomaly.name, configuration).lawful for configuration in TYPICAL]
        yield f"| [{anomaly.name}](#{anomaly.name}) | " + " | ".join(rulings) + " |"


def _verdict() -> Iterator[str]:
    """How an anomaly decides about the verdict of its cell."""
    yield from ("", "## When a cell can be judged", "", "If one of these is not true, the cell is inconclusive:", "")
    yield from (f"- **{name}**: {text}." for name, text in EVIDENCE_CHECKS.items())
    yield from (
        "",
        "A run log contradicts itself if one of these is true:",
        "",
        *(f"- {text}" for text in CONTRADICTIONS),
    )
    yield from (
        "",
        "If an anomaly is seen and is not lawful, the cell fails, also if other facts are in doubt. The exceptions:",
        "",
        f"- {_names(PREDICTED_KINDS)} are judged by what the cell expects (`expect`): none, exactly the predicted "
        "ones, or any number.",
        f"- {_names(name for name in JUDGED_ELSEWHERE if name not in PREDICTED_KINDS)} are reported and change no "
        "verdict by themselves.",
        f"- {_names(NEEDS_WHOLE_STREAMS)} make the cell inconclusive, and not a fail, if one of the checks above "
        "is not true. A record that is missing from an incomplete stream may have been there.",
        "",
        "A cell without faults must also carry its load (`runlog/quality/criteria.py` has the limits with their "
        "reasons):",
        "",
        "- It acknowledged records in the window.",
        "- The generator kept up.",
    )


def _holes() -> Iterator[str]:
    """On which evidence each anomaly rests."""
    yield from (
        "",
        "## What a hole in the evidence does",
        "",
        "If a part of the evidence is missing, whatever rests on it is inconclusive: it does not pass. It fails only "
        "if what was seen is a violation whatever is missing. Evidence in bold could explain what was seen.",
        "",
        "| anomaly | rests on |",
        "|---|---|",
    )
    for name, rests in RESTS.items():
        parts = (f"**{one}**" if one in rests.undone_by else f"{one}" for one in Evidence if one in rests.on)
        yield f"| {_names((name,))} | {', '.join(parts)} |"
    predicted = ", ".join(str(one) for one in Evidence if one in PREDICTION)
    yield from ("", f"A prediction rests on: {predicted}.", "", "| hole | evidence in which it may be |", "|---|---|")
    for kind, touched in TOUCHES.items():
        where = "all" if touched == ALL else ", ".join(str(one) for one in Evidence if one in touched)
        yield f"| {kind} | {where} |"


def _names(names: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(f"[{name}](#{name})" if name in BY_NAME else name for name in names)


def _anomalies() -> Iterator[str]:
    family = ""
    for anomaly in ANOMALIES:
        if anomaly.family != family:
            family = anomaly.family
            yield from ("", f"## {family.capitalize()}")
        yield from ("", f"### {anomaly.name}", "")
        yield f"{anomaly.title}. {anomaly.rule} Evidence: {anomaly.evidence}."
        yield ""
        cases = RULES[anomaly.name]
        if len(cases) > 1:
            yield from ("The first condition that is true counts:", "")
        for case in cases:
            ruling = case.ruling
            where = f", if {case.condition.text}" if case.condition is not ALWAYS else ""
            otherwise = ", otherwise" if case.condition is ALWAYS and len(cases) > 1 else ""
            yield f"- **{ruling.lawful}**{where}{otherwise}: {ruling.reason}. Source: {ruling.source}."


if __name__ == "__main__":
    sys.stdout.write(render())
