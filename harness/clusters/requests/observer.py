"""Looks at a cluster again and again, through one open connection per broker. The 100 ms Metadata probe uses it.

For one thread. A paused or dead broker is not asked, so that one look takes milliseconds and not a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from harness.clusters.base import Address, ClusterState
from harness.clusters.requests.probe import BrokerProbe

_PROBE_TIMEOUT_S = 0.5


class Observer:
    def __init__(self, topic: str, addresses: Mapping[int, Address], askable: Callable[[], Iterable[int]]) -> None:
        self._topic, self._askable = topic, askable
        self._probes = {
            broker: BrokerProbe(address, timeout_s=_PROBE_TIMEOUT_S) for broker, address in addresses.items()
        }

    def state(self) -> ClusterState | None:
        """The view of each partition with the newest leader epoch. If epochs are equal, the view of the first
        broker."""
        best: ClusterState | None = None
        for broker in self._askable():
            answer = self._probes[broker].metadata(self._topic)
            if answer is not None:
                best = answer if best is None else merged(best, answer)
        return best

    def close(self) -> None:
        for probe in self._probes.values():
            probe.close()


def merged(first: ClusterState, second: ClusterState) -> ClusterState:
    """The newer of two views of each partition. Within an epoch, the leader's own view of its ISR is the newest."""
    partitions = dict(first.partitions)
    for index, state in second.partitions.items():
        if index not in partitions or state.leader_epoch > partitions[index].leader_epoch:
            partitions[index] = state
    return ClusterState(brokers=first.brokers, controller=first.controller, partitions=partitions)
