"""Every client that is shipped passes the whole conformance check, and runs under a fault like any other client."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.clusters.kafka.jars import cache_directory
from harness.conformance.check import first_line, trial_results
from harness.conformance.world import World
from harness.errors import ExitCode
from workloads.clients.process.build import RECIPES, built, missing_tool

pytestmark = [pytest.mark.slow, pytest.mark.long]


# To build these asks Maven or cargo for much.
HEAVY = {"java", "librdkafka"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.versions] if name in HEAVY else []) for name in RECIPES]
)
def test_a_shipped_client_makes_no_mistake_in_any_trial(name: str) -> None:
    if problem := missing_tool(name):
        pytest.skip(f"{problem}: {RECIPES[name].fix}")
    found = built(name, cache_directory())
    ready, mistakes = first_line(found)
    assert ready is not None
    assert list(mistakes) == []
    with World() as world:
        results = list(trial_results(found, world, ready))
    assert {result.trial.name: list(result.mistakes) for result in results if result.mistakes} == {}
    assert len([result for result in results if not result.left_out]) >= 10


def test_the_outcomes_of_a_shipped_client_under_lost_answers_are_those_that_are_predicted(tmp_path: Path) -> None:
    """201 and 329 records were duplicated in two runs, each of them foretold by the record of the proxy."""
    if problem := missing_tool("franz-go"):
        pytest.skip(f"{problem}: {RECIPES['franz-go'].fix}")
    arguments = ["chaos", "response-lost", "--case", "idempotence-off", "--client", "franz-go"]
    assert execute([*arguments, "--run-dir", str(tmp_path / "run"), "--toxiproxy", "embedded"]) == ExitCode.PASS
