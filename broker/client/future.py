"""The result of `send`: a small handle to the outcome of one record."""

from __future__ import annotations

from collections.abc import Callable

from broker.client.clock import now_ms
from broker.client.core.batch import Batch, RecordMetadata
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.native import Event

WaitForBatch = Callable[[Batch], Event]
WAIT_S_MAX = 24 * 3600.0


def deadline_after_ms(wait_s: float) -> int:
    """The client's clock after this wait, which is at least 0 and at most WAIT_S_MAX."""
    return now_ms() + int(min(max(wait_s, 0.0), WAIT_S_MAX) * 1000)


class DeliveryFuture(tuple[Batch, int, WaitForBatch]):
    """(batch, index in it, how to wait). It is a plain tuple inside, because one is made for each record."""

    __slots__ = ()

    def done(self) -> bool:
        return self[0].outcome is not None

    def get(self, timeout_s: float | None = None) -> RecordMetadata:
        """Returns where the record is, or raises its KafkaError. After a TimedOutError of this call the outcome is
        still open."""
        batch, index, wait_for = self
        if batch.outcome is None:
            wait_s = WAIT_S_MAX if timeout_s is None else timeout_s
            if not wait_for(batch).wait(wait_s) and batch.outcome is None:
                raise TimedOutError(f"no outcome after {wait_s} s", definite=False)
        assert batch.outcome is not None
        if batch.outcome.error is not None:
            raise batch.outcome.error
        return batch.metadata(index)

    def exception(self, timeout_s: float | None = None) -> KafkaError | None:
        try:
            self.get(timeout_s)
        except KafkaError as error:
            return error
        return None


class FailedFuture:
    """The future of a record that was never queued."""

    __slots__ = ("_error",)

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def get(self, timeout_s: float | None = None) -> RecordMetadata:
        raise self._error

    def exception(self, timeout_s: float | None = None) -> KafkaError | None:
        return self._error
