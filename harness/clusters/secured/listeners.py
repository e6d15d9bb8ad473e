"""The address of a listener, from the properties of its broker. Pure."""

from __future__ import annotations

from broker.door.addresses import parse_address
from harness.clusters.base import Address, NodeLayout


def listener_of(node: NodeLayout, name: str) -> Address:
    for each in node.properties["listeners"].split(","):
        found, _, address = each.partition("://")
        if found == name:
            host, port = parse_address(address)
            return Address(host=host, port=port)
    raise AssertionError(f"broker {node.broker_id} has no listener {name}")
