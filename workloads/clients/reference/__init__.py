"""The project's own client (`broker.client`): producer and consumer of the load, group member, transactional copier,
member of a share group."""

from __future__ import annotations

from workloads.clients.reference.load import (
    check_consumer_properties,
    check_properties,
    make_consumer,
    make_producer,
    make_transactional_producer,
)
from workloads.clients.reference.member import make_copier, make_member
from workloads.clients.reference.share_member import make_share_member

__all__ = [
    "check_consumer_properties",
    "check_properties",
    "make_consumer",
    "make_copier",
    "make_member",
    "make_producer",
    "make_share_member",
    "make_transactional_producer",
]
