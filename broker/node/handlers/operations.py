"""What a client may do, told as bits (KIP-430): a bit for each operation, by its number (broker/security/acls.py).

Without an authorizer each may do everything there is.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.security.acls import CLUSTER_NAME, SUPPORTED, Operation, ResourceType
from broker.security.authorizer import Access

NOT_ASKED = -(2**31)
ALL: Mapping[ResourceType, int] = {kind: sum(1 << each for each in found) for kind, found in SUPPORTED.items()}


def asked(are_asked: bool, access: Access | None, kind: ResourceType, name: str) -> int:
    """If the request asks for them. Old versions lack the field: they do not ask."""
    return allowed(access, kind, name) if are_asked else NOT_ASKED


def allowed(access: Access | None, kind: ResourceType, name: str) -> int:
    return ALL[kind] if access is None else access.operations(kind, name)


def asked_of_cluster(are_asked: bool, access: Access | None) -> int:
    """None at all for those who may not describe the cluster, as in Kafka."""
    if are_asked and access is not None and not access.could_on_cluster(Operation.DESCRIBE):
        return 0
    return asked(are_asked, access, ResourceType.CLUSTER, CLUSTER_NAME)
