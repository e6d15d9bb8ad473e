"""The common parts of the three APIs of access control lists: filters, bindings, and the answer without an
authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from broker.node.handlers.services import Services
from broker.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType
from broker.wire.errors import ErrorCode, RemoteProtocolError

if TYPE_CHECKING:
    from broker.wire.shapes import delete_acls, describe_acls

    Asked: TypeAlias = delete_acls.DeleteAclsFilter | describe_acls.DescribeAclsRequest

NO_AUTHORIZER = "No Authorizer is configured."


def refusal_error(services: Services) -> ErrorCode:
    return ErrorCode.security_disabled if services.authorizer is None else ErrorCode.none


def check_known(api: str, resource_type: int, pattern_type: int, operation: int, permission: int) -> None:
    """Raises RemoteProtocolError for a number that means "unknown". The connection then closes, as in Kafka, which
    cannot parse such a request. The controller refuses other numbers without a meaning."""
    for name, number, highest in (
        ("resource type", resource_type, ResourceType.USER),
        ("pattern type", pattern_type, PatternType.PREFIXED),
        ("operation", operation, Operation.TWO_PHASE_COMMIT),
        ("permission type", permission, Permission.ALLOW),
    ):
        if number == 0:
            raise RemoteProtocolError(f"{api} with the unknown {name} 0: expected 1 to {int(highest)}")


def filter_of(asked: Asked) -> AclFilter:
    return AclFilter(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )
