"""The operations that a client may do, as bits (KIP-430): one bit for each operation, by its number
(broker/security/acls.py).

Without an authorizer every client may do every operation.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.security.acls import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from broker.security.authorizer import Access

NOT_ASKED = -(2**31)
ALL: Mapping[ResourceType, int] = {kind: sum(1 << each for each in found) for kind, found in SUPPORTED.items()}


def asked(are_asked: bool, access: Access | None, kind: ResourceType, name: str) -> int:
    """The operations, if the request asks for them. Old versions have no field for this question."""
    return allowed(access, kind, name) if are_asked else NOT_ASKED


def allowed(access: Access | None, kind: ResourceType, name: str) -> int:
    return ALL[kind] if access is None else access.operations(kind, name)


def asked_of_cluster(are_asked: bool, access: Access | None) -> int:
    """As in Kafka, a client that may not describe the cluster gets no operation at all."""
    if are_asked and access is not None and not access.could_on_cluster(Operation.DESCRIBE):
        return 0
    return asked(are_asked, access, ResourceType.CLUSTER, CLUSTER_NAME)
