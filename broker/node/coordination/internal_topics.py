"""The topics that coordinators keep their state in. Clients may read them; only the coordinators write them.

A stranger's record would make a coordinator fail to load its partition. Kafka lets the client id `__admin_client`
through, for repairs by hand; so do we.
"""

from __future__ import annotations

from broker.node.coordination.groups import OFFSETS_TOPIC
from broker.node.coordination.transactions import TOPIC as TRANSACTIONS_TOPIC

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
REPAIRING_CLIENT_ID = "__admin_client"


def is_internal(topic: str) -> bool:
    return topic in INTERNAL_TOPICS


def may_produce(topic: str, client_id: str) -> bool:
    return topic not in INTERNAL_TOPICS or client_id == REPAIRING_CLIENT_ID
