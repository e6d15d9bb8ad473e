"""Other clients of the simulation than the producers: an administrator, a reader that checks what it gets, and a client
that sends damaged batches. They use the node's Channel. Each runs in the event loop of a host of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from broker.node.net.channel import Channel, ChannelError
from broker.node.process.logs import Logger
from broker.node.settings.values import Address
from broker.sim.cluster import EXTERNAL, port
from broker.sim.coverage import Coverage
from broker.sim.invariants.clients import (
    CommittedOffsetIsNeverOutOfRange,
    ConsumersReadCommittedRecordsOnly,
    DamagedBatchIsRefused,
)
from broker.sim.invariants.invariant import Fail
from broker.sim.loop import SimLoop
from broker.sim.network import Network
from broker.sim.partition_checker import PartitionChecker
from broker.sim.scheduler import Scheduler
from broker.sim.transaction_checker import TransactionChecker
from broker.wire.apis import ApiKey
from broker.wire.batch import RawBatch
from broker.wire.batch_encoder import encode_batch
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import decode_records, iter_batches

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import PartitionData
    from broker.wire.shapes.kinds import Asks

Reply = TypeVar("Reply")

CREATE_TOPICS_VERSION = 7
FETCH_VERSION = 12  # the last version that has topic names
PRODUCE_VERSION = 12
TIMEOUT_MS = 400
READ_COMMITTED = 1


class SimClient:
    """A host with a loop and one channel to each broker."""

    def __init__(
        self, *, name: str, node_ids: tuple[int, ...], scheduler: Scheduler, network: Network, logger: Logger
    ) -> None:
        self.loop = SimLoop(scheduler=scheduler, network=network, host=name)  # type: ignore[abstract]
        self.node_ids = node_ids
        self._name, self._logger = name, logger
        self._channels = self._new_channels()

    def _new_channels(self) -> dict[int, Channel]:
        return {
            each: Channel(
                name=f"{self._name}-{each}",
                address=lambda each=each: Address(host="127.0.0.1", port=port(each, EXTERNAL)),  # type: ignore[misc]
                client_id=self._name,
                logger=self._logger,
            )
            for each in self.node_ids
        }

    def hang_up(self) -> None:
        """Close all connections, as at the end of a process. The next request makes a new one."""
        for channel in self._channels.values():
            channel.close()
        self._channels = self._new_channels()

    async def ask(
        self, node_id: int, api_key: ApiKey, version: int, message: Asks[Reply], *, timeout_ms: int = TIMEOUT_MS
    ) -> Reply | None:
        try:
            return await self._channels[node_id].request(api_key, version, message, timeout_ms=timeout_ms)
        except ChannelError:
            return None


async def create_topic(
    client: SimClient, *, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Send the request until the topic exists."""
    number = 0
    while True:
        message = request(
            ApiKey.CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            topics=[
                {
                    "name": topic,
                    "num_partitions": partitions,
                    "replication_factor": replication_factor,
                    "assignments": [],
                    "configs": [{"name": name, "value": value} for name, value in configs.items()],
                }
            ],
            timeout=300,
            validate_only=False,
        )
        node_id = client.node_ids[number % len(client.node_ids)]
        number += 1
        answer = await client.ask(node_id, ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, message)
        if answer is not None and answer.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
            return
        await asyncio.sleep(0.05)


