"""The topics and groups of one cell. On an external cluster they are recorded in a lease. They are deleted when the
cell ends. Those that stay are reported.

Shown by tests/harness/test_harness_own_topics.py.
"""

from __future__ import annotations

import time
from typing import Final

from harness.clusters.capabilities import OutlivesRun
from harness.clusters.cluster import Cluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_groups import DELETE_TIMEOUT_S, OwnGroups
from harness.clusters.requests.own_topics import OwnTopics
from harness.planned_cell import PlannedCell
from harness.run.cells.share_groups import settings_of
from harness.run.context import RunContext

LAST_DELETE_TIMEOUT_S: Final = 5.0  # A run that was stopped waits no longer.


def own_topics(admin: Admin, cluster: Cluster, context: RunContext) -> OwnTopics:
    """The own topics of a cell, empty at first."""
    ledger = context.lease if isinstance(cluster, OutlivesRun) else None
    return OwnTopics(admin, ledger=ledger, bootstrap_servers=cluster.direct_bootstrap_servers)


def own_groups(planned: PlannedCell, cluster: Cluster, context: RunContext) -> OwnGroups | None:
    """The groups that the cell will use, noted. None if they end with their cluster."""
    if not isinstance(cluster, OutlivesRun):
        return None
    groups = OwnGroups(
        cluster.client_properties, ledger=context.lease, bootstrap_servers=cluster.direct_bootstrap_servers
    )
    for reader in planned.workload.reader_groups:
        if reader.mode != "assign":
            settings = settings_of(reader.start, reader.group_settings) if reader.mode == "share" else {}
            groups.note(reader.group_id(planned.topic_name), list(settings))
    return groups


def delete_own(topics: OwnTopics, groups: OwnGroups | None, cluster: Cluster, context: RunContext) -> list[str]:
    """Deletes the topics and groups that we made, and no others. One line for each that stays on a cluster that
    outlives us."""
    is_stopped, is_external = context.stop.is_set(), isinstance(cluster, OutlivesRun)
    if is_stopped and not is_external:
        return []  # the cluster is removed, and the topics with it
    deadline = time.monotonic() + 2 * LAST_DELETE_TIMEOUT_S  # groups go before the topics
    last = Admin(cluster.direct_addresses, should_stop=lambda: time.monotonic() > deadline)
    problems = [] if groups is None else groups.delete_all(LAST_DELETE_TIMEOUT_S if is_stopped else DELETE_TIMEOUT_S)
    problems += topics.delete_all(last if is_stopped else None)
    if not is_external:
        return []
    for problem in problems:
        context.progress.say(problem)
    return problems
