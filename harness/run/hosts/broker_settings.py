"""Settings of somebody else's brokers that a scenario needs. They are the operator's: they are compared, never set.

Shown by tests/harness/test_harness_external.py and test_harness_fault_host_plans.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.clusters.requests.admin import Admin
from harness.clusters.requests.settings_check import HasBrokers
from harness.planned_cell import PlannedCell
from harness.scenarios import load_scenario


def settings_wanted(cells: Sequence[PlannedCell]) -> dict[str, dict[str, str]]:
    """The brokers' settings by scenario and case, because the cases of a scenario may want different ones."""
    return {place_of(cell): wanted_by(cell) for cell in cells}


def place_of(cell: PlannedCell) -> str:
    """The scenario and the case, as the words of a problem name them."""
    return f"{cell.record.scenario}, case {cell.record.case},"


def wanted_by(cell: PlannedCell) -> dict[str, str]:
    return load_scenario(cell.scenario_reference).broker_settings_of(cell.record.case or "")


def differing_settings(wanted: Mapping[str, Mapping[str, str]], cluster: HasBrokers) -> list[str]:
    """A line for each setting that a broker has otherwise. With other settings it would be another scenario."""
    admin, wrong = Admin(lambda: ()), []
    for broker, address in cluster.broker_addresses().items() if any(wanted.values()) else ():
        told = admin.broker_config(broker, address)
        for scenario, settings in wanted.items():
            for name, value in settings.items():
                if told.get(name) != value:
                    found = told.get(name, "not told")
                    wrong.append(f"scenario {scenario} needs {name}={value} at broker {broker}, which has {found}")
    return list(dict.fromkeys(wrong))
