"""The log of denied requests, in the format of Apache Kafka's `kafka.authorizer.logger`. Clients cannot flood it.

It writes at most LINES_PER_SECOND_MAX lines in a second. Further ones are only counted, and the number is written when
the second is over. A name is escaped, so that it cannot begin a new line, and is cut at NAME_CHARACTERS_MAX.
`resourceRefCount` is always 1 here; Apache Kafka counts how often a request names the resource. As in Apache Kafka,
nothing is written if a resource is only left out of an answer (a list without names, a pattern).
Shown by tests/broker_node/test_node_denials.py.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.node.process.logs import Logger
from broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from broker.security.authorizer import Authorizer
from broker.wire.apis import ApiKey

LINES_PER_SECOND_MAX = 50  # each of about 300 bytes: a client that asks in a loop causes 15 KB in a second
NAME_CHARACTERS_MAX = 249  # every topic name fits; a group id may have 30,000
_EVENT = "kafka.authorizer.logger:"
_WINDOW_MS = 1_000


class DenialLog:
    def __init__(
        self,
        *,
        logger: Logger,
        authorizer: Authorizer,
        now_ms: Callable[[], int],
        call_later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        """`call_later` takes a time in ms and what is to be called then."""
        self._logger, self._authorizer, self._now_ms, self._call_later = logger, authorizer, now_ms, call_later
        self._window_ends_ms: int | None = None
        self._lines = self._left_out = 0

    def note(
        self, api_key: int, principal: str, host: str, operation: Operation, resource: ResourceType, name: str
    ) -> None:
        if not self._may_write():
            if not self._left_out and self._window_ends_ms is not None:
                self._call_later(max(0, self._window_ends_ms - self._now_ms()), self._write_count)
            self._left_out += 1
            return
        self._write_count()
        rule = self._authorizer.denying_rule(principal, host, operation, resource, name)
        self._logger.info(
            f"{_EVENT} Principal = {_shown(principal)} is Denied operation = {operation.name} "
            f"from host = {_shown(host)} on resource = {_words(resource.name)}:LITERAL:{_shown(name)} "
            f"for request = {_words(ApiKey(api_key).name)} with resourceRefCount = 1 based on rule {_rule(rule)}"
        )

    def _write_count(self) -> None:
        if self._left_out:
            self._logger.info(f"{_EVENT} {self._left_out} more denials were not written")
            self._left_out = 0

    def _may_write(self) -> bool:
        now_ms = self._now_ms()
        if self._window_ends_ms is None or now_ms >= self._window_ends_ms:
            self._window_ends_ms, self._lines = now_ms + _WINDOW_MS, 0
        self._lines += 1
        return self._lines <= LINES_PER_SECOND_MAX


def _rule(rule: AclBinding | None) -> str:
    if rule is None:
        return "DefaultDeny"
    return (
        f"MatchingAcl(acl=StandardAcl[resourceType={ResourceType(rule.resource_type).name}, "
        f"resourceName={_shown(rule.resource_name)}, patternType={PatternType(rule.pattern_type).name}, "
        f"principal={_shown(rule.principal)}, host={_shown(rule.host)}, operation={Operation(rule.operation).name}, "
        f"permissionType={Permission(rule.permission).name}])"
    )


def _shown(text: str) -> str:
    escaped = text[:NAME_CHARACTERS_MAX].encode("unicode_escape").decode("ascii")
    return escaped if len(text) <= NAME_CHARACTERS_MAX else f"{escaped}..."


def _words(name: str) -> str:
    """Converts TRANSACTIONAL_ID to TransactionalId."""
    return "".join(part.capitalize() for part in name.split("_"))
