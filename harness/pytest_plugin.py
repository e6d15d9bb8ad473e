"""Pytest plugin: a user's own producer or consumer under faults, in an ordinary test
(docs/guide/testing-your-client.md).

Fixtures `kafka_cluster` (three brokers, every link behind a proxy, a topic of the test's own) and `chaos` (faults, and
scenarios by `@pytest.mark.chaos(NAME)`). Clusters are shared between tests that ask for the same settings and end with
the session. What they offer is in harness/fixtures/. Shown by tests/harness/test_harness_pytest_plugin.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.errors import HarnessError

if TYPE_CHECKING:  # pytest loads this in every project that has the package: what costs time waits for its use
    from harness.fixtures import Chaos, ClusterPool, KafkaCluster, ScenarioChoice

_POOL: Final = pytest.StashKey["ClusterPool"]()
_CURRENT: Final = pytest.StashKey["KafkaCluster"]()  # The test that runs now has it.
_ENGINES: Final = ("reference", "kafka", "docker")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka-harness", "Kafka under faults")
    group.addoption(
        "--kafka-cluster", choices=_ENGINES, default="reference", help="what kafka_cluster starts (default: reference)"
    )
    group.addoption(
        "--kafka-toxiproxy",
        default="auto",
        metavar="URL|auto|embedded",
        help="which server carries the links between brokers (default: auto)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "chaos(scenario, case=None): run the test under this scenario's faults; `case` lends its topic settings",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A misspelt scenario is an error before the first cluster is started."""
    for item in items:
        try:
            choice_of(item)
        except HarnessError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from error


def pytest_unconfigure(config: pytest.Config) -> None:
    pool = config.stash.get(_POOL, None)
    if pool is not None:
        pool.close()


def choice_of(item: pytest.Item) -> ScenarioChoice | None:
    """The scenario of the nearest `chaos` marker. HarnessError names the nearest right name."""
    marker = item.get_closest_marker("chaos")
    if marker is None:
        return None
    unknown = set(marker.kwargs) - {"case"}
    if len(marker.args) != 1 or unknown:
        raise HarnessError("expected @pytest.mark.chaos(SCENARIO, case=NAME)")
    from harness.fixtures import ScenarioChoice
    from harness.scenarios import load_scenario

    scenario = load_scenario(str(marker.args[0]))
    return ScenarioChoice.of(scenario, marker.kwargs.get("case"))


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> list[str] | None:
    """`assert set(acknowledged) <= set(kafka_cluster.values())` fails with the story of what is gone."""
    cluster = config.stash.get(_CURRENT, None)
    if cluster is None or op not in ("<=", "=="):
        return None
    from harness.loss_words import comparison_lines

    verbose = config.get_verbosity() >= 2
    return comparison_lines(op, left, right, cluster.handed_out, cluster.loss_lines, is_all_shown=verbose)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A healthy cluster with a topic of this test's own; healthy again afterwards, or the next test gets a new one."""
    pool = _pool(request.config, tmp_path_factory)
    choice = choice_of(request.node)
    cluster = pool.borrow(choice)
    request.config.stash[_CURRENT] = cluster
    try:
        yield cluster
    finally:
        del request.config.stash[_CURRENT]
        pool.give_back(cluster)


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_cluster: KafkaCluster) -> Iterator[Chaos]:
    """Faults on that cluster. All are healed when the test ends, however it ends."""
    from harness.fixtures import Chaos

    faults = Chaos(kafka_cluster, choice_of(request.node))
    try:
        yield faults
    finally:
        faults.close()


def _pool(config: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> ClusterPool:
    if _POOL not in config.stash:
        from harness.fixtures import ClusterPool

        directory: Path = tmp_path_factory.mktemp("kafka-clusters")
        config.stash[_POOL] = ClusterPool(
            engine=config.getoption("--kafka-cluster"),
            proxy_choice=config.getoption("--kafka-toxiproxy"),
            directory=directory,
        )
    return config.stash[_POOL]
