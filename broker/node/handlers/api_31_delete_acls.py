"""DeleteAcls (key 31), versions 1-3. On a client listener it is forwarded to the controller.

The answer to a forwarded request waits until this broker's image no longer contains the deleted lists. If the
controller changes meanwhile, the new one is asked again, and the answer may lack the lists that the first request
deleted. Without an authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.security_types import DeleteAcls, DeleteAclsResponse
from broker.node.handlers.acl_answers import NO_AUTHORIZER, check_known, filter_of, refusal_error
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.security.acls import AclBinding
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import delete_acls as shapes


def refusal(services: Services, request: AnyRequest[shapes.DeleteAclsRequest]) -> shapes.DeleteAclsResponse | None:
    for each in request.message.filters:
        check_known(
            "DeleteAcls", each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type
        )
    error = refusal_error(services)
    return None if error is ErrorCode.none else _all_failed(request, error, NO_AUTHORIZER)


def event(services: Services, request: AnyRequest[shapes.DeleteAclsRequest]) -> MakeEvent:
    filters = tuple(filter_of(each) for each in request.message.filters)
    return lambda token: DeleteAcls(token=token, filters=filters)


def answer(
    services: Services, request: AnyRequest[shapes.DeleteAclsRequest], result: DeleteAclsResponse
) -> shapes.DeleteAclsResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(request, ErrorCode(result.error_code), None)
    results: list[shapes.DeleteAclsFilterResultFields] = [
        {
            "error_code": each.problem.error_code,
            "error_message": each.problem.error_message,
            "matching_acls": [_matching(binding) for binding in each.bindings],
        }
        for each in result.results
    ]
    return response(ApiKey.DELETE_ACLS, request.version, filter_results=results)


def _matching(binding: AclBinding) -> shapes.DeleteAclsMatchingAclFields:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": binding.resource_type,
        "resource_name": binding.resource_name,
        "pattern_type": binding.pattern_type,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }


def _all_failed(
    request: AnyRequest[shapes.DeleteAclsRequest], error: ErrorCode, cause: str | None
) -> shapes.DeleteAclsResponse:
    results: list[shapes.DeleteAclsFilterResultFields] = [
        {"error_code": error, "error_message": cause, "matching_acls": []} for _ in request.message.filters
    ]
    return response(ApiKey.DELETE_ACLS, request.version, filter_results=results)


def _shows(image: MetadataImage, message: shapes.DeleteAclsRequest, answered: shapes.DeleteAclsResponse) -> bool:
    deleted = {
        AclBinding(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission=each.permission_type,
        )
        for result in answered.filter_results
        for each in result.matching_acls
    }
    return deleted.isdisjoint(image.acls.values())


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.DeleteAclsRequest, shapes.DeleteAclsResponse] = Forward(
    version=3, failed=_all_failed, is_visible=_shows
)
