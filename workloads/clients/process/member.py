"""A client process as a member of a consumer group, driven by a member process of the harness.

Both are in one process group: what kills or freezes the member does so to its client. Auto-commit is the client's:
with its next poll it may commit what the polls before gave, which the application has processed by then.
Shown by tests/workloads/test_workloads_process_load.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workloads.clients.member_protocol import CommitRefused, MemberListener, MemberSetup, Positions
from workloads.clients.process.build import Built
from workloads.clients.process.load import ProcessReader
from workloads.clients.process.messages import Ability, Committed, ErrorEvent, Rebalanced, TopicPartition, partitions_of
from workloads.clients.protocol import ClientError, Polled

_COMMIT_S: Final = 10.0


class ProcessMember:
    def __init__(self, name: str, built: Built, setup: MemberSetup, listener: MemberListener) -> None:
        self._name, self._topics, self._listener = name, setup.topics, listener
        own = {
            "bootstrap.servers": setup.bootstrap_servers,
            "group.id": setup.group_id,
            "auto.offset.reset": setup.start,
            "enable.auto.commit": "true" if setup.is_auto_commit else "false",
        }
        self._reader = ProcessReader(name, built, setup.properties, own, shares_fate=True)
        needed = [Ability.SUBSCRIBE] if setup.is_auto_commit else [Ability.SUBSCRIBE, Ability.COMMIT]
        if missing := [str(word) for word in needed if not self._reader.ready.is_able(word)]:
            self._reader.peer.kill()
            raise ClientError(f"client {name} cannot be a member of a group: it has no {' and no '.join(missing)}")

    def connect(self, timeout_s: float) -> None:
        self._reader.connect(timeout_s)
        event = self._reader.ask("subscribe", timeout_s, topics=list(self._topics))
        if isinstance(event, ErrorEvent):
            raise ClientError(f"client {self._name}: {event.reason}")

    def poll(self, timeout_s: float) -> Polled:
        polled = self._reader.poll(timeout_s)
        self._tell()
        return polled

    def processed(self, positions: Positions) -> None:
        """The client's next poll lets it commit this."""

    def commit(self, positions: Positions) -> None:
        event = self._reader.ask("commit", _COMMIT_S, partitions=partitions_of(positions))
        self._tell()
        if isinstance(event, ErrorEvent):
            raise CommitRefused(event.reason)

    def close(self) -> None:
        self._reader.close()
        self._tell()

    def _tell(self) -> None:
        """What the client said of rebalances and of commits that nobody asked for, in its order."""
        heard = self._reader.heard
        for _ in range(len(heard)):
            event = heard.popleft()
            if isinstance(event, Rebalanced) and event.event == "assigned":
                self._listener.assigned(_keys(event.partitions), event.generation)
            elif isinstance(event, Rebalanced):
                self._listener.revoked(_keys(event.partitions))
            elif isinstance(event, Committed):
                self._listener.committed({each.key: each.offset for each in event.partitions})


def _keys(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [each.key for each in partitions]
