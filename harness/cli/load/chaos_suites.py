"""The suites of `harness chaos`: the demo's load and topic, with the scenarios that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chaos.model import builtin_scenarios
from harness.errors import UsageError
from harness.scenarios import load_scenario
from harness.suite import ChaosEntry, Suite, load_suite
from harness.suite_source import nearest

# Scenarios that share one cluster and need the fewest seconds.
SMOKE: Final = {
    "leader-loss": ("acks-1", "acks-all"),
    "response-lost": ("idempotence-off", "idempotence-on"),
    "request-refused": ("in-flight-5", "in-flight-5-idempotent"),
}


def chaos_suite(scenarios: Sequence[str], cases: Sequence[str], overrides: Sequence[str]) -> Suite:
    """The suite of `harness chaos`. Without names it has all scenarios of the package."""
    chosen = [(name, cases) for name in scenarios or builtin_scenarios()]
    if cases and len(chosen) > 1:
        _expect_in_all([name for name, _ in chosen], cases)
    return _suite("chaos", "Chaos scenarios.", chosen, overrides)


def _expect_in_all(scenarios: Sequence[str], cases: Sequence[str]) -> None:
    """`--case` is for all scenarios alike. UsageError if one of them lacks a case: `--cell` chooses of several."""
    for scenario in scenarios:
        known = load_scenario(scenario).cases
        missing = [case for case in cases if case not in known]
        if not missing:
            continue
        owner = next((other for other in scenarios if missing[0] in load_scenario(other).cases), None)
        cell = "" if owner is None else f": --cell chaos-{load_scenario(owner).name}-{missing[0]}"
        raise UsageError(
            f"--case {missing[0]}: scenario {scenario} has no such case{nearest(missing[0], list(known))}. --case is "
            f"for every scenario that is named. To choose cases of several scenarios, name cells{cell}"
        )


def smoke_suite(scenarios: Sequence[str] | None, cases: Sequence[str] | None, overrides: Sequence[str]) -> Suite:
    """Each kind of damage once where the settings permit it, and once where they do not."""
    if scenarios or cases:
        raise UsageError("--smoke chooses its own scenarios: name scenarios and cases, or give --smoke")
    return _suite("chaos-smoke", "A quick look at each damage.", list(SMOKE.items()), overrides)


def _suite(name: str, description: str, chosen: Sequence[tuple[str, Sequence[str]]], overrides: Sequence[str]) -> Suite:
    """`chosen`: the cases of each scenario, all if there are none."""
    entries = [ChaosEntry(scenario=scenario, cases=list(cases)) for scenario, cases in chosen]
    update = {"name": name, "description": description, "sweep": None, "chaos": entries}
    return load_suite("demo", overrides).model_copy(update=update)
