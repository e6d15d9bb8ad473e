"""The interceptors of a consumer (KIP-42). They get records before `poll` returns them, and commits that succeeded.

Owns: the calls, which run in the application's thread. An error of an interceptor is logged and does no other harm, as
in Java's client. producer.py has the interceptors of producers. Shown by tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from broker.client.core.batch import TopicPartition
from broker.client.core.fetch_state import ConsumerRecord
from broker.client.core.transactions import OffsetAndMetadata

_LOG = logging.getLogger(__name__)


class ConsumerInterceptor:
    """Override the methods that you need. They are called in the thread that polls, commits or closes."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Gets the records that `poll` is about to return. Its result is returned instead."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """It is called for every commit that succeeded, including automatic ones, in their order."""


class ConsumerInterceptors:
    """Each interceptor gets the result of the one before it."""

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
