"""The values of one run that the command line asked for. This module does not know how a run is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.clusters.base import Engine
from harness.planned_cell import PlannedCell
from harness.run.hosts.load_hosts import LoadHostsRequest
from harness.suite import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    suite: Suite
    cells: tuple[PlannedCell, ...]
    engine: Engine
    client: str
    seed: int
    proxy_choice: str
    bootstrap_servers: str | None
    client_config: Path | None = None  # It has Kafka's client properties, for an external cluster.
    run_dir: Path
    argv: Sequence[str]
    web_port: int | None = None
    certify: bool = True
    load_hosts: LoadHostsRequest | None = None  # none: the load runs here
    fault_hosts: LoadHostsRequest | None = None  # none: processes of an external cluster are left alone
    direct_bootstrap_servers: str | None = None  # The harness's own requests to such a cluster go there.
