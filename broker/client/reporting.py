"""Reports a finished batch. It calls the delivery callbacks, each once and in record order, or the listener once.

Exceptions of the caller's code are caught.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from broker.client.core.batch import UNKNOWN_OFFSET, UNKNOWN_TIMESTAMP, Batch, RecordMetadata, TopicPartition
from broker.client.core.errors import KafkaError

_LOG = logging.getLogger(__name__)


class DeliveredBatch(NamedTuple):
    """A batch with its outcome: an error or a base offset. The offset is -1 if the broker did not tell it (acks=0)."""

    partition: TopicPartition
    tokens: Sequence[Any]  # the `on_delivery` argument of each `send`, in record order
    base_offset: int
    log_append_time_ms: int  # -1 unless the topic has message.timestamp.type=LogAppendTime
    error: KafkaError | None


BatchListener: TypeAlias = Callable[[DeliveredBatch], None]


def report(batch: Batch, listener: BatchListener | None = None) -> int:
    """Calls the listener or the callbacks. Returns how many of them raised an exception (logged once for each
    batch)."""
    callbacks = batch.callbacks
    if listener is not None:
        return _tell_listener(batch, listener)
    if callbacks is None:
        return 0
    assert batch.outcome is not None
    error = batch.outcome.error
    failures = 0
    places: Iterable[RecordMetadata | None] = batch.all_metadata() if error is None else itertools.repeat(None)
    for callback, place in zip(callbacks, places, strict=False):
        if callback is None:
            continue
        try:
            callback(place, error)
        except Exception:
            if not failures:
                _LOG.exception("event=delivery_callback_raised tp=%s-%d", *batch.partition)
            failures += 1
    return failures


def _tell_listener(batch: Batch, listener: BatchListener) -> int:
    outcome = batch.outcome
    assert outcome is not None
    is_acked = outcome.error is None
    delivered = DeliveredBatch(
        partition=batch.partition,
        tokens=batch.callbacks or (),
        base_offset=outcome.base_offset if is_acked else UNKNOWN_OFFSET,
        log_append_time_ms=outcome.log_append_time_ms if is_acked else UNKNOWN_TIMESTAMP,
        error=outcome.error,
    )
    try:
        listener(delivered)
    except Exception:
        _LOG.exception("event=batch_listener_raised tp=%s-%d", *batch.partition)
        return 1
    return 0
