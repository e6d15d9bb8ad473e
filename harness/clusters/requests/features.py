"""The levels of a cluster's features, by plain admin requests. Implements `chaos.ports.brokers.Features`.

Shown by tests/harness/test_harness_releases.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.door.clients import KafkaError
from broker.door.questions import Features, changed_features, features
from harness.clusters.base import Address
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.probe import BrokerProbe
from harness.errors import CellError

_ANSWER_TIMEOUT_S: Final = 2.0
_CHANGE_TIMEOUT_MS: Final = 30_000


class ClusterFeatures:
    def __init__(self, addresses: Callable[[], Mapping[int, Address]]) -> None:
        """`addresses`: of the brokers that can be asked now, without any proxy."""
        self._addresses = addresses

    def answers(self, broker_id: int) -> bool:
        address = self._addresses().get(broker_id)
        return address is not None and _features(address) is not None

    def highest_levels(self) -> Mapping[str, int]:
        told = list(self._told().values())
        if not told:
            raise CellError("no broker tells its features")
        everywhere = set.intersection(*(set(each.supported) for each in told))
        return {name: min(each.supported[name][1] for each in told) for name in sorted(everywhere)}

    def levels_in_force(self) -> Mapping[str, int]:
        told = self._told()
        if not told:
            raise CellError("no broker tells its features")
        return next(iter(told.values())).in_force

    def levels_by_broker(self) -> Mapping[int, Mapping[str, int]]:
        return {broker: each.in_force for broker, each in self._told().items()}

    def change_features(self, levels: Mapping[str, int], *, is_downgrade: bool = False) -> None:
        Admin(lambda: self._addresses().values()).change(
            f"features {dict(levels)}",
            changed_features(levels, is_downgrade=is_downgrade, timeout_ms=_CHANGE_TIMEOUT_MS),
        )

    def _told(self) -> Mapping[int, Features]:
        answers = {broker: _features(address) for broker, address in self._addresses().items()}
        return {broker: each for broker, each in answers.items() if each is not None}


def _features(address: Address) -> Features | None:
    with BrokerProbe(address, timeout_s=_ANSWER_TIMEOUT_S) as probe:
        try:
            return probe.ask(features())
        except KafkaError:
            return None
