"""Running the delivery callbacks of a finished batch: each once, in record order, errors of the caller contained."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable

from broker.client.core.batch import Batch, RecordMetadata

_LOG = logging.getLogger(__name__)


def report(batch: Batch) -> int:
    """Call the callbacks; returns how many of them raised (logged once a batch)."""
    callbacks = batch.callbacks
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
