"""Days pass: retention, DeleteRecords, and their effect on readers and on a follower that was down.

This is one story of the aftermath, on its own topic:

1. A follower loses its power, and records come meanwhile.
2. The wall clocks of all hosts move on by days, and segments are deleted.
3. The follower recovers its log, but its leader no longer has any of these records. The follower drops the log and
   begins where the leader's log begins.
4. A reader of the old offsets gets OFFSET_OUT_OF_RANGE and begins at the earliest offset.
5. DeleteRecords moves the start again, in every replica, also after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.sim.invariants.healed import (
    ClusterRecoversAfterALossOfPower,
    ClusterRecoversAfterARestart,
    DeleteRecordsIsAnswered,
    EverythingSentGetsAnOutcome,
    LogBeginsWhereItsLeaderSays,
    OldSegmentsGo,
    ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest,
    ReplicasCatchUp,
)
from broker.sim.loop import read_wall_ns
from broker.sim.topic_story import TopicStory
from broker.wire.apis import ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import iter_batches

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import FetchPartitionFields, PartitionData
    from broker.wire.shapes.list_offsets import ListOffsetsPartitionFields

if TYPE_CHECKING:
    from broker.sim.cluster import Life

DAY_US = 86_400_000_000
RETENTION_MS = 86_400_000
RECORD_BYTES = 60_000
SEGMENT_BYTES = 400_000
BATCHES_BEFORE = 64  # 3.8 MB, so recovery takes longer than a session
BATCHES_MEANWHILE = 24
BATCHES_AFTERWARDS = 20
BATCHES = BATCHES_BEFORE + BATCHES_MEANWHILE + BATCHES_AFTERWARDS
FETCH_BYTES = 100_000
EARLIEST = -2


class Days(TopicStory):
    topic = "aged"

    def tell(self) -> None:
        world = self._world
        configs = {
            "segment.bytes": str(SEGMENT_BYTES),
            "retention.ms": str(RETENTION_MS),
            "flush.messages": "1",
            "min.insync.replicas": "1",
        }
        if not self._make(configs):
            return
        away = self._follower()
        if away is None or not self._produce(BATCHES_BEFORE) or not self._until(world.is_healthy, ReplicasCatchUp):
            return
        world.cluster.lose_power(away.node_id)
        if not self._produce(BATCHES_MEANWHILE) or not self._let_days_pass():
            return
        if not self._produce(BATCHES_AFTERWARDS) or not self._read_from_the_start():
            return
        world.cluster.start(away.node_id)
        if not self._until(world.is_healthy, ClusterRecoversAfterALossOfPower):
            return
        if self._until(self._agree, LogBeginsWhereItsLeaderSays) and self._delete_records():
            self._restart_one()

    # -- steps -------------------------------------------------------------------------------------------------------

    def _produce(self, batches: int) -> bool:
        return self._do(self._send(batches), EverythingSentGetsAnOutcome)

    def _let_days_pass(self) -> bool:
        """Move the wall clocks by more than the retention time. Clocks that measure durations do not move."""
        world, leader = self._world, self._leader()
        if leader is None:
            return False
        before = leader.log.log_start_offset
        world.scheduler.wall_ahead_us += 2 * DAY_US
        if not self._until(lambda: self._start_of_leader() > before + BATCHES_BEFORE, OldSegmentsGo):
            return False
        world.coverage.reached("segments deleted by retention")
        return True

    def _read_from_the_start(self) -> bool:
        told: list[str] = []

        async def read() -> None:
            answer = await self._fetch(0)
            if answer.error_code is not ErrorCode.offset_out_of_range:
                told.append(f"offset 0 was answered with {answer.error_code!r}")
                return
            self._world.coverage.reached("reader reset after retention")
            offset = first = await self._earliest()
            if first != self._start_of_leader():
                told.append(f"the earliest offset is told as {first}, the leader's log begins at other")
            while offset < BATCHES:
                answer = await self._fetch(offset)
                batches = list(iter_batches(answer.records or b""))
                if answer.error_code is not ErrorCode.none or not batches:
                    told.append(f"offset {offset} was answered with {answer.error_code!r}, {len(batches)} batches")
                    return
                offset = batches[-1].header.next_offset

        if not self._do(read(), ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest):
            return False
        if told:
            ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest(self._world.fail).violated("; ".join(told))
        return not told

    def _delete_records(self) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        wanted = self._rng.randrange(leader.log.log_start_offset + 1, leader.replica.high_watermark)
        if not self._do(self._ask_to_delete(wanted), DeleteRecordsIsAnswered):
            return False
        if not self._until(lambda: self._start_of_leader() == wanted and self._agree(), LogBeginsWhereItsLeaderSays):
            return False
        self._world.coverage.reached("records deleted in every replica")
        return True

    def _restart_one(self) -> None:
        """Restart a follower. Deleted records must stay deleted."""
        world, life = self._world, self._follower()
        if life is None:
            return
        wanted = self._start_of_leader()
        world.cluster.kill(life.node_id)
        world.cluster.start(life.node_id)
        if self._until(world.is_healthy, ClusterRecoversAfterARestart):
            self._until(lambda: self._agree() and self._start_of_leader() >= wanted, LogBeginsWhereItsLeaderSays)

    # -- reading -----------------------------------------------------------------------------------------------------

    def _start_of_leader(self) -> int:
        leader = self._leader()
        return -1 if leader is None else leader.log.log_start_offset

    def _agree(self) -> bool:
        """Whether every replica begins and ends where the leader's log does, and has no segment below the log start."""
        replicas = self._replicas()
        if len(replicas) < self._world.settings.replication_factor:
            return False
        ranges = {(each.log.log_start_offset, each.log.log_end_offset) for each in replicas}
        return len(ranges) == 1 and all(
            len(each.log.segments) < 2 or each.log.segments[1].base_offset > each.log.log_start_offset
            for each in replicas
        )

    def _follower(self) -> Life | None:
        """A replica of this partition that leads neither the partition nor the quorum."""
        lives = [
            life
            for life in self._world.cluster.up()
            if life.broker is not None and life.hosts(self.key) and not life.leads(self.key)
        ]
        free = [life for life in lives if life.broker is not None and not life.broker.metadata.quorum.is_leader]
        return self._rng.choice(free) if free else None

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _send(self, batches: int) -> None:
        """Send batches of one record each. A batch without an answer is sent again only if the log does not hold it."""
        for _ in range(batches):
            end = self._log_end()
            value = self._rng.randbytes(RECORD_BYTES)
            await self._send_once(bytes(encode_batch([value], timestamps_ms=read_wall_ns() // 1_000_000)), end)

    async def _fetch(self, offset: int) -> PartitionData:
        partition: FetchPartitionFields = {
            "partition": 0,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": FETCH_BYTES,
        }
        answer = await self._ask_leader(
            ApiKey.FETCH,
            12,
            lambda: request(
                ApiKey.FETCH,
                12,
                replica_id=-1,
                max_wait=50,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=[{"topic": self.topic, "partitions": [partition]}],
                forgotten_topics_data=[],
                rack_id="",
            ),
            lambda answer: (
                ErrorCode.network_exception
                if not answer.responses
                else _but_out_of_range(answer.responses[0].partitions[0].error_code)
            ),
        )
        return answer.responses[0].partitions[0]

    async def _earliest(self) -> int:
        partition: ListOffsetsPartitionFields = {
            "partition_index": 0,
            "current_leader_epoch": -1,
            "timestamp": EARLIEST,
        }
        answer = await self._ask_leader(
            ApiKey.LIST_OFFSETS,
            7,
            lambda: request(
                ApiKey.LIST_OFFSETS,
                7,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": self.topic, "partitions": [partition]}],
            ),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )
        offset: int = answer.topics[0].partitions[0].offset
        return offset

    async def _ask_to_delete(self, offset: int) -> None:
        await self._ask_leader(
            ApiKey.DELETE_RECORDS,
            2,
            lambda: request(
                ApiKey.DELETE_RECORDS,
                2,
                topics=[{"name": self.topic, "partitions": [{"partition_index": 0, "offset": offset}]}],
                timeout=1_000,
            ),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )


def _but_out_of_range(error: ErrorCode) -> ErrorCode:
    """The error code, but none for OFFSET_OUT_OF_RANGE, because the story waits for this answer."""
    return ErrorCode.none if error is ErrorCode.offset_out_of_range else error
