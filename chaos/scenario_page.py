"""`python -m chaos.scenario_page`: prints docs/reference/scenarios.md, the scenarios of the package and what they
expect.

The page is made from the YAML files. A test checks that the file in docs/ is equal to the output.
"""

from __future__ import annotations

import sys

from chaos.faults import FAULTS
from chaos.model import Case, Scenario, builtin_scenarios, load_builtin

_HEAD = """# Scenarios

Written by `python -m chaos.scenario_page > docs/reference/scenarios.md`. Each is one YAML file in `chaos/scenarios`;
write your own in the same form (`harness validate FILE`, JSON Schema by `harness schema scenario`) and run it with
`harness chaos FILE`. How each came out: [scenario-results.md](scenario-results.md). Numbers like S06 are this project's
own and sort by subject: from S00 leaders, replicas and power, S20 producers, S30 consumers and topics, S40
transactions, S50 controllers and networks, S60 slow or broken links, clocks and disks, S70 limits, S80 upgrades.

Expected per damage: **none**; **predicted**, exactly the records that journals, log dumps or the wire foretell, and
more than nothing; **exact**, those or nothing; **any** number, none too. **passed_over some**: a group committed
records that it did not process, at least one. **lost_unacked some**: with acks=0 at least one record that the client
counted as sent is not in the log. All other anomalies ([lawful.md](lawful.md)) must be absent where they
are unlawful. A fault without proof of its effect makes the cell inconclusive.
"""


def render() -> str:
    found = [load_builtin(name) for name in builtin_scenarios()]
    lines = [_HEAD, "| scenario | catalogue | cluster | cases |", "|---|---|---|---|"]
    for scenario in sorted(found, key=_first_tag):
        cases = "; ".join(f"{name}: {_expected(case)}" for name, case in scenario.cases.items())
        tags = ", ".join(tag for tag in scenario.tags if tag[:1] == "S" and tag[1:].isdigit())
        where = ", ".join(scenario.engines) + (f" with {', '.join(scenario.clients)}" if scenario.clients else "")
        lines.append(f"| [{scenario.name}](#{scenario.name}) | {tags} | {where} | {cases} |")
    for scenario in sorted(found, key=_first_tag):
        lines += ["", f"## {scenario.name}", "", f"{scenario.title}. {scenario.description.strip()}", ""]
        lines += [f"- **{name}** ({case.title}): {case.because}" for name, case in scenario.cases.items()]
        lines += ["", f"Source: {scenario.source.strip()}."]
    lines += ["", "## Faults", "", "| fault | default target | parameters |", "|---|---|---|"]
    for name, spec in FAULTS.items():
        parameters = ", ".join(f"{key}={value!r}" for key, value in spec.parameters.items())
        lines.append(f"| {name} | {spec.default_target} | {parameters or '–'} |")
    return "\n".join(lines) + "\n"


def _first_tag(scenario: Scenario) -> tuple[str, str]:
    return (scenario.tags[0] if scenario.tags else "~", scenario.name)


def _expected(case: Case) -> str:
    wanted = {name: value for name, value in case.expect.model_dump().items() if value != "none"}
    return ", ".join(f"{name} {value}" for name, value in wanted.items()) or "no damage"


if __name__ == "__main__":
    sys.stdout.write(render())
