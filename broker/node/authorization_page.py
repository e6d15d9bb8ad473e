"""`python -m broker.node.authorization_page`: writes docs/reference/authorization.md from the rules of the APIs.

Shown by tests/broker_node/test_node_authorization.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from broker.node.api_table import api_table
from broker.node.features.table import FEATURES
from broker.node.handlers.authorization.rules import Rule
from broker.security.acls import IMPLIED_BY, SUPPORTED, Operation, ResourceType
from broker.wire.apis import ApiKey

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "authorization.md"
_INTRODUCTION = """# Who may ask for what

Written by `python -m broker.node.authorization_page` from broker/node/handlers/authorization; a test compares it with
the code. The rules are those of Apache Kafka 4.3.1 (KafkaApis, ControllerApis), and `make differential` asks both
brokers the same requests under the same access control lists.

Authorization is off unless `authorizer.class.name` is `org.apache.kafka.metadata.authorizer.StandardAuthorizer`. Then:

1. A principal of `super.users` may do everything.
2. An access control list that denies forbids, whatever others allow.
3. One that allows permits, and permits what its operation implies.
4. If no list matches the resource, `allow.everyone.if.no.acl.found` decides (default: forbidden).

What a broker asks of itself is not authorized. On the controllers' listener a principal with CLUSTER_ACTION on the
cluster is trusted: the broker that it came to has judged what it forwards. So brokers need CLUSTER_ACTION on the
cluster, best as super users: a controller cannot look at lists that it has not read yet. Until a broker knows the lists
of its cluster, it closes the connection of everybody else at the first request.
"""


def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    yield from ("## Operations", "", "| resource | operations |", "|---|---|")
    for kind, found in SUPPORTED.items():
        yield f"| {kind.name} | {', '.join(each.name for each in sorted(found))} |"
    yield from ("", "| operation | is implied by an ALLOW of |", "|---|---|")
    for operation, granting in IMPLIED_BY.items():
        yield f"| {operation.name} | {', '.join(each.name for each in sorted(granting - {operation}))} |"
    yield from ("", "## APIs", "", "| API | operation | on | without it |", "|---|---|---|---|")
    for key, rule in sorted(api_table(FEATURES).rules.items()):
        yield from _rows(key, rule)


def _rows(key: ApiKey, rule: Rule) -> Iterator[str]:
    name = "".join(part.capitalize() for part in key.name.split("_"))
    if not rule.needs:
        yield f"| {name} | - | - | {rule.note or 'everybody may'} |"
    for position, need in enumerate(rule.needs):
        note = f" {rule.note}" if rule.note and not position else ""
        yield (
            f"| {'' if position else name} | {Operation(need.operation).name} | {ResourceType(need.resource).name} "
            f"| {need.otherwise}.{note} |"
        )


if __name__ == "__main__":
    PAGE.write_text(page())
