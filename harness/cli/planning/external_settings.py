"""Scenarios that somebody else's brokers, as they are set, can run. The others are left out, with the reason."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.cli.arguments.run_options import RunOptions
from harness.clusters.external import ExternalCluster
from harness.clusters.security import read_security
from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.run.hosts.broker_settings import differing_settings, settings_wanted, wanted_by
from harness.suite import Suite
from harness.terminal.tables import print_fitting

Request = tuple[Suite, tuple[PlannedCell, ...]]


def fitting_brokers(requests: Sequence[Request], options: RunOptions) -> list[Request]:
    """The requests without the cells whose scenario needs other settings of the brokers. UsageError if nothing is left.
    Asks nobody unless the cluster is external. With fault hosts, every difference is an error (fault_host_needs.py)."""
    asking = [cell for _, cells in requests for cell in cells if cell.kind == "chaos" and wanted_by(cell)]
    if options.engine != "external" or options.fault_hosts is not None or not asking:
        return list(requests)
    problems = _problems(asking, options)
    kept = [(suite, tuple(cell for cell in cells if not problems.get(cell.cell_id))) for suite, cells in requests]
    lines = list(dict.fromkeys(line for found in problems.values() for line in found))
    if not any(cells for _, cells in kept):
        raise UsageError(f"nothing is left to run: {'; '.join(lines)}")
    for line in lines:
        print_fitting(f"left out: {line}", to_stderr=True, hanging=2)
    return [(suite, cells) for suite, cells in kept if cells]


def _problems(cells: Sequence[PlannedCell], options: RunOptions) -> dict[str, list[str]]:
    """By cell id."""
    assert options.bootstrap_server is not None, "the plan asks for it"
    with tempfile.TemporaryDirectory() as scratch:
        config = options.client_config
        security = None if config is None else read_security(config, Path(scratch))
        cluster = ExternalCluster(options.bootstrap_server, security=security)
        cluster.start()
        try:
            return {cell.cell_id: differing_settings(settings_wanted([cell]), cluster) for cell in cells}
        finally:
            cluster.stop()
