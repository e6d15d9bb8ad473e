"""Chaos scenarios for the plan: found by name or path, validated with file and line, turned into plan.ScenarioCase."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from chaos.model import Scenario, builtin_scenarios
from harness.errors import UsageError
from harness.plan import ScenarioCase
from harness.settings_alone import validated
from harness.suite import ChaosEntry
from harness.suite_source import Source, nearest, parse_source, read_source


def scenario_source(name_or_path: str) -> Source:
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or "/" in name_or_path:
        return read_source(path)
    names = builtin_scenarios()
    if name_or_path not in names:
        raise UsageError(f"no scenario {name_or_path!r}{nearest(name_or_path, names)}")
    text = (resources.files("chaos") / "scenarios" / f"{name_or_path}.yaml").read_text(encoding="utf-8")
    return parse_source(text, f"chaos/scenarios/{name_or_path}.yaml")


@cache
def load_scenario(name_or_path: str) -> Scenario:
    """UsageError with place and nearest key. A scenario is read once in a process, because plan and run must see the
    same one."""
    return validated(scenario_source(name_or_path), Scenario)


def cases_of(entry: ChaosEntry) -> Sequence[ScenarioCase]:
    """The entry's cases in its order, or all cases of the scenario."""
    scenario = load_scenario(entry.scenario)
    wanted = entry.cases or list(scenario.cases)
    for name in wanted:
        if name not in scenario.cases:
            raise UsageError(f"scenario {scenario.name} has no case {name!r}{nearest(name, list(scenario.cases))}")
    return [ScenarioCase(reference=entry.scenario, scenario=scenario, name=name) for name in wanted]