class Reader:
    """Fetches like a consumer, from any broker, at random offsets. What it gets must be committed."""

    def __init__(
        self,
        *,
        client: SimClient,
        topic: str,
        partitions: int,
        rng: random.Random,
        checker: PartitionChecker,
        transactions: TransactionChecker,
        coverage: Coverage,
        fail: Fail,
    ) -> None:
        self._transactions = transactions
        self._client, self._topic, self._partitions, self._rng = client, topic, partitions, rng
        self._checker, self._coverage = checker, coverage
        self._in_range, self._committed_only = (
            CommittedOffsetIsNeverOutOfRange(fail),
            ConsumersReadCommittedRecordsOnly(fail),
        )
        self.records_read = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0.03, 0.12))
            index = self._rng.randrange(self._partitions)
            key = (self._topic, index)
            end = self._checker.committed_end(key)
            offset = self._rng.randrange(end + 1) if self._rng.random() < 0.3 else end
            epoch = self._checker.leader_epoch(key) if self._rng.random() < 0.6 else -1
            await self._read(self._rng.choice(self._client.node_ids), index, offset, epoch)

    def _check_committed(self, key: tuple[str, int], partition: PartitionData) -> None:
        """Check the answer as a consumer with read_committed reads it."""
        if partition.last_stable_offset < partition.high_watermark:
            self._coverage.reached("reader held back by an open transaction")
        aborted = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()]
        self._transactions.read_committed(key, iter_batches(partition.records or b""), _identities, aborted)

    async def _read(self, node_id: int, index: int, offset: int, leader_epoch: int) -> None:
        isolation_level = self._rng.randrange(2)
        message = request(
            ApiKey.FETCH,
            FETCH_VERSION,
            replica_id=-1,
            max_wait=50,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=isolation_level,
            session_id=0,
            session_epoch=-1,
            topics=[
                {
                    "topic": self._topic,
                    "partitions": [
                        {
                            "partition": index,
                            "current_leader_epoch": leader_epoch,
                            "fetch_offset": offset,
                            "last_fetched_epoch": -1,
                            "log_start_offset": -1,
                            "partition_max_bytes": 1 << 20,
                        }
                    ],
                }
            ],
            forgotten_topics_data=[],
            rack_id="",
        )
        answer = await self._client.ask(node_id, ApiKey.FETCH, FETCH_VERSION, message)
        if answer is None or not answer.responses:
            return
        partition = answer.responses[0].partitions[0]
        key = (self._topic, index)
        if (
            partition.error_code is ErrorCode.offset_out_of_range
            and leader_epoch == self._checker.leader_epoch(key) >= 0
            and not self._checker.follows(node_id, key, leader_epoch)
            and not self._checker.was_unclean(key)
        ):
            # KIP-320: an old leader with a shorter log must notice by the epoch that the request is not for it. If a
            # consumer got this error, it would follow auto.offset.reset, and so skip or repeat records.
            self._in_range.violated(
                f"{key[0]}-{key[1]}: broker {node_id}, asked for offset {offset} as leader of epoch {leader_epoch}"
            )
        if partition.error_code is not ErrorCode.none or not partition.records:
            return
        self._check(key, node_id, partition)
        if isolation_level == READ_COMMITTED:
            self._check_committed(key, partition)

    def _check(self, key: tuple[str, int], node_id: int, partition: PartitionData) -> None:
        if self._checker.was_unclean(key):
            return
        committed = {batch.base_offset: batch for batch in self._checker.committed(key)}
        for batch in iter_batches(partition.records or b""):
            header = batch.header
            known = committed.get(header.base_offset)
            if not self._committed_only.check(f"{key[0]}-{key[1]}", node_id, header, known):
                return
            self.records_read += 1
        if any(batch.base_offset >= partition.high_watermark for batch in self._checker.mirror(node_id, key)):
            self._coverage.reached("record read while uncommitted ones existed")


def _identities(batch: RawBatch) -> list[bytes]:
    return [bytes(value or b"").split(b" ")[0] for _, _, _, value, _ in decode_records(batch)]


async def send_corrupt_batch(
    client: SimClient, *, topic: str, index: int, node_id: int, rng: random.Random, coverage: Coverage, fail: Fail
) -> None:
    """Sends a Produce request whose batch was damaged on its way. It must be refused."""
    batch = bytearray(encode_batch([b"damaged %d" % rng.randrange(1000)], timestamps_ms=1_700_000_000_000))
    batch[rng.randrange(len(batch) - 8, len(batch))] ^= 1 << rng.randrange(8)
    message = request(
        ApiKey.PRODUCE,
        PRODUCE_VERSION,
        transactional_id=None,
        acks=1,
        timeout=300,
        topic_data=[{"name": topic, "partition_data": [{"index": index, "records": bytes(batch)}]}],
    )
    answer = await client.ask(node_id, ApiKey.PRODUCE, PRODUCE_VERSION, message)
    if answer is None:
        return
    code = answer.responses[0].partition_responses[0].error_code
    if code is ErrorCode.corrupt_message:
        coverage.reached("corrupt batch refused")
    elif code is ErrorCode.none:
        DamagedBatchIsRefused(fail).violated(f"{topic}-{index}: broker {node_id} took a batch with a wrong CRC")
