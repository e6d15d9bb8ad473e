"""AlterUserScramCredentials (key 51), version 0 (KIP-554): sets or deletes users' passwords. The request contains
salted passwords only.

On a client listener it is forwarded to the controller. The answer to a forwarded request waits until this broker's
image contains the change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.security_types import (
    AlterUserScramCredentials,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
)
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_user_scram_credentials as shapes


def event(services: Services, request: AnyRequest[shapes.AlterUserScramCredentialsRequest]) -> MakeEvent:
    message = request.message
    deletions = tuple(ScramDeletion(name=each.name, mechanism=each.mechanism) for each in message.deletions)
    upsertions = tuple(
        ScramUpsertion(
            name=each.name,
            mechanism=each.mechanism,
            iterations=each.iterations,
            salt=bytes(each.salt),
            salted_password=bytes(each.salted_password),
        )
        for each in message.upsertions
    )
    return lambda token: AlterUserScramCredentials(token=token, deletions=deletions, upsertions=upsertions)


def answer(
    services: Services,
    request: AnyRequest[shapes.AlterUserScramCredentialsRequest],
    result: AlterUserScramCredentialsResponse,
) -> shapes.AlterUserScramCredentialsResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(request, ErrorCode(result.error_code), None)
    results: list[shapes.AlterUserScramCredentialsResultFields] = [
        {"user": name, "error_code": problem.error_code, "error_message": problem.error_message}
        for name, problem in result.results
    ]
    return response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request.version, results=results)


def _all_failed(
    request: AnyRequest[shapes.AlterUserScramCredentialsRequest], error: ErrorCode, cause: str | None
) -> shapes.AlterUserScramCredentialsResponse:
    message = request.message
    users = dict.fromkeys([each.name for each in message.deletions] + [each.name for each in message.upsertions])
    results: list[shapes.AlterUserScramCredentialsResultFields] = [
        {"user": name, "error_code": error, "error_message": cause} for name in users
    ]
    return response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request.version, results=results)


def _shows(
    image: MetadataImage,
    message: shapes.AlterUserScramCredentialsRequest,
    answered: shapes.AlterUserScramCredentialsResponse,
) -> bool:
    """Whether the image shows the change. A new password is recognised by its salt, which is different for each
    password."""
    refused = {each.user for each in answered.results if each.error_code is not ErrorCode.none}
    for deletion in message.deletions:
        if deletion.name not in refused and deletion.mechanism in image.scram_credentials.get(deletion.name, {}):
            return False
    for each in message.upsertions:
        found = image.scram_credentials.get(each.name, {}).get(each.mechanism)
        if each.name not in refused and (found is None or found.salt != bytes(each.salt)):
            return False
    return True


def _unsure(answered: shapes.AlterUserScramCredentialsResponse) -> shapes.AlterUserScramCredentialsResponse:
    """If the request was repeated, the first attempt may have deleted the credential that the repetition did not
    find."""
    cause = "the controller was asked more than once, and the credential may have been deleted by the first request"
    return replace(
        answered,
        results=tuple(
            replace(each, error_code=ErrorCode.request_timed_out, error_message=cause)
            if each.error_code is ErrorCode.resource_not_found
            else each
            for each in answered.results
        ),
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.AlterUserScramCredentialsRequest, shapes.AlterUserScramCredentialsResponse] = Forward(
    version=0, failed=_all_failed, is_visible=_shows, repeated=_unsure
)
