"""Every client that is shipped passes the whole conformance check, and the smoke scenarios show what is known of it."""

from __future__ import annotations

import pytest

from harness.clusters.kafka.jars import cache_directory
from harness.conformance.check import first_line, trial_results
from harness.conformance.world import World
from workloads.clients.process.build import RECIPES, built, missing_tool

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_client_makes_no_mistake_in_any_trial(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if problem := missing_tool(name):
        pytest.skip(f"{problem}: {RECIPES[name].fix}")
    found = built(name, cache_directory())
    for variable, value in found.environment.items():
        monkeypatch.setenv(variable, value)
    ready, mistakes = first_line(found.command)
    assert ready is not None
    assert list(mistakes) == []
    with World() as world:
        results = list(trial_results(found.command, world, ready))
    assert {result.trial.name: list(result.mistakes) for result in results if result.mistakes} == {}
    assert len([result for result in results if not result.left_out]) >= 10
