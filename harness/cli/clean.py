"""`harness clean`: undo what processes that are gone have left, by their leases; remove the data of clusters that never
came up."""

from __future__ import annotations

import os
import shutil

from chaos.lease import default_root, read_identity, reap
from harness.cli.cluster import state_directory
from harness.clusters.kafka.jars import cache_directory
from runlog.events import read_json


def clean_up() -> None:
    """One line for each thing undone; nothing to undo says so."""
    lines = [*reap(default_root(os.environ)), *_remove_abandoned_containers(), *_remove_abandoned_data()]
    for line in lines:
        print(line)
    if not lines:
        print("nothing was left behind")


def _remove_abandoned_containers() -> list[str]:
    from harness.clusters.docker.engine import reap_containers

    return reap_containers()


def _remove_abandoned_data() -> list[str]:
    """Of `harness cluster up` killed before its cluster was up: named after its pid, and in no state file."""
    known = {str(read_json(path).get("directory")) for path in state_directory().glob("*.json")}
    removed = []
    for directory in sorted((cache_directory() / "clusters").glob("*-*")):
        pid = directory.name.rpartition("-")[2]
        if str(directory) in known or not pid.isdigit() or read_identity(int(pid)) is not None:
            continue
        shutil.rmtree(directory, ignore_errors=True)
        removed.append(f"removed data of a cluster that is gone: {directory}")
    return removed
