"""The simulated brokers: real `broker.node.Broker` objects. Each runs in a `Life` on a host with a disk.

A life is one process of a broker, from its start to its end. A kill does not change the host's disk, because the kernel
keeps the page cache. A loss of power also takes what was not synced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker.controller.image import BrokerRegistration
from broker.log.checkpoints import CLEAN_SHUTDOWN_FILE
from broker.node.broker import Broker
from broker.node.cluster.metadata_store import METADATA_DIRECTORY
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig, config_of
from broker.node.settings.values import LONG_MAX, Address
from broker.sim.coverage import Coverage
from broker.sim.disk import Death, Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.loop import SimLoop
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler

if TYPE_CHECKING:
    from broker.sim.plan import Settings

EXTERNAL, INTERNAL, CONTROLLER = "EXTERNAL", "INTERNAL", "CONTROLLER"
_PORT_OF = {EXTERNAL: 1, INTERNAL: 2, CONTROLLER: 3}
LOG_LINES_KEPT = 4_000
LOG_DIRECTORY = "/data"
SESSION_MS = 600  # broker.session.timeout.ms
SHARE_STATE_PARTITIONS = 2  # The topic __share_group_state has so many.


def port(node_id: int, listener: str) -> int:
    return 10_000 + 10 * node_id + _PORT_OF[listener]


def host_of(node_id: int) -> str:
    return f"broker-{node_id}"


class SimJournal(Journal):
    """Counts reached states (coverage.py), by what the broker writes into its journal."""

    def __init__(self, coverage: Coverage, disk: SimDisk) -> None:
        super().__init__(None, broker_id=0, with_appends=False)
        self._disk = disk
        self.with_appends = True
        self._coverage = coverage
        self._truncated_epochs: dict[tuple[object, object, int], int] = {}

    def write(self, kind: str, **facts: object) -> None:
        state = _STATE_OF_KIND.get(kind)
        if state is not None:
            self._coverage.reached(state)
        if kind == "storage_failed" and "topic" in facts:
            call = "a read" if self._disk.last_failed == "read" else "another call"
            self._coverage.reached(f"partition offline by {call}")
        if kind == "log_recovered":
            self._coverage.reached("clean log trusted" if facts["clean"] else "log recovered")
            if facts["cut_bytes"]:
                self._coverage.reached("torn tail cut")


_STATE_OF_KIND = {
    "truncated": "truncation",
    "duplicate_sequence": "duplicate sequence",
    "out_of_order_sequence": "out of order sequence",
    "broker_fenced": "broker fenced",
    "metadata_snapshot_installed": "snapshot install",
}


# These log lines report an exception in the handling of a request. No request of a peer may cause one.
DEFECTS = frozenset({"handler_failed", "coordinator_answer_failed"})


class SimLogger(Logger):
    """Keeps the last lines, with virtual time. A line whose event is in DEFECTS is a defect, whatever its cause."""

    def __init__(self, node_id: int, now_us: Callable[[], int], on_defect: Callable[[str], None]) -> None:
        super().__init__(node_id)
        self._id, self._now_us, self._on_defect = node_id, now_us, on_defect
        self.lines: list[str] = []

    def _line(self, level: str, event: str, facts: dict[str, object]) -> None:
        pairs = " ".join(f"{name}={value}" for name, value in facts.items())
        self.lines.append(f"{self._now_us() / 1e6:.6f} {level} node={self._id} {event} {pairs}")
        if len(self.lines) > LOG_LINES_KEPT:
            del self.lines[: LOG_LINES_KEPT // 2]
        if event in DEFECTS:
            self._on_defect(pairs)


class Life:
    """One process of one broker. `make_loop` is called with `on_event`, which the loop calls after each event."""

    def __init__(
        self,
        node_id: int,
        make_loop: Callable[..., SimLoop],
        filesystem: SimFileSystem,
        on_event: Callable[[Life], None],
    ) -> None:
        self.node_id, self.filesystem = node_id, filesystem
        self.loop = make_loop(on_event=lambda _: on_event(self))
        self.broker: Broker | None = None
        self.is_stopping = False
        self.died_within_event = False  # nothing was checked after the event in which it died
        self.began_clean = False  # the previous life left the mark of a clean shutdown

    @property
    def is_dead(self) -> bool:
        return self.loop.is_dead

    @property
    def broker_epoch(self) -> int:
        return -1 if self.broker is None else self.broker.broker_epoch()

    def leads(self, key: tuple[str, int]) -> bool:
        hosted = None if self.broker is None or self.is_dead else self.broker.partitions.get(*key)
        return hosted is not None and hosted.replica.is_leader

    def hosts(self, key: tuple[str, int]) -> bool:
        return self.broker is not None and self.broker.partitions.get(*key) is not None


class Cluster:
    def __init__(
        self,
        *,
        settings: Settings,
        scheduler: Scheduler,
        network: Network,
        coverage: Coverage,
        rng: random.Random,
        on_event: Callable[[Life], None],
        on_defect: Callable[[str], None],
        on_power_loss: Callable[[], None],
    ) -> None:
        self._settings, self._scheduler, self._network = settings, scheduler, network
        self._coverage, self._rng = coverage, rng
        self._on_event, self._on_power_loss = on_event, on_power_loss
        self.node_ids = tuple(range(1, settings.brokers + 1))
        self.with_cleaner: set[int] = set()  # these brokers have a cleaner from their next life on
        self.lives: dict[int, Life] = {}
        self.all_lives: list[Life] = []
        self.disks = {
            each: SimDisk(
                scheduler=scheduler,
                rng=random.Random(rng.random()),
                name=f"disk-{each}",
                on_failure=self._disk_failed,
            )
            for each in self.node_ids
        }
        self.loggers = {each: SimLogger(each, lambda: scheduler.now_us, on_defect) for each in self.node_ids}
        self._clocks = {each: (rng.randrange(10**9), rng.uniform(0.97, 1.03)) for each in self.node_ids}
        for each in self.node_ids:
            for listener in _PORT_OF:
                network.own_port(port(each, listener), host_of(each))

    def _disk_failed(self, failure: Failure, path: str) -> None:
        what = "the quorum" if METADATA_DIRECTORY in path else "a partition"
        self._coverage.reached(f"disk failed under {what}")

    # -- reading -----------------------------------------------------------------------------------------------------

    def is_up(self, node_id: int) -> bool:
        life = self.lives.get(node_id)
        return life is not None and not life.is_dead

    def up(self) -> list[Life]:
        return [life for life in self.lives.values() if not life.is_dead]

    def began_clean(self, registration: BrokerRegistration) -> bool:
        """Whether the life that made this registration found the mark of a clean shutdown. This life may have ended
        since."""
        for life in reversed(self.all_lives):
            if life.broker is not None and life.broker.lifecycle.is_of_this_life(registration):
                return life.began_clean
        return False

    # -- life and death ----------------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        assert not self.is_up(node_id)
        self._scheduler.note(f"start {node_id}")
        self._network.dead_hosts.discard(host_of(node_id))
        offset_us, rate = self._clocks[node_id]
        make_loop = partial(  # type: ignore[abstract]  # only to typeshed: the others raise
            SimLoop,
            scheduler=self._scheduler,
            network=self._network,
            host=host_of(node_id),
            clock_offset_us=offset_us,
            clock_rate=rate,
        )
        life = Life(node_id, make_loop, SimFileSystem(self.disks[node_id]), self._on_event)
        self.lives[node_id] = life
        self.all_lives.append(life)
        seed = self._rng.random()
        life.loop.run_callback(lambda: self._begin(life, seed))

    def _begin(self, life: Life, seed: float) -> None:
        life.began_clean = self.disks[life.node_id].holds(f"{LOG_DIRECTORY}/{CLEAN_SHUTDOWN_FILE}")
        life.broker = Broker(
            config=self._config(life.node_id),
            logger=self.loggers[life.node_id],
            filesystem=life.filesystem,
            rng=random.Random(seed),
            journal=SimJournal(self._coverage, self.disks[life.node_id]),
            boot_id=self.disks[life.node_id].boot_id,
            run_blocking=lambda work: self._in_thread(life.loop, work),
        )
        life.loop.create_task(life.broker.start())

    async def _in_thread(self, loop: SimLoop, work: Callable[[], None]) -> None:
        """There are no threads. The work is one event. Its time passes before the result is known, and meanwhile the
        loop is free."""
        await asyncio.sleep(0)
        with loop.off_loop() as spent:
            work()
        if spent[0]:
            self._coverage.reached("work left to a thread")
            await asyncio.sleep(spent[0] / 1e6)

    def kill(self, node_id: int) -> None:
        """SIGKILL. The host keeps running."""
        life = self.lives[node_id]
        self._scheduler.note(f"kill {node_id}")
        self._end(life)
        self._network.process_died(life.loop, with_power=True)

    def lose_power(self, node_id: int, *, at_risk: float | None = None) -> None:
        life = self.lives[node_id]
        self._scheduler.note(f"power {node_id}")
        self._end(life)
        self._network.process_died(life.loop, with_power=False)
        self._network.dead_hosts.add(host_of(node_id))
        disk = self.disks[node_id]
        lost, torn, entries = disk.lost_changes, disk.torn_writes, disk.lost_entries
        disk.lose_power(at_risk)
        self._on_power_loss()
        self._coverage.reached("power lost")
        if disk.lost_changes > lost:
            self._coverage.reached("unsynced writes lost")
        if disk.lost_entries > entries:
            self._coverage.reached("entries of a directory lost")
        if disk.torn_writes > torn:
            self._coverage.reached("torn write")

    def die_within(self, node_id: int, operations: int, *, of_power: bool, may_die: Callable[[], bool]) -> None:
        """End the process at one of the next operations of its disk, by SIGKILL or by a loss of power."""

        def die() -> None:
            if self.is_up(node_id):
                self.lives[node_id].died_within_event = True
                what = "power lost" if of_power else "process killed"
                self._coverage.reached(f"{what} within an operation")
                (self.lose_power if of_power else self.kill)(node_id)

        self.disks[node_id].death = Death(operations=operations, die=die, is_time=may_die)

    def _end(self, life: Life) -> None:
        life.filesystem.detach()
        life.loop.kill()
        disk = self.disks[life.node_id]
        disk.death = None
        disk.failures[:] = [each for each in disk.failures if not each.is_once]

    def stop(self, node_id: int) -> None:
        """SIGTERM: a controlled shutdown, after which the process has ended."""
        life = self.lives[node_id]
        broker = life.broker
        if life.is_stopping or broker is None:
            return
        life.is_stopping = True
        self._scheduler.note(f"stop {node_id}")

        async def stop_and_exit() -> None:
            await broker.stop()
            if broker.lifecycle.may_stop.is_set():
                self._coverage.reached("controlled shutdown")
            life.loop.call_soon(exit_now)

        def exit_now() -> None:
            if not life.is_dead:
                self._end(life)
                self._network.process_died(life.loop, with_power=True)

        life.loop.run_callback(lambda: life.loop.create_task(stop_and_exit()))

    def dispose(self) -> None:
        for life in self.all_lives:
            life.filesystem.detach()
            life.loop.dispose()

    # -- configuration -----------------------------------------------------------------------------------------------

    def _config(self, node_id: int) -> NodeConfig:
        """Timeouts and intervals are about a tenth of the defaults, so that a short run has many fail-overs."""

        def listeners(names: tuple[str, ...]) -> dict[str, Address]:
            return {name: Address(host="127.0.0.1", port=port(node_id, name)) for name in names}

        return config_of(
            node_id=node_id,
            controller_quorum_voters={
                each: Address(host="127.0.0.1", port=port(each, CONTROLLER)) for each in self.node_ids
            },
            listeners=listeners((EXTERNAL, INTERNAL, CONTROLLER)),
            advertised_listeners=listeners((EXTERNAL, INTERNAL)),
            log_dirs=(Path(LOG_DIRECTORY),),
            auto_create_topics_enable=False,
            # Internal topics use the broker's value. Their records must survive what this schedule does.
            min_insync_replicas=2 if self._settings.directed == "last one standing" else 1,
            replica_lag_time_max_ms=400,
            replica_fetch_wait_max_ms=200,
            replica_fetch_backoff_ms=30,
            max_incremental_fetch_session_cache_slots=self._settings.fetch_session_slots,
            replica_socket_timeout_ms=300,
            replica_high_watermark_checkpoint_interval_ms=300,
            broker_session_timeout_ms=SESSION_MS,
            broker_heartbeat_interval_ms=150,
            controller_quorum_election_timeout_ms=120,
            controller_quorum_fetch_timeout_ms=400,
            controller_quorum_request_timeout_ms=300,
            controller_quorum_fetch_max_bytes=self._settings.quorum_fetch_bytes,
            controller_quorum_fetch_snapshot_max_bytes=200,  # so a snapshot is sent in several pieces
            metadata_log_max_record_bytes_between_snapshots=self._settings.snapshot_bytes or LONG_MAX,
            metadata_log_max_snapshot_interval_ms=0,
            metadata_max_retention_bytes=0 if self._settings.snapshot_bytes else -1,
            # Internal topics are as durable as the others. Their acknowledged records must survive the same faults.
            log_flush_interval_messages=self._settings.flush_messages or LONG_MAX,
            log_initial_task_delay_ms=300,
            log_retention_check_interval_ms=400,
            log_flush_start_offset_checkpoint_interval_ms=500,
            # The checker compares logs batch by batch, so brokers have no cleaner by default. If one has a cleaner, the
            # simulation starts it by a change of its backoff.
            log_cleaner_enable=node_id in self.with_cleaner,
            log_cleaner_backoff_ms=3_600_000,
            transaction_state_log_num_partitions=2,
            transaction_state_log_min_isr=min(2, len(self.node_ids)),
            transaction_state_log_replication_factor=min(3, len(self.node_ids)),
            offsets_topic_num_partitions=2,
            offsets_topic_replication_factor=min(3, len(self.node_ids)),
            offsets_commit_timeout_ms=600,
            group_min_session_timeout_ms=100,
            group_initial_rebalance_delay_ms=100,
            group_consumer_session_timeout_ms=1_000,
            group_consumer_heartbeat_interval_ms=100,
            group_consumer_assignment_interval_ms=100,
            controlled_shutdown_max_wait_ms=600,
            harness_share_version=1 if self._settings.share_members else 0,
            group_share_session_timeout_ms=1_000,
            group_share_heartbeat_interval_ms=100,
            group_share_assignment_interval_ms=100,
            group_share_record_lock_duration_ms=600,
            group_share_delivery_count_limit=3,
            group_share_partition_max_record_locks=40,
            share_coordinator_state_topic_num_partitions=SHARE_STATE_PARTITIONS,
            share_coordinator_state_topic_replication_factor=min(3, len(self.node_ids)),
            share_coordinator_state_topic_min_isr=min(2, len(self.node_ids)),
            share_coordinator_write_timeout_ms=600,
            share_coordinator_snapshot_update_records_per_snapshot=5,
        )
