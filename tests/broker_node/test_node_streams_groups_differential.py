"""Apache Kafka and our broker answer alike about streams groups (KIP-1071): a script of requests, with all texts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from streams_script import SETTINGS, StreamsScript

from harness.clusters.kafka.jars import has_jars, jar_directory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Apache Kafka's, and ours."""
    directory: Path = tmp_path_factory.mktemp("streams-groups")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with (
        kafka_node(directory / "kafka", SETTINGS) as theirs,
        Cluster(directory / "ours", brokers=1, settings=SETTINGS) as ours,
    ):
        yield theirs, ours.ports[1]["DIRECT"]


def test_requests_to_streams_groups_are_answered_as_by_apache_kafka(ports: tuple[int, int]) -> None:
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(lambda port: StreamsScript(port).run(), ports)
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    different = [
        f"{number} {label}\n  Apache Kafka: {expected}\n  ours:         {got}"
        for number, ((label, expected), (_, got)) in enumerate(zip(theirs, ours, strict=True))
        if expected != got
    ]
    assert not different, f"{len(different)} of {len(ours)}\n" + "\n".join(different)
