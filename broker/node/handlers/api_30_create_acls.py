"""CreateAcls (key 30), versions 1-3. On a client listener it is forwarded to the controller.

The answer to a forwarded request waits until this broker's image contains the access control lists. So they hold for
the next request to the same broker. Without an authorizer the answer is SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.security_types import CreateAcls, CreateAclsResponse
from broker.node.handlers.acl_answers import NO_AUTHORIZER, check_known, refusal_error
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.security.acls import AclBinding
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import create_acls as shapes


def refusal(services: Services, request: AnyRequest[shapes.CreateAclsRequest]) -> shapes.CreateAclsResponse | None:
    for each in request.message.creations:
        check_known("CreateAcls", each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    error = refusal_error(services)
    return None if error is ErrorCode.none else _all_failed(request, error, NO_AUTHORIZER)


def event(services: Services, request: AnyRequest[shapes.CreateAclsRequest]) -> MakeEvent:
    bindings = tuple(_binding(each) for each in request.message.creations)
    return lambda token: CreateAcls(token=token, bindings=bindings)


def answer(
    services: Services, request: AnyRequest[shapes.CreateAclsRequest], result: CreateAclsResponse
) -> shapes.CreateAclsResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(request, ErrorCode(result.error_code), None)
    results: list[shapes.AclCreationResultFields] = [
        {"error_code": each.error_code, "error_message": each.error_message} for each in result.results
    ]
    return response(ApiKey.CREATE_ACLS, request.version, results=results)


def _binding(each: shapes.AclCreation) -> AclBinding:
    return AclBinding(
        resource_type=each.resource_type,
        resource_name=each.resource_name,
        pattern_type=each.resource_pattern_type,
        principal=each.principal,
        host=each.host,
        operation=each.operation,
        permission=each.permission_type,
    )


def _all_failed(
    request: AnyRequest[shapes.CreateAclsRequest], error: ErrorCode, cause: str | None
) -> shapes.CreateAclsResponse:
    results: list[shapes.AclCreationResultFields] = [
        {"error_code": error, "error_message": cause} for _ in request.message.creations
    ]
    return response(ApiKey.CREATE_ACLS, request.version, results=results)


def _shows(image: MetadataImage, message: shapes.CreateAclsRequest, answered: shapes.CreateAclsResponse) -> bool:
    created = {
        _binding(each)
        for each, result in zip(message.creations, answered.results, strict=True)
        if result.error_code is ErrorCode.none
    }
    return created <= set(image.acls.values())


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.CreateAclsRequest, shapes.CreateAclsResponse] = Forward(
    version=3, failed=_all_failed, is_visible=_shows
)
