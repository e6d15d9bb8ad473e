"""What the leader of a classic group does for all its members: it assigns the partitions, and notices when their number
changes.

Shown by tests/broker_client/test_client_classic_member.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.client.core.groups.assignors import ASSIGNORS_BY_NAME, Member
from broker.client.core.groups.encodings import decode_subscription, encode_assignment


class Leading:
    """The leader's knowledge in one generation. `_counts` is empty until the first assignment."""

    def __init__(
        self,
        members: Iterable[tuple[str, str | None, bytes]],
        own_topics: frozenset[str],
        *,
        keeps_assignment: bool,
    ) -> None:
        """`members` come from the answer to JoinGroup. Raises RemoteProtocolError for metadata that cannot be decoded.

        `keeps_assignment`: the coordinator keeps the group's last assignment and wants no new one (KIP-814).
        """
        self._keeps_assignment = keeps_assignment
        self._members = tuple(
            Member(member_id=member_id, instance_id=instance_id, subscription=decode_subscription(metadata))
            for member_id, instance_id, metadata in members
        )
        self.topics = own_topics.union(*[each.subscription.topics for each in self._members])
        self._counts: dict[str, int] = {}

    def know(self, counts: Mapping[str, int]) -> None:
        """Takes the number of partitions of each topic. A topic that is not in `counts` does not exist."""
        self._counts = {topic: counts.get(topic, 0) for topic in self.topics}

    def assignments(self, assignor: str) -> tuple[tuple[str, bytes], ...]:
        """The assignment of each member, encoded for SyncGroup. It is empty if the last assignment is kept."""
        if self._keeps_assignment:
            return ()
        existing = {topic: count for topic, count in self._counts.items() if count}
        result = ASSIGNORS_BY_NAME[assignor].assign(self._members, existing)
        return tuple((member_id, encode_assignment(held)) for member_id, held in result.items())

    def take_changed(self, counts: Mapping[str, int]) -> list[str]:
        """The topics whose number of partitions has changed since the last assignment. Each change is returned once."""
        if not self._counts:
            return []
        changed = sorted(topic for topic in self.topics & counts.keys() if self._counts[topic] != counts[topic])
        self._counts.update({topic: counts[topic] for topic in changed})
        return changed
