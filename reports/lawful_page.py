"""`python -m reports.lawful_page`: docs/lawful.md, every anomaly with its rule and where it is lawful.

Written from `anomalies.py` and `lawful.py`; a test demands that the file in docs/ is what this prints.
"""

from __future__ import annotations

import sys

from reports.anomalies import ANOMALIES
from reports.lawful import TYPICAL, rule


def render() -> str:
    lines = [
        "# Anomalies, and what is lawful",
        "",
        "Written by `python -m reports.lawful_page > docs/lawful.md`. **lawful**: the protocol permits it, a fault may",
        "cause it. **unlawful**: a promise was broken, the verdict is fail. **impossible**: it cannot be said of this",
        "configuration; a run that shows it contradicts this table and fails.",
        "",
        "| anomaly | " + " | ".join(item.text() for item in TYPICAL) + " |",
        "|---|" + "---|" * len(TYPICAL),
    ]
    for anomaly in ANOMALIES:
        rulings = [rule(anomaly.name, configuration).lawful for configuration in TYPICAL]
        lines.append(f"| [{anomaly.name}](#{anomaly.name}) | " + " | ".join(rulings) + " |")
    family = ""
    for anomaly in ANOMALIES:
        if anomaly.family != family:
            family = anomaly.family
            lines += ["", f"## {family.capitalize()}"]
        lines += ["", f"### {anomaly.name}", "", f"{anomaly.title}. {anomaly.rule} Evidence: {anomaly.evidence}.", ""]
        seen: dict[tuple[str, str, str], list[str]] = {}
        for configuration in TYPICAL:
            found = rule(anomaly.name, configuration)
            seen.setdefault((found.lawful, found.reason, found.source), []).append(configuration.text())
        for (lawful, reason, source), configurations in seen.items():
            where = "" if len(seen) == 1 else f" ({'; '.join(configurations)})"
            lines.append(f"- **{lawful}**{where}: {reason}. Source: {source}.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
