"""Decides whether a principal may do something: the rules of Kafka's StandardAuthorizer.

1. A super user may do everything.
2. A DENY that matches the resource, the principal, the host and the operation forbids it.
3. An ALLOW that matches permits it. It also permits what it implies (READ implies DESCRIBE).
4. Where no binding matches the resource, `allow.everyone.if.no.acl.found` decides. Otherwise it is forbidden.

The bindings are kept by resource, then by principal. So one decision looks only at the bindings of one principal and of
`User:*`, however many others there are. Pure. Shown by tests/broker_security/test_security_authorizer.py, which
compares it with a simple implementation of the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from broker.security.acls import (
    CLUSTER_NAME,
    EVERYONE,
    IMPLIED_BY,
    SUPPORTED,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

# The rules of one resource pattern: principal -> (host, operation, permission).
_Rules: TypeAlias = dict[str, set[tuple[str, int, int]]]
# (principal, host, operation, resource type, name)
Denied: TypeAlias = Callable[[str, str, Operation, ResourceType, str], None]
# A name that stands for no resource, as in Kafka. With it the question is: may the principal do this under any name?
_NO_RESOURCE = "hardcode"


class Authorizer:
    """`is_loaded`: this broker has read the bindings of the cluster. Until then only super users may do anything."""

    def __init__(self, *, super_users: Iterable[str] = (), allows_without_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._literal: dict[tuple[int, str], _Rules] = {}  # The key is the resource type and name.
        self._prefixed: dict[tuple[int, str], _Rules] = {}
        # The key is the resource type, the value counts the prefixes of each length.
        self._prefix_lengths: dict[int, Counter[int]] = {}
        self.is_loaded = False

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def add(self, binding: AclBinding) -> None:
        patterns = self._patterns(binding)
        key = (binding.resource_type, binding.resource_name)
        rules = patterns.get(key)
        if rules is None:
            rules = patterns[key] = {}
            if patterns is self._prefixed:
                self._prefix_lengths.setdefault(binding.resource_type, Counter())[len(binding.resource_name)] += 1
        rules.setdefault(binding.principal, set()).add((binding.host, binding.operation, binding.permission))

    def remove(self, binding: AclBinding) -> None:
        """Remove a binding that was added before."""
        patterns = self._patterns(binding)
        key = (binding.resource_type, binding.resource_name)
        rules = patterns[key]
        said = rules[binding.principal]
        said.remove((binding.host, binding.operation, binding.permission))
        if said:
            return
        del rules[binding.principal]
        if rules:
            return
        del patterns[key]
        if patterns is self._prefixed:
            lengths = self._prefix_lengths[binding.resource_type]
            lengths[len(binding.resource_name)] -= 1
            lengths += Counter()  # removes the lengths whose count is 0

    def _patterns(self, binding: AclBinding) -> dict[tuple[int, str], _Rules]:
        return self._prefixed if binding.pattern_type == PatternType.PREFIXED else self._literal

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """`host` is an address as text, without a slash."""
        if principal in self._super_users:
            return True
        if not self.is_loaded:
            return False
        granting = IMPLIED_BY.get(operation)
        is_allowed, has_rules = False, False
        for rules in self._rules_of(resource_type, name):
            has_rules = True
            for who in (principal, EVERYONE):
                for rule_host, rule_operation, permission in rules.get(who, ()):
                    if rule_host not in (WILDCARD, host):
                        continue
                    is_named = rule_operation in (operation, Operation.ALL)
                    if permission == Permission.DENY:
                        if is_named:
                            return False
                    elif is_named or (granting is not None and rule_operation in granting):
                        is_allowed = True
        return is_allowed if has_rules else self._allows_without_acl

    def denying_rule(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> AclBinding | None:
        """The DENY that forbids it. None: no DENY does, so the reason is that no binding allows it."""
        for pattern, resource_name, rules in self._named_rules_of(resource_type, name):
            for who in (principal, EVERYONE):
                for rule_host, rule_operation, permission in rules.get(who, ()):
                    is_meant = rule_host in (WILDCARD, host) and rule_operation in (operation, Operation.ALL)
                    if permission == Permission.DENY and is_meant:
                        return AclBinding(
                            resource_type, resource_name, pattern, who, rule_host, rule_operation, permission
                        )
        return None

    def _rules_of(self, resource_type: int, name: str) -> Iterator[_Rules]:
        for _, _, rules in self._named_rules_of(resource_type, name):
            yield rules

    def _named_rules_of(self, resource_type: int, name: str) -> Iterator[tuple[PatternType, str, _Rules]]:
        """(type of the pattern, its name, its rules) of each pattern that matches."""
        for each in (name, WILDCARD):
            rules = self._literal.get((resource_type, each))
            if rules is not None:
                yield PatternType.LITERAL, each, rules
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                rules = self._prefixed.get((resource_type, name[:length]))
                if rules is not None:
                    yield PatternType.PREFIXED, name[:length], rules

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """The operations that the principal may do on this resource, one bit for each (KIP-430)."""
        supported = SUPPORTED[resource_type]
        return sum(1 << each for each in supported if self.allows(principal, host, each, resource_type, name))

    def allows_somewhere(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do this on any resource of the type: Kafka's authorizeByResourceType (KIP-679).

        Implied operations do not count, as in Kafka.
        """
        if self.allows(principal, host, operation, resource_type, _NO_RESOURCE):
            return True
        if not self.is_loaded:
            return False
        denied, allowed = self._said_by_type(principal, host, operation, resource_type)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        if (PatternType.LITERAL, WILDCARD) in allowed:
            return True
        return any(not _is_covered(pattern, name, denied) for pattern, name in allowed)

    def _said_by_type(
        self, principal: str, host: str, operation: int, resource_type: int
    ) -> tuple[set[tuple[int, str]], set[tuple[int, str]]]:
        """(denied, allowed): each is a set of patterns, as type and name."""
        denied: set[tuple[int, str]] = set()
        allowed: set[tuple[int, str]] = set()
        for pattern, patterns in ((PatternType.LITERAL, self._literal), (PatternType.PREFIXED, self._prefixed)):
            for (kind, name), rules in patterns.items():
                if kind != resource_type:
                    continue
                for who in (principal, EVERYONE):
                    for rule_host, rule_operation, permission in rules.get(who, ()):
                        if rule_host in (WILDCARD, host) and rule_operation in (operation, Operation.ALL):
                            (denied if permission == Permission.DENY else allowed).add((pattern, name))
        return denied, allowed


