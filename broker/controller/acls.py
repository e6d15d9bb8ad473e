"""CreateAcls and DeleteAcls: which bindings are kept. Pure. broker/security/authorizer.py says what bindings mean."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

from broker.controller.image import MetadataImage
from broker.controller.outcome import Outcome
from broker.controller.records import MetadataRecord, RemoveAccessControlEntryRecord
from broker.controller.security_types import (
    CreateAcls,
    CreateAclsResponse,
    DeleteAcls,
    DeleteAclsResponse,
    DeletedAcls,
    Problem,
)
from broker.controller.snapshot import acl_record
from broker.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from broker.wire.errors import ErrorCode

_FINE = Problem(error_code=ErrorCode.none)


def create_acls(image: MetadataImage, request: CreateAcls, *, rng: random.Random) -> Outcome:
    """If a binding exists already, this is no error, and it is not written again."""
    present = set(image.acls.values())
    records: list[MetadataRecord] = []
    results: list[Problem] = []
    for binding in request.bindings:
        cause = _binding_problem(binding)
        if cause is not None:
            results.append(Problem(error_code=ErrorCode.invalid_request, error_message=cause))
            continue
        results.append(_FINE)
        if binding not in present:
            present.add(binding)
            records.append(acl_record(UUID(int=rng.getrandbits(128), version=4), binding))
    response = CreateAclsResponse(error_code=ErrorCode.none, results=tuple(results))
    return Outcome(response=response, records=tuple(records))


def _binding_problem(binding: AclBinding) -> str | None:
    """Why a binding is refused. The texts and the order of the checks are Kafka's."""
    if binding.resource_type == ResourceType.CLUSTER and binding.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not binding.resource_name:
        return "Invalid empty resource name"
    if not ResourceType.ANY < binding.resource_type <= ResourceType.USER:
        return f"Invalid resourceType {binding.resource_type}"
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {binding.pattern_type}"
    if not Operation.ANY < binding.operation <= Operation.TWO_PHASE_COMMIT:
        return f"Invalid operation {binding.operation}"
    if binding.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {binding.permission}"
    if ":" not in binding.principal:
        return (
            f"Could not parse principal from `{binding.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return None


def delete_acls(image: MetadataImage, request: DeleteAcls) -> Outcome:
    """If several filters match a binding, the answer names it for each of them. It is removed once."""
    removed: dict[UUID, None] = {}
    results: list[DeletedAcls] = []
    by_name: dict[str, dict[UUID, AclBinding]] = {}
    for acl_id, binding in image.acls.items():
        by_name.setdefault(binding.resource_name, {})[acl_id] = binding
    for each in request.filters:
        cause = _filter_problem(each)
        if cause is not None:
            results.append(DeletedAcls(problem=Problem(error_code=ErrorCode.invalid_request, error_message=cause)))
            continue
        among: Mapping[UUID, AclBinding] = image.acls
        if each.resource_name is not None and each.pattern_type != PatternType.MATCH:
            among = by_name.get(each.resource_name, {})
        found = {acl_id: binding for acl_id, binding in among.items() if each.matches(binding)}
        removed.update(dict.fromkeys(found))
        results.append(DeletedAcls(problem=_FINE, bindings=tuple(found.values())))
    records = tuple(RemoveAccessControlEntryRecord(acl_id=acl_id) for acl_id in removed)
    return Outcome(response=DeleteAclsResponse(error_code=ErrorCode.none, results=tuple(results)), records=records)


def _filter_problem(chosen: AclFilter) -> str | None:
    if not (0 < chosen.resource_type <= ResourceType.USER and 0 < chosen.pattern_type <= PatternType.PREFIXED):
        return "Unknown patternFilter."
    if not (0 < chosen.operation <= Operation.TWO_PHASE_COMMIT and 0 < chosen.permission <= Permission.ALLOW):
        return "Unknown entryFilter."
    return None
