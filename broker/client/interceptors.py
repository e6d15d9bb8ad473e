"""What a consumer's interceptors see (KIP-42): records before `poll` returns them, commits that were taken.

Owns: the calls, in the application's thread, and that an interceptor's error harms nobody: it is logged, as in Java's
client. Those of producers are in producer.py.
Shown by tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from broker.client.core.batch import TopicPartition
from broker.client.core.fetcher import ConsumerRecord
from broker.client.core.transactions import OffsetAndMetadata

_LOG = logging.getLogger(__name__)


class ConsumerInterceptor:
    """Override what you need. Called in the thread that polls, commits or closes."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """What `poll` is about to return; what comes back is returned instead."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Of every commit that succeeded, automatic ones too, in their order."""


class ConsumerInterceptors:
    """Each gets what the one before it gave."""

    def __init__(self, interceptors: Iterable[ConsumerInterceptor]) -> None:
        self._all = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        for each in self._all:
            try:
                records = each.on_consume(records)
            except Exception:
                _LOG.exception("event=interceptor_failed call=on_consume interceptor=%s", type(each).__name__)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for each in self._all:
            try:
                each.on_commit(offsets)
            except Exception:
                _LOG.exception("event=interceptor_failed call=on_commit interceptor=%s", type(each).__name__)
