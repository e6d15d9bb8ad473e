"""A compaction is interrupted: a call of the disk fails, or the broker dies in the middle of it.

This is one story of the aftermath, on its own compacted topic. A broker gets a cleaner. While the cleaner writes the
new segment, or swaps it in, a call of the disk fails or the process ends. In about half of the cases the broker leads
the partition. A failed call takes its replica offline and moves the leadership. A process that died is started again.
After the restart the compaction must complete, and every replica must hold the last record of each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.recovery import CLEANED_SUFFIX, SWAP_SUFFIX
from broker.sim.directed import alter_setting, leads_quorum, prefer_leaders
from broker.sim.disk import Failure
from broker.sim.invariants.healed import (
    CleanerCompactsWhatIsDirty,
    ClusterRecoversAfterARestart,
    CompactionGoesOnAfterARestart,
    CompactionKeepsTheLastRecordOfEachKeyAndChangesNone,
    EverythingSentGetsAnOutcome,
    ItsReplicaGoesOffline,
    LeadershipIsHandedOn,
    PreferredReplicaLeadsWhenAskedTo,
    ReplicasCatchUp,
)
from broker.sim.loop import read_wall_ns
from broker.sim.topic_story import TopicStory
from broker.wire.batch_encoder import encode_batch
from broker.wire.records import decode_records, iter_batches

if TYPE_CHECKING:
    from broker.node.replicas.hosted import HostedPartition
    from broker.sim.cluster import Life

KEYS = 6
BATCHES = 40
VALUE_BYTES = 150
SEGMENT_BYTES = 1_024
SEGMENT_BYTES_LATER = 4_000  # several segments become one, so that some of the old ones are removed
BACKOFF_SETTING = "log.cleaner.backoff.ms"
BACKOFF_MS = 50
DIES_SHARE = 0.4
OPERATIONS_TO_DEATH = 60  # operations of the disk while a compaction runs; a group of segments takes about thirty
# (call, a part of the path, a bound on how many such calls pass first). Each of these calls belongs to a compaction.
FAILING = (
    ("open", CLEANED_SUFFIX, 1),
    ("write", CLEANED_SUFFIX, 6),
    ("sync", CLEANED_SUFFIX, 1),
    ("replace", CLEANED_SUFFIX, 1),
    ("rename", "/compacted-0/", 8),
    ("rename", ".log" + SWAP_SUFFIX, 1),
    ("syncdir", "/compacted-0/", 1),
)


class FailedSwap(TopicStory):
    topic = "compacted"

    def tell(self) -> None:
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.01",
            "flush.messages": "1",
            "min.insync.replicas": "1",
        }
        if not self._make(configs) or not self._do(self._send_all(), EverythingSentGetsAnOutcome):
            return
        if not self._until(self._world.is_healthy, ReplicasCatchUp):
            return
        node_id = self._cleaner()
        if node_id is None or not self._prepare(node_id):
            return
        (self._let_it_die if self._rng.random() < DIES_SHARE else self._let_a_call_fail)(node_id)

    async def _send_all(self) -> None:
        for number in range(BATCHES):
            key, value = b"key-%d" % self._rng.randrange(KEYS), b"%d " % number + self._rng.randbytes(VALUE_BYTES)
            end = self._log_end()
            batch = encode_batch([value], keys=[key], timestamps_ms=read_wall_ns() // 1_000_000)
            await self._send_once(bytes(batch), end)

    # -- whose compaction fails ----------------------------------------------------------------------------------------

    def _cleaner(self) -> int | None:
        """A broker that does not lead the quorum. In about half of the cases it is the preferred leader of the
        partition."""
        state = self._world.quorum.image.partition(*self.key)
        lives = [life for life in self._world.cluster.up() if life.hosts(self.key) and not leads_quorum(life)]
        if state is None or not lives:
            return None
        preferred = [life for life in lives if life.node_id == state.replicas[0]]
        return self._rng.choice(preferred if preferred and self._rng.random() < 0.5 else lives).node_id

    def _prepare(self, node_id: int) -> bool:
        """Restart the broker with a cleaner. The cleaner begins only when its backoff is lowered."""
        world = self._world
        world.cluster.with_cleaner.add(node_id)
        world.partitions.compacted.add(self.key)
        world.cluster.kill(node_id)
        world.cluster.start(node_id)
        if not self._until(world.is_healthy, ClusterRecoversAfterARestart):
            return False
        state = world.quorum.image.partition(*self.key)
        if state is not None and state.replicas[0] == node_id:
            for life in world.cluster.up():
                prefer_leaders(life)
            return self._until(
                lambda: world.cluster.lives[node_id].leads(self.key) and world.is_healthy(),
                PreferredReplicaLeadsWhenAskedTo,
            )
        return True

    def _let_a_call_fail(self, node_id: int) -> None:
        world, disk = self._world, self._world.cluster.disks[node_id]
        call, where, skip_max = self._rng.choice(FAILING)
        failure = Failure(call=call, where=where, skip=self._rng.randrange(skip_max + 1))
        was_leader = world.cluster.lives[node_id].leads(self.key)
        disk.failures.append(failure)
        if not self._clean(node_id) or not self._until(
            lambda: failure.met > 0 or self._is_compacted(node_id), CleanerCompactsWhatIsDirty
        ):
            return
        if failure in disk.failures:
            disk.failures.remove(failure)
        if failure.met:
            world.coverage.reached("swap failed")
            if not self._until(lambda: not world.cluster.lives[node_id].hosts(self.key), ItsReplicaGoesOffline):
                return
            if was_leader and not self._until(lambda: self._leader() is not None, LeadershipIsHandedOn):
                return
            world.cluster.kill(node_id)
            world.cluster.start(node_id)
        self._finish(node_id)

    def _let_it_die(self, node_id: int) -> None:
        world, disk = self._world, self._world.cluster.disks[node_id]
        left = self._rng.randrange(OPERATIONS_TO_DEATH)
        # No power loss if records are not synced, because other checks depend on them.
        of_power = not world.settings.can_lose_power_unsynced and self._rng.random() < 0.7

        def is_time() -> bool:
            nonlocal left
            left -= any(path.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for path in disk.files)
            return left < 0

        world.cluster.die_within(node_id, 1, of_power=of_power, may_die=is_time)
        if not self._clean(node_id) or not self._until(
            lambda: not world.cluster.is_up(node_id) or self._is_compacted(node_id), CleanerCompactsWhatIsDirty
        ):
            return
        disk.death = None
        if not world.cluster.is_up(node_id):
            world.coverage.reached("ended within a swap")
            world.cluster.start(node_id)
        self._finish(node_id)

    def _clean(self, node_id: int) -> bool:
        lives = self._world.cluster.up()
        segments: dict[str, str | None] = {"segment.bytes": str(SEGMENT_BYTES_LATER)}
        backoff: dict[str, str | None] = {BACKOFF_SETTING: str(BACKOFF_MS)}
        return any(
            alter_setting(life, segments, topic=self.topic) and alter_setting(life, backoff, broker=node_id)
            for life in lives
        )

    def _finish(self, node_id: int) -> None:
        world = self._world
        if not self._until(world.is_healthy, ClusterRecoversAfterARestart):
            return
        if not self._until(lambda: self._is_compacted(node_id), CompactionGoesOnAfterARestart):
            return
        self._judge()

    # -- reading -------------------------------------------------------------------------------------------------------

    def _is_compacted(self, node_id: int) -> bool:
        """Whether one record of each key is left below the active segment, and no file of a compaction."""
        life = self._world.cluster.lives[node_id]
        hosted = None if life.is_dead or life.broker is None else life.broker.partitions.get(*self.key)
        if hosted is None:
            return False
        disk = self._world.cluster.disks[node_id]
        closed = [key for key, _, _ in _records(disk.files, self.key, below=hosted.log.segments[-1].base_offset)]
        return len(set(closed)) == len(closed) and not any(
            path.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for path in disk.files
        )

    def _judge(self) -> None:
        """Compare the replicas with one whose broker has no cleaner, because that one has everything."""
        replicas = {life.node_id: hosted for life, hosted in self._hosts()}
        files = {node_id: self._world.cluster.disks[node_id].files for node_id in replicas}
        with_all = [node_id for node_id in replicas if node_id not in self._world.cluster.with_cleaner]
        if not with_all:
            return
        whole = _records(files[with_all[0]], self.key)
        if len(whole) != BATCHES:
            CompactionKeepsTheLastRecordOfEachKeyAndChangesNone(self._world.fail).violated(
                f"{len(whole)} of {BATCHES} records at a broker that never compacted"
            )
            return
        last = {key: (key, value, offset) for key, value, offset in whole}
        for node_id in replicas:
            found = _records(files[node_id], self.key)
            missing, others = set(last.values()) - set(found), set(found) - set(whole)
            if missing or others or found != sorted(found, key=lambda record: record[2]):
                CompactionKeepsTheLastRecordOfEachKeyAndChangesNone(self._world.fail).violated(
                    f"broker {node_id} lacks the offsets {sorted(each[2] for each in missing)}, "
                    f"has others at {sorted(each[2] for each in others)}",
                )

    def _hosts(self) -> list[tuple[Life, HostedPartition]]:
        found = []
        for life in self._world.cluster.up():
            hosted = None if life.broker is None else life.broker.partitions.get(*self.key)
            if hosted is not None:
                found.append((life, hosted))
        return found


def _records(
    files: dict[str, bytes], key: tuple[str, int], *, below: int = 1 << 62
) -> list[tuple[bytes | None, bytes | None, int]]:
    """(key, value, offset) of each record below an offset, read from the files of a replica's segments."""
    directory = f"/data/{key[0]}-{key[1]}/"
    paths = sorted(path for path in files if path.startswith(directory) and path.endswith(".log"))
    return [
        (record_key, value, offset)
        for path in paths
        for batch in iter_batches(files[path])
        for offset, _, record_key, value, _ in decode_records(batch)
        if offset < below
    ]
