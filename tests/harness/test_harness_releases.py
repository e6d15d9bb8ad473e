"""Releases of a running cluster: levels of features against a real broker, and whose cluster may change its release."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.faults import FAULTS
from chaos.ports.brokers import Versions
from chaos.targets import PartitionOfInterest
from harness.clusters.base import Address, ClusterKey
from harness.clusters.factory import build_layout
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.features import ClusterFeatures
from harness.errors import CellError, UsageError
from tests.workloads.reference_broker import ReferenceBroker


def address_of(broker: ReferenceBroker) -> Address:
    return Address(host="127.0.0.1", port=int(broker.address.rpartition(":")[2]))


@pytest.mark.slow
def test_a_level_is_in_force_while_the_fault_lasts_and_the_old_one_afterwards(tmp_path: Path) -> None:
    broker = ReferenceBroker(tmp_path)
    try:
        address = address_of(broker)
        levels = ClusterFeatures(lambda: {1: address})
        assert levels.answers(1)
        assert not levels.answers(2)
        assert levels.highest_levels()["transaction.version"] == 2
        # It has no `versions`: what is restored does not make the cluster another one.
        port = SimpleNamespace(features=levels, brokers=SimpleNamespace(controller=lambda: 1))
        spec = FAULTS["feature_level"]
        context = spec.context("controller", port, PartitionOfInterest(topic="t"), None, "test")  # type: ignore[arg-type]
        fault = spec.make(context, {"feature": "transaction.version", "level": 1})
        fault.inject()
        assert levels.levels_by_broker() == {1: levels.levels_in_force()}
        assert levels.levels_in_force()["transaction.version"] == 1
        assert fault.prove().is_effective
        fault.heal()
        assert levels.levels_in_force()["transaction.version"] == 2
        with pytest.raises(CellError, match=r"transaction\.version"):
            levels.change_features({"transaction.version": 9})
    finally:
        broker.stop()


def test_without_brokers_that_answer_nothing_is_known_of_features() -> None:
    levels = ClusterFeatures(dict)
    for ask in (levels.highest_levels, levels.levels_in_force):
        with pytest.raises(CellError, match="no broker tells its features"):
            ask()
    assert levels.levels_by_broker() == {}


def test_a_broker_of_this_project_has_no_release_to_change(tmp_path: Path) -> None:
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=())
    cluster = ProcessCluster(build_layout(key, tmp_path, PortAllocator()))
    assert isinstance(cluster, Versions)
    assert cluster.release_of(1) == ""
    with pytest.raises(UsageError, match="broker 1 is none of Apache Kafka"):
        cluster.change_release(1, "3.9.1")
    assert not cluster.is_changed
