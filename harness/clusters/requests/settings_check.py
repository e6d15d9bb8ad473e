"""Checks whether the broker settings that somebody asked for are in effect, by asking the brokers themselves
(DescribeConfigs).

If a broker does not know a key, it starts and only logs a warning (Apache Kafka does so, and so does ours). So a
misspelt setting can go unnoticed for a whole benchmark. Shown by tests/harness/test_harness_cluster_cli.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from harness.clusters.base import Address
from harness.clusters.requests.admin import Admin
from harness.errors import EnvironmentFault, UsageError
from harness.suite_source import nearest


class HasBrokers(Protocol):
    def broker_addresses(self) -> Mapping[int, Address]: ...


def check_settings(cluster: HasBrokers, wanted: Mapping[str, str]) -> None:
    """UsageError for the first key that a broker does not use, with the nearest one that it uses, or for a value that
    the broker replaced. EnvironmentFault if no broker tells its settings."""
    if not wanted:
        return
    addresses = cluster.broker_addresses()
    for broker_id, address in addresses.items():
        effective = Admin(lambda: ()).broker_config(broker_id, address)
        if not effective:
            raise EnvironmentFault(f"broker {broker_id} at {address} does not tell its settings")
        for key, value in wanted.items():
            if key not in effective:
                raise UsageError(f"--set {key}={value}: the brokers use no such setting{nearest(key, list(effective))}")
            if effective[key].strip().lower() != value.strip().lower():
                raise UsageError(f"--set {key}={value}: broker {broker_id} uses {effective[key]!r} instead")
