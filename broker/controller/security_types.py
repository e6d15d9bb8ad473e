"""Requests about access control lists and SCRAM credentials, and their answers. Values only, as in types.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.security.acls import AclBinding, AclFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcls:
    token: int
    bindings: tuple[AclBinding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with one part of a request; error code 0: nothing."""

    error_code: int
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse:
    error_code: int
    results: tuple[Problem, ...]  # one per binding, in the order of the request


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcls:
    token: int
    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedAcls:
    """What one filter deleted."""

    problem: Problem
    bindings: tuple[AclBinding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse:
    error_code: int
    results: tuple[DeletedAcls, ...]  # one per filter, in the order of the request


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentials:
    token: int
    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    error_code: int
    results: tuple[tuple[str, Problem], ...]  # one per user
