"""The questions of a client about access control lists: create an ACL, delete one, and ask what this client may do with
a topic.

Shown by tests/harness/test_harness_security_changes.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.client.core.errors import first_of
from broker.client.question import Question, raise_error
from broker.security.acls import AclBinding, Operation
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.create_acls import AclCreationFields, CreateAclsRequest, CreateAclsResponse
    from broker.wire.shapes.delete_acls import DeleteAclsFilterFields, DeleteAclsRequest, DeleteAclsResponse
    from broker.wire.shapes.metadata import MetadataRequest, MetadataResponse

_WITH_OPERATIONS: Final = 8  # the first version of Metadata that tells which operations the client may do (KIP-430)
_MAY_NOTHING: Final = frozenset({ErrorCode.topic_authorization_failed})


def created_acls(bindings: tuple[AclBinding, ...]) -> Question[None]:
    """It is no error if the ACL exists already."""

    def build(version: int) -> CreateAclsRequest:
        creations: list[AclCreationFields] = [
            {
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
                "resource_pattern_type": each.pattern_type,
                "principal": each.principal,
                "host": each.host,
                "operation": each.operation,
                "permission_type": each.permission,
            }
            for each in bindings
        ]
        return request(ApiKey.CREATE_ACLS, version, creations=creations)

    def parse(message: CreateAclsResponse) -> None:
        for result in message.results:
            raise_error(result.error_code, result.error_message, "access control list")

    return Question(ApiKey.CREATE_ACLS, build, parse, lowest=1)


def deleted_acl(binding: AclBinding) -> Question[int]:
    """The answer is how many ACLs were deleted: 0 if none matched."""

    def build(version: int) -> DeleteAclsRequest:
        chosen: DeleteAclsFilterFields = {
            "resource_type_filter": binding.resource_type,
            "resource_name_filter": binding.resource_name,
            "pattern_type_filter": binding.pattern_type,
            "principal_filter": binding.principal,
            "host_filter": binding.host,
            "operation": binding.operation,
            "permission_type": binding.permission,
        }
        return request(ApiKey.DELETE_ACLS, version, filters=[chosen])

    def parse(message: DeleteAclsResponse) -> int:
        found = first_of(message.filter_results)
        raise_error(found.error_code, found.error_message, "access control list")
        for each in found.matching_acls:
            raise_error(each.error_code, each.error_message, "access control list")
        return len(found.matching_acls)

    return Question(ApiKey.DELETE_ACLS, build, parse, lowest=1)


def allowed_operations(topic: str) -> Question[frozenset[Operation]]:
    """What the client may do with the topic, according to this broker. The set is empty if the client may not even know
    that the topic exists."""

    def build(version: int) -> MetadataRequest:
        return request(
            ApiKey.METADATA,
            version,
            topics=[{"name": topic}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )

    def parse(message: MetadataResponse) -> frozenset[Operation]:
        found = first_of(message.topics)
        if found.error_code in _MAY_NOTHING:
            return frozenset()
        raise_error(found.error_code, None, f"topic {topic!r}")
        return frozenset(each for each in Operation if found.topic_authorized_operations >> each & 1)

    return Question(ApiKey.METADATA, build, parse, lowest=_WITH_OPERATIONS)
