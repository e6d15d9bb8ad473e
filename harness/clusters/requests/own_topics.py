"""The topics that we have made on a cluster, each with its id. Only these are changed and deleted.

A name alone does not tell whose topic it is. It may have existed before, and after a deletion somebody else may take
it. `create` refuses a name that is taken. `delete` names the topic by its id (KIP-516). `require` checks whether a name
still belongs to the topic that we made. On a cluster that outlives us, a ledger on disk (chaos.lease) keeps what was
made, for `harness clean`. Shown by tests/harness/test_harness_own_topics.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.clusters.requests.admin import Admin, TopicNotCreated
from harness.errors import CellError


class Ledger(Protocol):
    """Remembers on disk, before a topic is made, that it will be ours; `chaos.lease.Lease` is one."""

    def reserve_topic(self, bootstrap_servers: str, topic: str) -> str: ...
    def record_topic(self, entry_id: str, topic_id: str | None) -> None: ...
    def remove(self, entry_id: str) -> None: ...


@dataclass(slots=True)
class _Own:
    topic_id: str | None  # None: the cluster has no topic ids
    entry_id: str  # in the ledger; empty without one


class OwnTopics:
    """Topics of one cell or one warm-up. The caller chooses names that are probably not taken."""

    def __init__(self, admin: Admin, *, ledger: Ledger | None = None, bootstrap_servers: str = "") -> None:
        self._admin, self._ledger, self._bootstrap_servers = admin, ledger, bootstrap_servers
        self._own: dict[str, _Own] = {}

    def create(self, name: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """CellError if it is refused or the name is taken. If our topic still exists, it is not changed."""
        known = self._own.get(name)
        if known is not None and known.topic_id is not None and self._admin.topic_id(name) == known.topic_id:
            return
        entry_id = "" if self._ledger is None else self._ledger.reserve_topic(self._bootstrap_servers, name)
        try:
            topic_id = self._admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, config=config
            )
        except TopicNotCreated as error:
            if not error.may_exist:
                self._forget(entry_id)
            raise
        self._own[name] = _Own(topic_id, entry_id)
        if self._ledger is not None:
            self._ledger.record_topic(entry_id, topic_id)

    def require(self, name: str, ids: Iterable[str | None]) -> None:
        """CellError unless we made `name` and it still has the same id. `ids` are what brokers tell now."""
        if name not in self._own:
            raise CellError(f"topic {name} was not made by this run: it is left alone")
        expected, told = self._own[name].topic_id, {topic_id for topic_id in ids if topic_id is not None}
        if expected is not None and told and expected not in told:
            raise CellError(
                f"topic {name} is no longer the one that this run made: expected id {expected}, got {sorted(told)}; "
                "it is left alone"
            )

    def delete(self, name: str) -> None:
        """Deletes the topic by its id. CellError if it is not ours, has no id, or the brokers refuse or do not
        answer."""
        if name not in self._own:
            raise CellError(f"topic {name} was not made by this run: it is left alone")
        own = self._own[name]
        if own.topic_id is None:
            raise CellError(f"topic {name} stays: the cluster gives no topic ids, and a name may be somebody else's")
        if not self._admin.delete_topic(own.topic_id):
            raise CellError(f"topic {name} (id {own.topic_id}) could not be deleted: refused, or no broker answered")
        del self._own[name]
        self._forget(own.entry_id)

    def delete_all(self, admin: Admin | None = None) -> list[str]:
        """One line for each topic that could not be deleted. `admin`: asks instead of the usual one."""
        self._admin = admin or self._admin
        problems = []
        for name in list(self._own):
            try:
                self.delete(name)
            except CellError as error:
                problems.append(str(error))
        return problems

    def _forget(self, entry_id: str) -> None:
        if self._ledger is not None and entry_id:
            self._ledger.remove(entry_id)
