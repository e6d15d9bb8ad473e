"""Pytest plugin: a user's own producer or consumer under faults, in an ordinary test
(docs/guide/testing-your-client.md).

Fixtures `kafka_cluster` (three brokers, every link behind a proxy, a topic of the test's own) and `chaos` (faults, and
scenarios by `@pytest.mark.chaos(NAME)`), and `kafka_explore` (a search for the fault that a whole program does not
stand). `--kafka-client NAME==VERSION` or `--kafka-python-env DIR` choose the library
of the test's own client. Clusters are shared between tests that ask for the same settings and end with
the session. What they offer is in harness/fixtures/. Shown by tests/harness/test_harness_pytest_plugin.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from harness.errors import HarnessError

if TYPE_CHECKING:  # pytest loads this in every project that has the package: what costs time waits for its use
    from harness.fixtures import Chaos, ClusterPool, KafkaCluster, ScenarioChoice
    from harness.kafka_releases import ClusterChoice
    from harness.pytest_explore import Explore

_POOL: Final = pytest.StashKey["ClusterPool"]()
_CURRENT: Final = pytest.StashKey["KafkaCluster"]()  # The test that runs now has it.
_CLIENT: Final = pytest.StashKey["OwnClient"]()
_ENGINES: Final = ("reference", "kafka", "docker")
_CLUSTER_DEFAULT: Final = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnClient:
    """Where the client's library of the tests comes from, if not from their own environment."""

    environment: Path
    libraries: dict[str, str]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka-harness", "Kafka under faults")
    group.addoption(
        "--kafka-cluster",
        default=_CLUSTER_DEFAULT,
        metavar="|".join(_ENGINES),
        help="what kafka_cluster starts (default: reference); kafka==3.9.1: that release of Apache Kafka",
    )
    group.addoption(
        "--kafka-toxiproxy",
        default="auto",
        metavar="URL|auto|embedded",
        help="which server carries the links between brokers (default: auto)",
    )
    group.addoption(
        "--kafka-client",
        metavar="NAME==VERSION",
        help="the tests import this version of their Python client (confluent==2.4.0), which is installed once",
    )
    group.addoption(
        "--kafka-python-env",
        metavar="DIR",
        type=Path,
        help="the tests import their Python client from this virtual environment",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """The client's library is chosen before the first conftest.py can import one."""
    known = early_config.known_args_namespace
    client, directory = known.kafka_client, known.kafka_python_env
    if client is None and directory is None:
        return
    from harness.fixtures.own_client import site_packages, use_libraries

    try:
        if client is not None and directory is not None:
            raise HarnessError("--kafka-client and --kafka-python-env: expected one of them")
        option = f"--kafka-python-env {directory}" if client is None else f"--kafka-client {client}"
        environment = directory if client is None else _environment_of(client)
        libraries = use_libraries(site_packages(environment, option.split()[0]), option)
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error
    early_config.stash[_CLIENT] = OwnClient(environment=environment, libraries=libraries)


def _environment_of(client: str) -> Path:
    from harness.run.generator.client_runtime import client_program

    program = Path(client_program(client, what="be imported by tests").command[0])
    if "==" not in client or program.name != "python":
        raise HarnessError(f"--kafka-client {client}: expected a client in Python with its version: confluent==2.4.0")
    return program.parent.parent


def pytest_report_header(config: pytest.Config) -> list[str]:
    own = config.stash.get(_CLIENT, None)
    return [] if own is None else [f"kafka client: {', '.join(own.libraries.values())} from {own.environment}"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "chaos(scenario, case=None): run the test under this scenario's faults; `case` lends its topic settings",
    )
    chosen = config.getoption("--kafka-cluster")
    if chosen != _CLUSTER_DEFAULT:  # so that sessions without it import nothing for it
        _cluster(chosen)


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
    try:
        pool = _pool(request.config, tmp_path_factory)
        cluster = pool.borrow(choice_of(request.node))
    except HarnessError as error:  # its message says all: our own source would hide it
        pytest.fail(f"kafka_cluster: {type(error).__name__}: {error}", pytrace=False)
    request.config.stash[_CURRENT] = cluster
    try:
        yield cluster
    finally:
        del request.config.stash[_CURRENT]
        pool.give_back(cluster)


@pytest.fixture(scope="session")
def kafka_client_python(pytestconfig: pytest.Config) -> str:
    """The Python that has the client's library, for a test that starts its client as a process."""
    own = pytestconfig.stash.get(_CLIENT, None)
    return sys.executable if own is None else str(own.environment / "bin" / "python")


@pytest.fixture
def chaos(request: pytest.FixtureRequest, kafka_cluster: KafkaCluster) -> Iterator[Chaos]:
    """Faults on that cluster. All are healed when the test ends, however it ends."""
    from harness.fixtures import Chaos

    faults = Chaos(kafka_cluster, choice_of(request.node))
    try:
        yield faults
    finally:
        faults.close()


@pytest.fixture
def kafka_explore(request: pytest.FixtureRequest, tmp_path: Path) -> Explore:
    """`kafka_explore.program("python app.py")` fails with the faults that the program does not stand."""
    from harness.pytest_explore import Explore

    text = request.config.getoption("--kafka-cluster")
    if _cluster(text).engine == "docker":
        raise pytest.UsageError("--kafka-cluster docker: a search starts its own cluster, reference or kafka")
    return Explore(tmp_path, text)


def _cluster(text: str) -> ClusterChoice:
    from harness.kafka_releases import cluster_choice
    from harness.suite_source import nearest

    try:
        choice = cluster_choice(text)
    except HarnessError as error:
        raise pytest.UsageError(f"--kafka-cluster: {error}") from error
    if choice.engine not in _ENGINES:
        raise pytest.UsageError(f"--kafka-cluster {text}: no such cluster{nearest(choice.engine, _ENGINES)}")
    return choice


def _pool(config: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> ClusterPool:
    if _POOL not in config.stash:
        from harness.fixtures import ClusterPool

        directory: Path = tmp_path_factory.mktemp("kafka-clusters")
        config.stash[_POOL] = ClusterPool(
            cluster=_cluster(config.getoption("--kafka-cluster")),
            proxy_choice=config.getoption("--kafka-toxiproxy"),
            directory=directory,
        )
    return config.stash[_POOL]
