"""Who may ask for quotas, and change them."""

from __future__ import annotations

from typing import Any

from broker.node.handlers.authorization.rules import DENIED, AnyApi, Entry, Item, all_in, rule, top, whole
from broker.security.acls import Operation, ResourceType
from broker.wire.errors import ErrorCode

CLUSTER = ResourceType.CLUSTER


def _no_entries(request: AnyApi, error: ErrorCode) -> Any:
    return top(request, error, error_message=DENIED, entries=None)


def _entry(item: Item, error: ErrorCode) -> Entry:
    entity = [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in item.entity]
    return {"error_code": error, "error_message": DENIED, "entity": entity}


DESCRIBE_CLIENT_QUOTAS = rule(
    whole(Operation.DESCRIBE_CONFIGS, CLUSTER, refuse=_no_entries, otherwise="CLUSTER_AUTHORIZATION_FAILED")
)
ALTER_CLIENT_QUOTAS = rule(whole(Operation.ALTER_CONFIGS, CLUSTER, refuse=all_in("entries", _entry, "entries")))
