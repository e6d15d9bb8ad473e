"""The topics of one cell. On an external cluster they are recorded in a lease. They are deleted when the cell ends.
Topics that stay are reported.

Shown by tests/harness/test_harness_own_topics.py.
"""

from __future__ import annotations

import time
from typing import Final

from harness.clusters.admin import Admin
from harness.clusters.capabilities import OutlivesRun
from harness.clusters.cluster import Cluster
from harness.clusters.own_topics import OwnTopics
from harness.run.context import RunContext

LAST_DELETE_TIMEOUT_S: Final = 5.0  # of a run that was stopped


def own_topics(admin: Admin, cluster: Cluster, context: RunContext) -> OwnTopics:
    """The own topics of a cell, empty at first."""
    ledger = context.lease if isinstance(cluster, OutlivesRun) else None
    return OwnTopics(admin, ledger=ledger, bootstrap_servers=cluster.direct_bootstrap_servers)


def delete_topics(topics: OwnTopics, cluster: Cluster, context: RunContext) -> list[str]:
    """Deletes the topics that we made, and no others. One line for each that stays on a cluster that outlives us."""
    is_stopped, is_external = context.stop.is_set(), isinstance(cluster, OutlivesRun)
    if is_stopped and not is_external:
        return []  # the cluster is removed, and the topics with it
    deadline = time.monotonic() + LAST_DELETE_TIMEOUT_S
    last = Admin(cluster.direct_addresses, should_stop=lambda: time.monotonic() > deadline)
    problems = topics.delete_all(last if is_stopped else None)
    if not is_external:
        return []
    for problem in problems:
        context.progress.say(problem)
    return problems
