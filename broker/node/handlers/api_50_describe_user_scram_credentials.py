"""DescribeUserScramCredentials (key 50), version 0 (KIP-554): which users have a password, and for which mechanisms.
The passwords are not shown to anybody."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_user_scram_credentials as shapes


def handle(services: Services, request: AnyRequest[shapes.DescribeUserScramCredentialsRequest]) -> None:
    known = services.metadata.image.scram_credentials
    times = Counter(each.name for each in request.message.users or ()) or Counter(known.keys())
    results: list[shapes.DescribeUserScramCredentialsResultFields] = []
    for name, count in times.items():
        error, cause = _problem(name, count, is_known=name in known)
        infos: list[shapes.CredentialInfoFields] = [
            {"mechanism": mechanism, "iterations": credential.iterations}
            for mechanism, credential in sorted(known.get(name, {}).items())
            if error is ErrorCode.none
        ]
        results.append({"user": name, "error_code": error, "error_message": cause, "credential_infos": infos})
    request.respond(
        response(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            request.version,
            error_code=ErrorCode.none,
            error_message=None,
            results=results,
        )
    )


def _problem(name: str, count: int, *, is_known: bool) -> tuple[ErrorCode, str | None]:
    if count > 1:
        cause = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return ErrorCode.duplicate_resource, cause
    if not is_known:
        return ErrorCode.resource_not_found, f"Attempt to describe a user credential that does not exist: {name}"
    return ErrorCode.none, None