def _is_covered(pattern: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Whether a DENY takes back all that an ALLOW of this pattern gives. It must be of the same literal, or of a prefix
    of its name."""
    if pattern == PatternType.LITERAL and (PatternType.LITERAL, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


class Access:
    """What one principal at one address may do at present. `denied` is called for each refusal by `may`."""

    __slots__ = ("_authorizer", "_denied", "_host", "_principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str, *, denied: Denied | None = None) -> None:
        self._authorizer, self._principal, self._host, self._denied = authorizer, principal, host, denied

    @property
    def is_decidable(self) -> bool:
        """False while the access control lists are not known yet."""
        return self._authorizer.is_loaded or self._authorizer.is_super_user(self._principal)

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if self.could(operation, resource_type, name):
            return True
        if self._denied is not None:
            self._denied(self._principal, self._host, operation, resource_type, name)
        return False

    def could(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Like `may`, but without a call of `denied`. For cases where the answer no does not refuse a request: it only
        hides something, or the caller then asks for another permission."""
        return self._authorizer.allows(self._principal, self._host, operation, resource_type, name)

    def may_on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def could_on_cluster(self, operation: Operation) -> bool:
        return self.could(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._authorizer.allows_somewhere(self._principal, self._host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        return self._authorizer.operations(self._principal, self._host, resource_type, name)
