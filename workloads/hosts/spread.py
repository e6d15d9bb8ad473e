"""Which host runs which producers and readers of a cell. Pure.

Producers take turns over the hosts, so that each has as many as the next, or one more. Readers run only on hosts with
producers, and again take turns. So a cell whose producers are all on one host has its readers there too, and its
end-to-end latencies are of one clock. Shown by tests/workloads/test_workloads_hosts_wire.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from workloads.hosts.wire import ShareOfHost
from workloads.model import Workload


def spread(workload: Workload, hosts: Sequence[str]) -> dict[str, ShareOfHost]:
    """Host -> its share. A host without a share is left out. All numbers are given exactly once."""
    if not hosts:
        raise ValueError("there is no host to run on")
    used = len(hosts[: workload.producers])
    producers = [tuple(range(place, workload.producers, used)) for place in range(used)]
    consumers = [tuple(range(place, workload.consumers_inside, used)) for place in range(used)]
    return {
        host: ShareOfHost(producers=producers[place], consumers=consumers[place])
        for place, host in enumerate(hosts[:used])
    }
