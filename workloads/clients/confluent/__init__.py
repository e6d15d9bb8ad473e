"""confluent-kafka (librdkafka): producer and consumer of the load, group member, transactional copier, member
of a share group."""

from __future__ import annotations

from workloads.clients.confluent.load import (
    ConfluentConsumer,
    ConfluentProducer,
    ConfluentTransactionalProducer,
    check_consumer_properties,
    check_properties,
)
from workloads.clients.confluent.member import ConfluentCopier, ConfluentMember
from workloads.clients.confluent.share_member import ConfluentShareMember

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

make_producer = ConfluentProducer
make_transactional_producer = ConfluentTransactionalProducer
make_consumer = ConfluentConsumer
make_member = ConfluentMember
make_copier = ConfluentCopier
make_share_member = ConfluentShareMember
