"""The project's own client (`broker.client`): producer and consumer of the load, group member, transactional copier,
member of a share group."""

from __future__ import annotations

from workloads.clients.reference.load import (
    ReferenceConsumer,
    ReferenceProducer,
    ReferenceTransactionalProducer,
    check_consumer_properties,
    check_properties,
)
from workloads.clients.reference.member import ReferenceCopier, ReferenceMember
from workloads.clients.reference.share_member import ReferenceShareMember

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

make_producer = ReferenceProducer
make_transactional_producer = ReferenceTransactionalProducer
make_consumer = ReferenceConsumer
make_member = ReferenceMember
make_copier = ReferenceCopier
make_share_member = ReferenceShareMember
