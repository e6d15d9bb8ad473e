"""What the group shard asks of a kind of group that a feature adds beside classic and consumer groups.

Such groups live in the same partitions of `__consumer_offsets`, and their names are those of no other group. The shard
knows them only by this interface. Who adds kinds: broker/node/feature.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from broker.coordinator.groups.events import ListedGroup, Topic
from broker.coordinator.outbox import Outbox


class GroupsOfKind(Protocol):
    """The groups of this kind in one partition. Invariant: their durable state depends only on replayed records."""

    @property
    def read_only(self) -> tuple[type, ...]:
        """Its events that never write to the log."""
        ...

    def has(self, group_id: str) -> bool: ...

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Applies a record. Returns whether it was a record of this kind."""
        ...

    def handle(self, event: object, now_ms: int) -> bool:
        """Handles an event. Returns whether it was about a group of this kind. So it also answers members of other
        kinds that name such a group."""
        ...

    def listed(self) -> Sequence[ListedGroup]: ...

    def topics_changed(self, topics: Mapping[str, Topic], *, is_complete: bool) -> None: ...

    def loaded(self, now_ms: int) -> None: ...

    def tick(self, now_ms: int) -> None: ...

    def next_deadline_ms(self) -> int | None: ...

    def check_invariants(self) -> None: ...

    def durable(self) -> Mapping[str, object]:
        """By group id, what must be equal in a shard that replays the log."""
        ...


class MakeGroups(Protocol):
    def __call__(
        self, *, outbox: Outbox, is_other: Callable[[str], bool], wall_ms: Callable[[int], int]
    ) -> GroupsOfKind:
        """`is_other(group id)`: whether a classic or consumer group has that name, or has offsets. `wall_ms` makes the
        wall clock of the monotonic clock."""
        ...
