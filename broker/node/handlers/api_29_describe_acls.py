"""DescribeAcls (key 29), versions 1-3: the access control lists that a filter matches, by resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.acl_answers import NO_AUTHORIZER, check_known, filter_of, refusal_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_acls as shapes


def refusal(services: Services, request: AnyRequest[shapes.DescribeAclsRequest]) -> shapes.DescribeAclsResponse | None:
    asked = request.message
    check_known(
        "DescribeAcls",
        asked.resource_type_filter,
        asked.pattern_type_filter,
        asked.operation,
        asked.permission_type,
    )
    return None


def handle(services: Services, request: AnyRequest[shapes.DescribeAclsRequest]) -> None:
    error = refusal_error(services)
    resources: dict[tuple[int, str, int], list[shapes.AclDescriptionFields]] = {}
    if error is ErrorCode.none:
        chosen = filter_of(request.message)
        for binding in services.metadata.image.acls.values():
            if chosen.matches(binding):
                pattern = (binding.resource_type, binding.resource_name, binding.pattern_type)
                resources.setdefault(pattern, []).append(
                    {
                        "principal": binding.principal,
                        "host": binding.host,
                        "operation": binding.operation,
                        "permission_type": binding.permission,
                    }
                )
    request.respond(
        response(
            ApiKey.DESCRIBE_ACLS,
            request.version,
            error_code=error,
            error_message=None if error is ErrorCode.none else NO_AUTHORIZER,
            resources=[
                {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
                for (kind, name, pattern), acls in resources.items()
            ],
        )
    )
