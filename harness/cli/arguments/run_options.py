"""The options of a run, the same for all commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.run.hosts.load_hosts import LoadHostsRequest
from harness.run.report.spark_choice import SparkChoice
from harness.suite import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    engine: str
    bootstrap_server: str | None
    client: str | None
    seed: int | None
    dry_run: bool
    toxiproxy: str
    spark: SparkChoice
    run_dir: Path | None
    make_report: bool
    argv: tuple[str, ...]
    web_port: int | None = None
    strict: bool = False
    cells: tuple[str, ...] = ()  # empty: all of the plan
    allow: Path | None = None
    artifacts: Path | None = None
    certify: bool = True
    client_config: Path | None = None
    load_hosts: LoadHostsRequest | None = None
    fault_hosts: LoadHostsRequest | None = None
    direct_bootstrap_server: str | None = None
    yes: bool = False  # a cluster that the harness did not start may be loaded
    releases: tuple[str, ...] = ()  # Releases of Apache Kafka. If there are none, the suites decide.

    def seed_of(self, suite: Suite) -> int:
        return suite.seed if self.seed is None else self.seed

    def client_of(self, suite: Suite) -> str:
        return self.client or suite.client

    def sweep_client_of(self, suite: Suite) -> str:
        return self.client or suite.sweep_client

    def cluster_words(self, suite: Suite) -> str:
        """The kind of cluster, and the releases that are asked for."""
        releases = suite.cluster.releases if self.engine == "kafka" else ()
        return f"{self.engine} {', '.join(releases)}".strip()

    def client_words(self, suite: Suite) -> str:
        client, of_sweep = self.client_of(suite), self.sweep_client_of(suite)
        return f"client {client}" + ("" if of_sweep == client else f" ({of_sweep} in the sweep)")
