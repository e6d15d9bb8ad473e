"""Rules of the APIs that administer the cluster, its users and ACLs, and of the APIs between brokers.

Rules for topics are in topics.py, and rules for settings in settings.py.
"""

from __future__ import annotations

from typing import Any

from broker.node.handlers.authorization.rules import (
    DENIED,
    AnyApi,
    Entry,
    Item,
    Need,
    Rule,
    all_in,
    made,
    rule,
    top,
    whole,
)
from broker.security.acls import Operation, ResourceType
from broker.wire.errors import ErrorCode

CLUSTER = ResourceType.CLUSTER

BETWEEN_BROKERS = rule(whole(Operation.CLUSTER_ACTION, CLUSTER))

# -- the cluster


def _scram_not_told(request: AnyApi, error: ErrorCode) -> Any:
    """As in Kafka, the answer has one error for each user, without the name."""
    nameless = {"user": "", "error_code": error, "error_message": DENIED, "credential_infos": []}
    return top(request, error, error_message=DENIED, results=[nameless for _ in request.message.users or ()])


def _scram_refused(request: AnyApi, error: ErrorCode) -> Any:
    names = [item.name for item in (*request.message.deletions, *request.message.upsertions)]
    results = [{"user": name, "error_code": error, "error_message": DENIED} for name in dict.fromkeys(names)]
    return made(request, results=results)


def _error(item: Item, error: ErrorCode) -> Entry:
    return {"error_code": error, "error_message": DENIED}


def _filter_error(item: Item, error: ErrorCode) -> Entry:
    return {"error_code": error, "error_message": DENIED, "matching_acls": []}


_CLUSTER_FAILED = "CLUSTER_AUTHORIZATION_FAILED"
DESCRIBE_ACLS = rule(
    whole(
        Operation.DESCRIBE,
        CLUSTER,
        refuse=lambda request, error: top(request, error, error_message=DENIED, resources=[]),
        otherwise=_CLUSTER_FAILED,
    )
)
CREATE_ACLS = rule(whole(Operation.ALTER, CLUSTER, refuse=all_in("creations", _error, "results")))
DELETE_ACLS = rule(whole(Operation.ALTER, CLUSTER, refuse=all_in("filters", _filter_error, "filter_results")))
DESCRIBE_USER_SCRAM_CREDENTIALS = rule(
    whole(
        Operation.DESCRIBE,
        CLUSTER,
        refuse=_scram_not_told,
        otherwise=_CLUSTER_FAILED,
    )
)
ALTER_USER_SCRAM_CREDENTIALS = rule(whole(Operation.ALTER, CLUSTER, refuse=_scram_refused))


UNREGISTER_BROKER = rule(
    whole(
        Operation.ALTER,
        CLUSTER,
        refuse=lambda request, error: top(request, error, error_message=DENIED),
        otherwise=_CLUSTER_FAILED,
    )
)
UPDATE_FEATURES = rule(
    whole(
        Operation.ALTER,
        CLUSTER,
        refuse=lambda request, error: top(request, error, error_message=DENIED, results=[]),
        otherwise=_CLUSTER_FAILED,
    )
)
DESCRIBE_QUORUM = rule(whole(Operation.DESCRIBE, CLUSTER, otherwise=_CLUSTER_FAILED))
LIST_CONFIG_RESOURCES = rule(
    whole(
        Operation.DESCRIBE_CONFIGS,
        CLUSTER,
        refuse=lambda request, error: top(request, error, config_resources=[]),
        otherwise=_CLUSTER_FAILED,
    )
)
DESCRIBE_CLUSTER = Rule(
    needs=(
        Need(
            operation=Operation.DESCRIBE,
            resource=CLUSTER,
            otherwise="no authorized operations of the cluster are told",
        ),
    )
)
EVERYBODY = Rule()
