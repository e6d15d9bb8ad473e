"""Kafka's own tools with share groups on the reference broker: the console consumer, and kafka-share-groups."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from share_helper import SETTINGS, prepare, send

from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
SHARE_GROUPS = "consumer.group.ShareGroupCommand"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster(tmp_path_factory.mktemp("tools"), brokers=1, settings=SETTINGS) as running:
        yield running.bootstrap()


def tool(directory: Path, bootstrap: str, name: str, *arguments: str) -> str:
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    command += [f"org.apache.kafka.tools.{name}", "--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=directory, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def rows(text: str) -> list[list[str]]:
    return [re.split(r"\s+", line.strip()) for line in text.splitlines() if line.strip()]


def test_a_queue_is_read_described_reset_and_deleted_by_kafkas_tools(bootstrap: str, tmp_path: Path) -> None:
    prepare(bootstrap, "t", "g", partitions=2)
    send(bootstrap, "t", range(20), partitions=2)

    def run(name: str, *arguments: str) -> str:
        return tool(tmp_path, bootstrap, name, *arguments)

    read = run("consumer.ConsoleShareConsumer", "--topic", "t", "--group", "g", "--max-messages", "20")
    assert sorted(int(line) for line in read.splitlines()) == list(range(20))
    assert ["g", "Empty"] in rows(run(SHARE_GROUPS, "--list", "--state"))
    before = rows(run(SHARE_GROUPS, "--describe", "--group", "g"))
    # The start offset that is kept is the one of before the last write; the lag counts what is done behind it.
    assert sorted((row[2], row[4]) for row in before if row[:2] == ["g", "t"]) == [("0", "0"), ("1", "0")], before
    reset = ("--reset-offsets", "--group", "g", "--topic", "t:0", "--to-earliest", "--execute")
    run(SHARE_GROUPS, *reset)
    after = rows(run(SHARE_GROUPS, "--describe", "--group", "g", "--offsets"))
    assert ["g", "t", "0", "0", "10"] in after, after
    again = run("consumer.ConsoleShareConsumer", "--topic", "t", "--group", "g", "--max-messages", "10")
    assert sorted(int(line) for line in again.splitlines()) == list(range(0, 20, 2)), "only of partition 0"
    assert "Successful" in run(SHARE_GROUPS, "--delete-offsets", "--group", "g", "--topic", "t")
    assert "successful" in run(SHARE_GROUPS, "--delete", "--group", "g")
    assert run(SHARE_GROUPS, "--list").split() == []


def test_the_feature_is_told_and_turned_off_and_on(bootstrap: str, tmp_path: Path) -> None:
    def level() -> str:
        described = tool(tmp_path, bootstrap, "FeatureCommand", "describe")
        (line,) = [each for each in described.splitlines() if "share.version" in each]
        return line.split("FinalizedVersionLevel: ")[1].split()[0]

    assert level() == "1"
    tool(tmp_path, bootstrap, "FeatureCommand", "downgrade", "--feature", "share.version=0")
    wait_until(lambda: level() == "0", "the broker knows that the feature is off")
    tool(tmp_path, bootstrap, "FeatureCommand", "upgrade", "--feature", "share.version=1")
    wait_until(lambda: level() == "1", "the broker knows that the feature is on")
