"""AlterUserScramCredentials (KIP-554): the SCRAM credentials of users. Pure.

The request holds salted passwords, never passwords. Only the keys that a server needs are kept (RFC 5802), because
somebody with a salted password could log in.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.controller.image import MetadataImage
from broker.controller.outcome import Outcome
from broker.controller.records import (
    MetadataRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from broker.controller.security_types import (
    AlterUserScramCredentials,
    AlterUserScramCredentialsResponse,
    Problem,
    ScramDeletion,
    ScramUpsertion,
)
from broker.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, credential_of
from broker.wire.errors import ErrorCode

MECHANISMS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_FINE = Problem(error_code=ErrorCode.none)
_TWICE = Problem(
    error_code=ErrorCode.duplicate_resource,
    error_message="A user credential cannot be altered twice in the same request",
)


def alter_user_scram_credentials(image: MetadataImage, request: AlterUserScramCredentials) -> Outcome:
    """One change per user. A user who is named twice is refused, also with two mechanisms, as in Kafka."""
    changes: tuple[ScramDeletion | ScramUpsertion, ...] = (*request.deletions, *request.upsertions)
    accepted: dict[str, ScramDeletion | ScramUpsertion] = {}
    problems: dict[str, Problem] = {}
    for change in changes:
        if change.name in problems:
            continue
        problem = _TWICE if change.name in accepted else _problem(image, change)
        if problem is _FINE:
            accepted[change.name] = change
        else:
            problems[change.name] = problem
            accepted.pop(change.name, None)
    results = (*((name, _FINE) for name in accepted), *problems.items())
    response = AlterUserScramCredentialsResponse(error_code=ErrorCode.none, results=results)
    return Outcome(response=response, records=tuple(_record(change) for change in accepted.values()))


def _problem(image: MetadataImage, change: ScramDeletion | ScramUpsertion) -> Problem:
    if not change.name:
        return _unacceptable("Username must not be empty")
    if change.mechanism not in MECHANISMS:
        return Problem(error_code=ErrorCode.unsupported_sasl_mechanism, error_message="Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if change.mechanism in image.scram_credentials.get(change.name, {}):
            return _FINE
        cause = "Attempt to delete a user credential that does not exist"
        return Problem(error_code=ErrorCode.resource_not_found, error_message=cause)
    if change.iterations < ITERATIONS_MIN:
        return _unacceptable("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        return _unacceptable("Too many iterations")
    if not change.salted_password:
        return _unacceptable("Empty salted password")
    return _FINE


def _unacceptable(cause: str) -> Problem:
    return Problem(error_code=ErrorCode.unacceptable_credential, error_message=cause)


def _record(change: ScramDeletion | ScramUpsertion) -> MetadataRecord:
    if isinstance(change, ScramDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    credential = credential_of(
        MECHANISMS[change.mechanism], change.salted_password, salt=change.salt, iterations=change.iterations
    )
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
