"""The coordinator of transactions, as far as a tape needs one: producer ids, epochs, and which partitions are in the
open transaction. Pure.

An epoch that is not the newest one is refused, and a new producer gives up what the one before has left open, as in
Kafka (KIP-98, KIP-360). From transaction version 2 on a Produce request adds its partition by itself, and each end
raises the epoch (KIP-890). Markers are in the log at once. Shown by tests/harness/test_harness_tape_transactions.py.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from broker.door.protocol import ErrorCode
from harness.tape.partitions import Partitions

PRODUCER_ID: Final = 1_000  # of a producer without a transactional id; the others have the numbers behind it
_OK: Final = 0


class _Stage(Enum):
    EMPTY = auto()
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


@dataclass(slots=True, kw_only=True)
class _Producer:
    producer_id: int
    epoch: int = -1
    stage: _Stage = _Stage.EMPTY
    partitions: set[int] = field(default_factory=set)


class Transactions:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._producers: dict[str, _Producer] = {}
        self._plain_epoch = -1

    def begin_producer(self, transactional_id: str | None, producer_id: int, epoch: int) -> tuple[int, int, int]:
        """Returns (error code, producer id, epoch). `producer_id` and `epoch`: those that it has, or -1."""
        if transactional_id is None:
            self._plain_epoch += 1
            return _OK, PRODUCER_ID, self._plain_epoch
        one = self._producers.setdefault(
            transactional_id, _Producer(producer_id=PRODUCER_ID + 1 + len(self._producers))
        )
        if producer_id >= 0 and (producer_id, epoch) != (one.producer_id, one.epoch):
            return int(ErrorCode.producer_fenced), -1, -1
        one.epoch += 1
        if one.stage is _Stage.OPEN:
            self._write_end(one, is_committed=False)
        one.stage = _Stage.EMPTY
        return _OK, one.producer_id, one.epoch

    def add(self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[int]) -> int:
        one = self._producers.get(transactional_id)
        if one is None or one.producer_id != producer_id:
            return int(ErrorCode.invalid_producer_id_mapping)
        if one.epoch != epoch:
            return int(ErrorCode.producer_fenced)
        one.partitions.update(partitions)
        one.stage = _Stage.OPEN
        return _OK

    def may_append(self, producer_id: int, epoch: int, partition: int, *, is_adding: bool) -> int:
        """Before a batch of a transaction is appended. `is_adding`: the request adds its partitions by itself."""
        found = next(((name, one) for name, one in self._producers.items() if one.producer_id == producer_id), None)
        if found is None:
            return int(ErrorCode.invalid_producer_id_mapping)
        name, one = found
        if one.epoch != epoch:
            return int(ErrorCode.invalid_producer_epoch)
        if is_adding:
            return self.add(name, producer_id, epoch, (partition,))
        is_in = one.stage is _Stage.OPEN and partition in one.partitions
        return _OK if is_in else int(ErrorCode.invalid_txn_state)

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, is_commit: bool, is_raising: bool
    ) -> tuple[int, int, int]:
        """Returns (error code, producer id, epoch). `is_raising`: the end raises the epoch. Who asks again for the end
        that there was is told the same again."""
        one = self._producers.get(transactional_id)
        if one is None or one.producer_id != producer_id:
            return int(ErrorCode.invalid_producer_id_mapping), -1, -1
        ended = _Stage.COMMITTED if is_commit else _Stage.ABORTED
        if one.stage is ended and epoch in (one.epoch, one.epoch - int(is_raising)):
            return _OK, one.producer_id, one.epoch
        if one.epoch != epoch:
            return int(ErrorCode.producer_fenced), -1, -1
        if one.stage is _Stage.OPEN:
            self._write_end(one, is_committed=is_commit)
        elif not (is_raising and not is_commit):  # with version 2 a client may give up what it has not begun
            return int(ErrorCode.invalid_txn_state), -1, -1
        one.stage = ended
        one.epoch += int(is_raising)
        return _OK, one.producer_id, one.epoch

    def _write_end(self, one: _Producer, *, is_committed: bool) -> None:
        self._partitions.end_transaction(one.producer_id, one.epoch, one.partitions, is_committed=is_committed)
        one.partitions.clear()
