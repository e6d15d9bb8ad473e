"""Versions of clients come from the registries by their ordinary clients, and pass the whole conformance check."""

from __future__ import annotations

import pytest

from harness.cli.main import execute
from harness.clusters.kafka.jars import cache_directory
from harness.conformance.check import first_line, trial_results
from harness.conformance.world import World
from harness.errors import ExitCode
from workloads.clients.process.versions.installers import missing_tool
from workloads.clients.process.versions.installing import installed, resolved_of
from workloads.clients.process.versions.names import client_of
from workloads.clients.process.versions.table import VERSIONS

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.versions]
TRIED = (
    "confluent==2.4.0", "aiokafka==0.12.0", "kafka_python==2.2.8",
    "franz-go==1.17.0", "sarama==1.47.0", "kafkajs==2.2.3",
    "java==2.1.0", "java==4.4.0", "librdkafka==1.8.2",
)  # fmt: skip
# What a library does wrong by itself. kafka-python 2.2 never ends a transaction that is committed while records are
# under way: its sender's thread fails with "'RecordAccumulator' object has no attribute 'flush_in_progress'".
KNOWN = {"kafka_python==2.2.8": {"copies"}}


@pytest.mark.parametrize("name", TRIED)
def test_a_client_in_an_old_version_makes_no_mistake_in_any_trial(name: str) -> None:
    installer = VERSIONS[client_of(name)]
    if (tool := missing_tool(installer)) is not None:
        pytest.skip(f"{tool.program} is not on PATH: {tool.fix}")
    found = installed(name, cache_directory())
    assert name.partition("==")[2] in resolved_of(name, cache_directory()).values()
    ready, mistakes = first_line(found)
    assert ready is not None
    assert list(mistakes) == []
    assert ready.version == name.partition("==")[2]
    with World() as world:
        results = list(trial_results(found, world, ready))
    wrong = {result.trial.name: list(result.mistakes) for result in results if result.mistakes}
    assert {trial: mistakes for trial, mistakes in wrong.items() if trial not in KNOWN.get(name, ())} == {}
    assert len([result for result in results if not result.left_out]) >= 10


@pytest.mark.parametrize("client", VERSIONS)
def test_a_version_that_the_registry_does_not_have_ends_before_anything_starts(
    client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if (tool := missing_tool(VERSIONS[client])) is not None:
        pytest.skip(f"{tool.program} is not on PATH: {tool.fix}")
    assert execute(["client", "check", "--client", f"{client}==0.0.977"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert f"client {client}==0.0.977: {VERSIONS[client].registry} has no " in said
