"""The groups that the members and readers of a cell use on a cluster that outlives us. They go when the cell ends.

Their names begin with the run's mark. A ledger on disk (chaos.lease) keeps each one before it is used, for `harness
clean`. What a group leaves: the settings that a share group got, and the group itself with its offsets. Transactional
ids cannot be deleted: brokers forget them in time. Shown by tests/harness/test_harness_own_topics.py.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from broker.door.clients import Admin, KafkaError
from broker.door.protocol import ErrorCode

DELETE_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.2
# The brokers will not delete it later either: they forget it in time. `harness clean` would try in vain.
_NEVER: Final = frozenset({ErrorCode.unsupported_version, ErrorCode.group_authorization_failed})


class Ledger(Protocol):
    """Remembers a group on disk before it is used; `chaos.lease.Lease` is one."""

    def reserve_group(self, bootstrap_servers: str, group: str, settings: Sequence[str]) -> str: ...
    def remove(self, entry_id: str) -> None: ...


class OwnGroups:
    """Groups of one cell. `properties`: of a client of the cluster, with how it proves itself."""

    def __init__(self, properties: Mapping[str, str], *, ledger: Ledger, bootstrap_servers: str) -> None:
        self._properties = {**properties, "bootstrap.servers": bootstrap_servers}
        self._ledger, self._bootstrap_servers = ledger, bootstrap_servers
        # The key is the group. The value is its entry in the ledger, and the names of its settings.
        self._own: dict[str, tuple[str, Sequence[str]]] = {}

    def note(self, group_id: str, settings: Sequence[str] = ()) -> None:
        """Call this before anybody uses the group. `settings`: names of those that it will get."""
        if group_id not in self._own:
            entry_id = self._ledger.reserve_group(self._bootstrap_servers, group_id, settings)
            self._own[group_id] = (entry_id, settings)

    def delete_all(self, timeout_s: float = DELETE_TIMEOUT_S) -> list[str]:
        """One line for each group of which something stays."""
        problems = []
        deadline = time.monotonic() + timeout_s
        for group_id, (entry_id, settings) in list(self._own.items()):
            left_s = max(1.0, deadline - time.monotonic())
            is_gone, problem = delete_group(self._properties, group_id, settings, timeout_s=left_s)
            if problem:
                problems.append(f"group {group_id} stays: {problem}")
            if is_gone:
                del self._own[group_id]
                self._ledger.remove(entry_id)
        return problems


def delete_group(
    properties: Mapping[str, object], group_id: str, settings: Sequence[str], *, timeout_s: float
) -> tuple[bool, str]:
    """Removes the settings, then the group. Returns whether nothing is left that a later try could delete, and why the
    group stays; empty if it does not. A member that was killed is in its group until its session has ended."""
    deadline = time.monotonic() + timeout_s
    try:
        with Admin({**properties, "default.api.timeout.ms": max(1_000, int(timeout_s * 1000))}) as admin:
            if settings:
                admin.alter_configs("group", group_id, delete=settings)
            while True:
                try:
                    admin.groups.delete(group_id)
                except KafkaError as error:
                    if error.code == ErrorCode.group_id_not_found:
                        return True, ""
                    if error.code in _NEVER:
                        return True, f"{error}; brokers forget it in time"
                    if error.code != ErrorCode.non_empty_group:
                        return False, str(error)
                    if time.monotonic() > deadline:
                        return False, "a member that ended without leaving is in it until its session ends"
                    time.sleep(_PAUSE_S)
                else:
                    return True, ""
    except KafkaError as error:
        return False, str(error)
