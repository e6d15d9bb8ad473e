"""`harness clean`: undoes what processes that are gone have left, by their leases. It also deletes the topics
(by their ids) and groups of crashed runs on clusters of others, and removes the data of clusters that never came up.

Shown by tests/harness/test_harness_own_topics.py.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from typing import Final

from chaos.lease import default_root
from chaos.lease_file import Entry
from chaos.reap import left_alone, reap, settle
from harness.cli.clusters.cluster_state import remove_abandoned_data
from harness.clusters.external import ExternalCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_groups import delete_group
from harness.clusters.security import Security, read_security
from harness.errors import EnvironmentFault, HarnessError
from harness.terminal.tables import print_fitting

_TOPIC_TIMEOUT_S: Final = 10.0
_OWN_NAME: Final = re.compile(r"harness-[0-9a-f]{10}[-A-Za-z0-9._]*")  # as run/context.py makes marks


def clean_up(client_config: Path | None = None) -> None:
    """One line for each thing that was undone, and for each thing that is left alone. If there is nothing to undo, a
    line says so. `client_config`: how to reach the clusters on which topics or groups were left. EnvironmentFault if
    one of these stays."""
    root = default_root(os.environ)
    lines, staying = reap(root), list[Entry]()

    def delete(entry: Entry) -> str:
        if problem := _delete(entry, security):
            staying.append(entry)
        return problem

    with tempfile.TemporaryDirectory() as directory:
        security = None if client_config is None else read_security(client_config, Path(directory))
        lines += settle(root, delete)
    lines += [*left_alone(root), *_remove_abandoned_containers(), *remove_abandoned_data()]
    for line in dict.fromkeys(lines):
        print_fitting(line, hanging=2)
    if not lines:
        print_fitting("nothing was left behind")
    if staying:
        raise EnvironmentFault(
            f"{len(staying)} of the topics and groups that crashed runs left stay: mend what the lines above say, and "
            "run this again"
        )


def _delete(entry: Entry, security: Security | None) -> str:
    """Why it could not be deleted; empty if it is gone."""
    if not _OWN_NAME.fullmatch(entry.topic or entry.group):
        return "its name is not one that a run makes; look, and remove the lease"
    if entry.kind == "topic" and not entry.topic_id:
        return "its id is not known, so it may be somebody else's; look, and remove the lease"
    try:
        cluster = ExternalCluster(entry.bootstrap_servers, security=security)
        cluster.start()
    except HarnessError as error:
        return str(error)
    if entry.kind == "topic":
        return _delete_topic(entry, cluster)
    properties = {**cluster.client_properties, "bootstrap.servers": entry.bootstrap_servers}
    is_gone, problem = delete_group(properties, entry.group, entry.settings, timeout_s=_TOPIC_TIMEOUT_S)
    return "" if is_gone else problem


def _delete_topic(entry: Entry, cluster: ExternalCluster) -> str:
    deadline = time.monotonic() + _TOPIC_TIMEOUT_S
    admin = Admin(cluster.direct_addresses, should_stop=lambda: time.monotonic() > deadline)
    if admin.topic_id(entry.topic) not in (entry.topic_id, None):
        return ""  # our topic is gone, and another one has its name
    try:
        return "" if admin.delete_topic(entry.topic_id) else "the brokers refuse, or do not answer"
    except ValueError:
        return f"{entry.topic_id!r} is no topic id"


def _remove_abandoned_containers() -> list[str]:
    from harness.clusters.docker.engine import reap_containers

    return reap_containers()
