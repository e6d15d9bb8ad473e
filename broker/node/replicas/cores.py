"""The only access to the replication cores: every change of a core goes through `perform`, which carries out its
actions.

Owns: the acks=all produces that wait, and the set of partitions that may have a deadline. It decides nothing;
broker/replication decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from broker.node.process.clock import monotonic_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.replication import (
    AwaitReplication,
    CompleteProduce,
    Event,
    HighWatermarkAdvanced,
    IsrChanged,
    ProposeIsr,
)
from broker.wire.errors import ErrorCode

ProduceDone: TypeAlias = Callable[[ErrorCode], None]


class Cores:
    def __init__(
        self, *, propose_isr: Callable[[HostedPartition, ProposeIsr], None], journal: Journal, logger: Logger
    ) -> None:
        self._propose_isr, self._journal, self._logger = propose_isr, journal, logger
        # Partitions that may have a deadline or something to flush. A partition is added when its core gets an event,
        # and removed when it has neither.
        self.timed: dict[HostedPartition, None] = {}
        self._produces: dict[int, ProduceDone] = {}
        self._next_token = 0

    def perform(self, hosted: HostedPartition, event: Event) -> None:
        self.timed[hosted] = None
        actions = hosted.replica.handle(event, monotonic_ms())
        if not actions:
            return
        for action in actions:
            match action:
                case HighWatermarkAdvanced():
                    hosted.log.high_watermark_advanced(hosted.replica.high_watermark)
                    hosted.readers.committed()
                case CompleteProduce():
                    self._produces.pop(action.token)(action.error_code)
                case ProposeIsr():
                    self._propose_isr(hosted, action)
                case IsrChanged():
                    hosted.readers.isr_changed()
                    self._journal.isr_changed(
                        topic=hosted.topic,
                        partition=hosted.index,
                        leader_epoch=action.leader_epoch,
                        isr=action.isr,
                    )
                    self._logger.info("isr_changed", topic=hosted.topic, partition=hosted.index, isr=action.isr)

    def await_replication(
        self, hosted: HostedPartition, *, required_offset: int, timeout_ms: int, done: ProduceDone
    ) -> None:
        """Waits until an acks=all produce is replicated. `done` gets its error, perhaps before this returns."""
        self._next_token += 1
        self._produces[self._next_token] = done
        event = AwaitReplication(
            token=self._next_token, required_offset=required_offset, deadline_ms=monotonic_ms() + timeout_ms
        )
        self.perform(hosted, event)
