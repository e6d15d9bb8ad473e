"""Collects the actions of one `handle` call, in order, and numbers the appends of a shard."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordinator.runtime import Append, CoordinatorAction, Emit, Reply, StateRecord


class Outbox:
    def __init__(self) -> None:
        self.appended = 0  # the number of the last append
        self._actions: list[CoordinatorAction] = []

    def append(
        self,
        records: Iterable[StateRecord],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        is_transactional: bool = False,
    ) -> int:
        """Adds one atomic batch. Returns its number, for the `after` of actions that depend on it."""
        self.appended += 1
        batch = Append(
            number=self.appended,
            records=tuple(records),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=is_transactional,
        )
        assert batch.records, "an append has records"
        self._actions.append(batch)
        return self.appended

    def reply(self, token: int, response: object, *, after: int | None) -> None:
        self._actions.append(Reply(token=token, response=response, after=after))

    def emit(self, effect: object, *, after: int | None) -> None:
        self._actions.append(Emit(effect=effect, after=after))

    def take(self) -> list[CoordinatorAction]:
        actions, self._actions = self._actions, []
        return actions
