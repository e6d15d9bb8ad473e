"""AlterPartition: sends ISR proposals of this broker's leaders to the controller, one request at a time.

Proposals that are made during a request go into the next one. If an answer is lost, the core is told and asks again.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.lifecycle import Lifecycle
from broker.node.net.channel import ChannelError
from broker.node.process.logs import Logger
from broker.node.replicas.cores import Cores
from broker.node.replicas.hosted import HostedPartition
from broker.node.settings.sections.cluster import QuorumSettings
from broker.replication import IsrProposalAnswered, ProposeIsr
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes import alter_partition as shapes

VERSION = 3
PROPOSALS_MAX = 2_000  # in one request; limits.py has what a controller accepts


class IsrSender:
    def __init__(self, *, settings: QuorumSettings, control: ControllerClient, logger: Logger) -> None:
        self._settings, self._control, self._logger = settings, control, logger
        self._waiting: dict[tuple[str, int], tuple[HostedPartition, ProposeIsr]] = {}  # at most one for each partition
        self._has_work = asyncio.Event()

    def propose(self, hosted: HostedPartition, proposal: ProposeIsr) -> None:
        self._waiting[hosted.key] = (hosted, proposal)
        self._has_work.set()

    async def run(self, cores: Cores, lifecycle: Lifecycle) -> None:
        """Runs until cancelled. The controller refuses a wrong broker epoch, so it waits for the registration first."""
        while True:
            await self._has_work.wait()
            broker_epoch = await asyncio.shield(lifecycle.broker_epoch)
            batch = {key: self._waiting.pop(key) for key in list(islice(self._waiting, PROPOSALS_MAX))}
            if not self._waiting:
                self._has_work.clear()
            await self._send(cores, batch, broker_epoch)

    async def _send(
        self,
        cores: Cores,
        batch: dict[tuple[str, int], tuple[HostedPartition, ProposeIsr]],
        broker_epoch: int,
    ) -> None:
        message = request(
            ApiKey.ALTER_PARTITION,
            VERSION,
            broker_id=self._settings.node_id,
            broker_epoch=broker_epoch,
            topics=[_topic(hosted, proposal) for hosted, proposal in batch.values()],
        )
        timeout_ms = self._settings.controller_quorum_request_timeout_ms
        answers: dict[tuple[object, int], shapes.AnsweredPartitionData] = {}
        failure = ErrorCode.network_exception
        try:
            response = await self._control.call_once(ApiKey.ALTER_PARTITION, VERSION, message, timeout_ms=timeout_ms)
            if response.error_code is not ErrorCode.none:
                failure = response.error_code
            for topic in response.topics:
                for partition in topic.partitions:
                    answers[(topic.topic_id, partition.partition_index)] = partition
        except ChannelError as error:
            self._logger.warning("alter_partition_failed", cause=repr(str(error)))
        for hosted, proposal in batch.values():
            cores.perform(hosted, _answer(answers.get((hosted.topic_id, hosted.index)), proposal, failure))


def _topic(hosted: HostedPartition, proposal: ProposeIsr) -> shapes.AskedTopicDataFields:
    members: list[shapes.BrokerStateFields] = [
        {"broker_id": broker, "broker_epoch": epoch}
        for broker, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
    ]
    partition: shapes.AskedPartitionDataFields = {
        "partition_index": hosted.index,
        "leader_epoch": proposal.leader_epoch,
        "new_isr_with_epochs": members,
        "partition_epoch": proposal.partition_epoch,
    }
    return {"topic_id": hosted.topic_id, "partitions": [partition]}


def _answer(
    partition: shapes.AnsweredPartitionData | None, proposal: ProposeIsr, failure: ErrorCode
) -> IsrProposalAnswered:
    code = failure if partition is None else partition.error_code
    return IsrProposalAnswered(attempt=proposal.attempt, error_code=int(code))
