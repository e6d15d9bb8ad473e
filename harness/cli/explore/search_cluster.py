"""The cluster of a search from the command line: where it runs, its directory, and its lease.

Shown by tests/harness/test_harness_explore_cli.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import cast

from chaos.lease import Lease
from chaos.reap import reap
from harness.cli.environment.preflight import check_releases
from harness.clusters.base import Engine
from harness.errors import UsageError
from harness.explore.execution.bench import Bench, MakesRun
from harness.explore.execution.benches import Benches
from harness.explore.execution.cluster_changes import BROKERS
from harness.explore.execution.subject import Subject
from harness.explore.execution.warm_clients import WarmClients
from harness.kafka_releases import CONSUMER_PROTOCOL, TRANSACTION_VERSION_2, cluster_choice, lacking, parse_releases
from harness.lease_root import lease_root
from harness.run.directory.run_directory import RUNS, create_run_directory
from workloads.clients.process.versions.short_jvm import is_short_lived


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    engine: Engine
    releases: tuple[str, ...]

    @property
    def transaction_version(self) -> int:
        """The newest that all of its brokers have."""
        return 1 if lacking(parse_releases(self.releases), [TRANSACTION_VERSION_2]) else 2

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether all of its brokers have the protocol of KIP-848 for production."""
        return not lacking(parse_releases(self.releases), [CONSUMER_PROTOCOL])


def place_of(cluster: str) -> Place:
    """As --cluster says it. UsageError for one that a search cannot start."""
    choice = cluster_choice(cluster)
    if choice.engine not in ("reference", "kafka"):
        raise UsageError(f"--cluster {choice.engine}: a search starts its own cluster, reference or kafka")
    if choice.engine == "kafka":
        check_releases(parse_releases(choice.releases))
    return Place(engine=cast(Engine, choice.engine), releases=choice.releases)


@contextmanager
def started_bench(
    command: Sequence[str],
    environment: Mapping[str, str],
    place: Place,
    *,
    kind: str,
    run_dir: Path | None = None,
    brokers: int = BROKERS,
    frame_bytes_max: int = 0,
    run_by: MakesRun = Subject,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[Benches, Path]]:
    """The benches, and a run directory, which is `run_dir` or one whose name has `kind`. `settings` are the brokers',
    beside those of every bench. What earlier commands that were killed have left is healed first."""
    root = lease_root()
    directory = create_run_directory(RUNS, kind, run_dir)
    reap(root)
    lease = Lease(root)

    warm = WarmClients() if is_short_lived(command) else None

    def bench(name: str, brokers: int) -> Bench:
        return Bench(
            command,
            environment=environment,
            engine=place.engine,
            releases=place.releases,
            directory=directory / name,
            lease=lease,
            brokers=brokers,
            frame_bytes_max=frame_bytes_max,
            run_by=run_by,
            settings=settings,
            warm=warm,
        )

    try:
        with (
            warm or nullcontext(),
            bench("cluster", brokers) as shared,
            Benches(shared, lambda: bench("brokers-that-die", BROKERS)) as both,
        ):
            yield both, directory
    finally:
        lease.close()
