"""The vocabulary of access control lists (KIP-11, KIP-290): resources, operations, bindings, and filters over them.

The numbers are Kafka's, as in requests and records. Shown by tests/broker_security/test_security_acls.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

WILDCARD = "*"  # as a literal resource name it stands for every name, as a host for every host
CLUSTER_NAME = "kafka-cluster"  # the only name of a resource of type CLUSTER
EVERYONE = "User:*"


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters only: patterns of every type with exactly this name
    MATCH = 2  # in filters only: every pattern that a resource of this name would match
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1  # in filters only
    DENY = 2
    ALLOW = 3


_CHANGES = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
# An operation is also granted by an ALLOW of these operations. A DENY implies nothing.
IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset({Operation.DESCRIBE, *_CHANGES}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
# The operations that exist on a resource of each type: Kafka's AclEntry.supportedOperations.
SUPPORTED: Mapping[ResourceType, frozenset[Operation]] = {
    ResourceType.TOPIC: frozenset(
        {*_CHANGES, Operation.DESCRIBE, Operation.CREATE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
    ),
    ResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DESCRIBE,
            Operation.DELETE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
            Operation.ALTER,
            Operation.DESCRIBE,
        }
    ),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}


class AclBinding(NamedTuple):
    """One rule: a resource pattern, and what a principal may or must not do there from which host.

    It is a tuple, because sets of thousands of bindings are compared. The hash of a tuple is computed without Python
    code.
    """

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str  # `User:alice`
    host: str  # an address as text, or *
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """Selects bindings. None and ANY match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def is_unknown(self) -> bool:
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_pattern(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (Operation.ANY, binding.operation)
            and self.permission in (Permission.ANY, binding.permission)
        )

    def _matches_pattern(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type == PatternType.MATCH:
            return covers(binding, self.resource_name)
        return self.resource_name == binding.resource_name


def covers(binding: AclBinding, resource_name: str) -> bool:
    """Whether the pattern of the binding matches a resource of this name (and of the binding's type)."""
    if binding.pattern_type == PatternType.PREFIXED:
        return resource_name.startswith(binding.resource_name)
    return binding.resource_name in (resource_name, WILDCARD)
