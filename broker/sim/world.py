"""One seed: builds the cluster, its clients and its faults, runs them, heals, waits for recovery, compares.

`run_seed` is the whole API. Nothing outlives it but the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import traceback
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field

from broker.client import clock as client_clock
from broker.controller.image import MetadataImage
from broker.log.directory import parse_directory_name
from broker.mutants import Patch
from broker.node import clock as node_clock
from broker.node.failures import QuorumFailedError
from broker.node.partitions import AppendOutcome, HostedPartition, Partitions
from broker.sim.aftermath import Aftermath, names_damage
from broker.sim.clients import Reader, SimClient, create_topic, send_corrupt_batch
from broker.sim.cluster import EXTERNAL, SESSION_MS, Cluster, Life, SimLogger, host_of, port
from broker.sim.coordinator_load import CoordinatorLoad
from broker.sim.costs import requests_charged
from broker.sim.coverage import Coverage, refusals_counted
from broker.sim.faults import Faults
from broker.sim.loop import read_ns, read_wall_ns
from broker.sim.network import Network
from broker.sim.partition_checker import PartitionChecker
from broker.sim.plan import FAULTS_END_US, TOPIC, Settings, settings_of
from broker.sim.producers import SimProducer
from broker.sim.proposals import answers_late, proposals_watched
from broker.sim.quorum_checker import QuorumChecker
from broker.sim.scheduler import Scheduler
from broker.sim.tellings import tellings_watched
from broker.sim.transaction_checker import TransactionChecker
from broker.wire.records import decode_records

RECOVERY_LIMIT_US = 12_000_000  # after healing: many times what elections and catching up take
KNOWN_LIMIT_US = 1_500_000  # replica.fetch.wait.max.ms is 200
LONELY_LIMIT_US = 1_500_000  # replica.lag.time.max.ms is 400: the rest is for asking the controller, twice if need be
HANDLER_RAISED = "no handler raises"
STALL = "an event loop answers within a session"
NOTHING: frozenset[tuple[str, int]] = frozenset()
EVENTS_MAX = 3_000_000  # a run that needs more spins


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    invariant: str
    message: str
    at_us: int


@dataclass(slots=True, kw_only=True)
class SeedResult:
    seed: int
    violation: Violation | None
    trace_hash: int
    events: int
    virtual_us: int
    acked: int
    counts: dict[str, int]
    faults: list[str]
    log: list[str] = field(default_factory=list)  # of the brokers, only when something was violated


class World:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.scheduler = Scheduler()
        self.coverage = Coverage()
        self.violation: Violation | None = None
        self.has_lost_power = False
        self.rotten: set[int] = set()  # hosts whose metadata log has changed while they were down
        rng = random.Random(f"world {settings.seed}")
        self.rng = rng
        self.network = Network(scheduler=self.scheduler, rng=random.Random(rng.random()))
        self.transactions = TransactionChecker(fail=self.fail, coverage=self.coverage)
        self.partitions = PartitionChecker(
            fail=self.fail,
            coverage=self.coverage,
            transactions=self.transactions,
            can_lose_power_unsynced=settings.can_lose_power_unsynced,
            has_strangers=settings.has_strangers,
        )
        self.quorum = QuorumChecker(
            fail=self.fail,
            coverage=self.coverage,
            on_image=self.partitions.image_changed,
            on_vote=lambda voter, candidate: self.faults.vote_given(voter, candidate),
        )
        self.cluster = Cluster(
            settings=settings,
            scheduler=self.scheduler,
            network=self.network,
            coverage=self.coverage,
            rng=random.Random(rng.random()),
            on_event=self._after_event,
            on_defect=lambda cause: self.fail(HANDLER_RAISED, cause),
        )
        self.client_hosts: list[str] = []
        self._clients: list[SimClient] = []
        self.producers: list[SimProducer] = []
        self._known_lives: set[int] = set()
        self._offline: set[tuple[int, tuple[str, int]]] = (
            set()
        )  # (node, partition) whose storage failed, until it is back
        self._controllers: dict[int, tuple[MetadataImage, bool]] = {}  # as they were checked last
        self._logger = SimLogger(0, lambda: self.scheduler.now_us, lambda cause: None)
        self.admin = self._client("admin")
        self._reader_client = self._client("reader")
        self._reader = Reader(
            client=self._reader_client,
            topic=TOPIC,
            partitions=settings.partitions,
            rng=random.Random(rng.random()),
            checker=self.partitions,
            transactions=self.transactions,
            coverage=self.coverage,
            fail=self.fail,
        )
        self.load = CoordinatorLoad(self)
        self.faults = Faults(world=self, settings=settings, coverage=self.coverage, rng=random.Random(rng.random()))

    def _client(self, name: str) -> SimClient:
        self.client_hosts.append(name)
        client = SimClient(
            name=name,
            node_ids=self.cluster.node_ids,
            scheduler=self.scheduler,
            network=self.network,
            logger=self._logger,
        )
        self._clients.append(client)
        return client

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port(each, EXTERNAL)}" for each in self.cluster.node_ids)

    def new_client(self, name: str) -> SimClient:
        """On a host of its own; links to it are cut as those to any other."""
        return self._client(name)

    # -- invariants --------------------------------------------------------------------------------------------------

    def fail(self, invariant: str, message: str) -> None:
        """The first one counts: what follows may be its consequence."""
        if self.violation is None:
            self.violation = Violation(invariant=invariant, message=message, at_us=self.scheduler.now_us)

    def _after_event(self, life: Life) -> None:
        if life.is_dead or life.broker is None or self.violation is not None:
            if life.broker is None and isinstance(life.loop.failure, OSError) and not life.is_dead:
                self.coverage.reached("start refused by the disk")
                self._end_and_restart(life)
            elif life.broker is None and life.node_id in self.rotten and names_damage(life.loop.failure):
                self.coverage.reached("rot named")
                self.rotten.discard(life.node_id)
                self.cluster.kill(life.node_id)
            elif life.broker is None and life.loop.failure is not None and not life.is_dead:
                self.fail("a broker starts", repr(life.loop.failure))
            return
        if life.node_id in self.rotten:
            self.fail("damage is named, not cut", f"broker {life.node_id} started on a damaged metadata log")
            return
        if id(life) not in self._known_lives:
            self._known_lives.add(id(life))
            if life.broker.metadata.quorum.snapshot_id is not None:
                self.coverage.reached("snapshot loaded")
            self.quorum.life_began(life.node_id)
            self.partitions.life_began(life)
        self._check_failures(life)
        if life.is_dead:
            return
        self._note_offline(life)
        if life.is_dead:
            return
        try:
            changed = self._changed_partitions(life)
            self.quorum.check(life)
            with self.cluster.disks[life.node_id].observed():
                self.partitions.check(life, changed)
            controller = life.broker.metadata.controller
            seen = self._controllers.get(life.node_id)
            if seen is None or seen[0] is not controller.image or seen[1] != controller.is_active:
                self._controllers[life.node_id] = (controller.image, controller.is_active)
                controller.check_invariants()
        except AssertionError as error:
            self.fail("the cores' own invariants", f"broker {life.node_id}: {error!r}")
        self.faults.after_event()

    def _check_failures(self, life: Life) -> None:
        assert life.broker is not None
        loop = life.loop
        if loop.held_us > SESSION_MS * 1000 or loop.waited_us > SESSION_MS * 1000:
            # Nobody gets an answer meanwhile, and no heartbeat leaves: the broker is fenced, its partitions move.
            self.fail(
                STALL,
                f"broker {life.node_id}: one callback took {loop.held_us // 1000} ms, another waited "
                f"{loop.waited_us // 1000} ms; broker.session.timeout.ms is {SESSION_MS}",
            )
            return
        error = loop.failure  # of a callback: a process would log it and go on, half done
        if error is not None:
            where = "".join(traceback.format_exception(error)[-3:])
            self.fail(HANDLER_RAISED, f"broker {life.node_id}: {error!r}\n{where}")
            return
        if life.broker.failed.done() and not life.broker.failed.cancelled():
            error = life.broker.failed.exception()
        if isinstance(error, QuorumFailedError) and isinstance(error.__cause__, OSError):
            self.coverage.reached("ended by the storage of the quorum")
            error = error.__cause__
        if isinstance(error, OSError):
            self._end_and_restart(life)
            return
        if error is not None:
            where = "".join(traceback.format_exception(error)[-3:])
            self.fail("a broker does not fail", f"broker {life.node_id}: {error!r}\n{where}")

    def _note_offline(self, life: Life) -> None:
        """What went offline comes back with a restart: with one that somebody orders once the disk is healed."""
        assert life.broker is not None
        offline = life.broker.partitions.offline()
        for key in offline:
            if (life.node_id, key) not in self._offline:
                self._offline.add((life.node_id, key))
                if key[0].startswith("__"):
                    self.coverage.reached("coordinator's partition offline")
                if not self.partitions.has_watched(life.node_id, key):
                    self.coverage.reached("partition offline at the start")
        back = [key for node_id, key in sorted(self._offline) if node_id == life.node_id and life.hosts(key)]
        for key in back:
            self._offline.discard((life.node_id, key))
            self.coverage.reached("offline partition back")
        if offline and self.faults.is_over:
            self._end_and_restart(life)

    def storage_fails(self, partitions: Partitions, hosted: HostedPartition) -> None:
        """Before its partition is gone: the checker looks between events only."""
        for life in self.cluster.up():
            if life.broker is not None and life.broker.partitions is partitions and self.violation is None:
                with self.cluster.disks[life.node_id].observed():
                    self.partitions.failing(life, hosted)

    def _end_and_restart(self, life: Life) -> None:
        """A broker whose disk refused what it cannot do without ends itself; its supervisor starts it again."""
        life.died_within_event = True
        self.cluster.kill(life.node_id)
        self.faults.restart_soon(life.node_id)

    def _changed_partitions(self, life: Life) -> Set[tuple[str, int]]:
        disk = self.cluster.disks[life.node_id]
        if not disk.changed_paths:
            return NOTHING
        changed: set[tuple[str, int]] = set()
        for path in disk.changed_paths:
            directory = path.split("/")[2] if path.count("/") >= 2 else ""
            if path.endswith("/quorum-state"):
                if not disk.holds(path):
                    continue  # its directory was never synced: nobody has heard of that vote
                self.quorum.quorum_state_written(life.node_id, disk.content(path).decode())
            elif (key := parse_directory_name(directory)) is not None:
                changed.add(key)
        disk.changed_paths.clear()
        return changed

    # -- for the faults ----------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Every broker is up and unfenced, every partition has a leader that leads and all its replicas in sync."""
        image = self.quorum.image
        topic = image.topics.get(TOPIC)
        if topic is None or len(self.cluster.up()) < len(self.cluster.node_ids):
            return False
        for life in self.cluster.up():
            registration = image.brokers.get(life.node_id)
            if registration is None or not registration.may_lead or registration.broker_epoch != life.broker_epoch:
                return False
        return all(
            state.leader >= 0
            and set(state.isr) == set(state.replicas)
            and self.cluster.lives[state.leader].leads((name, index))
            for name, each in image.topics.items()
            for index, state in enumerate(each.partitions)
        )

    def send_corrupt_batch(self, node_id: int) -> None:
        """To the leader, if there is one."""
        client = self.admin
        index = self.rng.randrange(self.settings.partitions)
        state = self.quorum.image.partition(TOPIC, index)
        work = send_corrupt_batch(
            client,
            topic=TOPIC,
            index=index,
            node_id=state.leader if state is not None and state.leader >= 0 else node_id,
            rng=self.rng,
            coverage=self.coverage,
            fail=self.fail,
        )
        client.loop.run_callback(lambda: client.loop.create_task(work))

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for node_id in self.cluster.node_ids:
            self.cluster.start(node_id)
        self._begin_clients()
        self.faults.plan()
        if not self._run_until(FAULTS_END_US, lambda: False):
            return
        self.faults.end()
        limit_us = self.scheduler.now_us + RECOVERY_LIMIT_US
        if not self._run_until(limit_us, self.is_healthy):
            return
        if not self.is_healthy():
            self.fail("the cluster recovers once the faults are over", self._condition())
            return
        if self.settings.has_lonely_follower and not self._check_lonely_follower():
            return
        for producer in self.producers:
            producer.may_produce = False
        self.load.end()
        if not self._run_until(self.scheduler.now_us + RECOVERY_LIMIT_US, self._is_drained):
            return
        if not self._is_drained():
            self.fail("everything sent gets an outcome", f"a producer still waits; {self.load.waiting_text()}")
        if not self._run_until(self.scheduler.now_us + KNOWN_LIMIT_US, self._is_known):
            return
        if not self._is_known():
            self.fail("followers learn what is committed", self._high_watermarks())
        self._compare()
        self.load.compare()
        if not self._run_until(self.scheduler.now_us + RECOVERY_LIMIT_US, self.load.is_compared):
            return
        if self.settings.has_aftermath:
            Aftermath(self).run()

    def _check_lonely_follower(self) -> bool:
        """Liveness: a follower that only its leader cannot reach leaves the ISR in time, and records commit again.

        It keeps its session with the controller, so nobody but the leader can tell. False when something is violated.
        """
        key = (TOPIC, self.rng.randrange(self.settings.partitions))
        state = self.quorum.image.partition(*key)
        assert state is not None
        controller = [life.node_id for life in self.cluster.up() if _is_controller(life)]
        followers = [each for each in state.isr if each != state.leader]
        if state.leader in controller or not followers:
            return True  # cut off from the controller as well, it would be fenced
        lonely = self.rng.choice(followers)
        self.network.cut(host_of(state.leader), host_of(lonely))
        self.network.cut(host_of(lonely), host_of(state.leader))
        until_us = self.scheduler.now_us + LONELY_LIMIT_US
        if not self._run_until(until_us, lambda: self._has_left(key, lonely)):
            return False
        now = self.quorum.image.partition(*key)
        if now is not None and now.leader == state.leader and now.leader_epoch == state.leader_epoch:
            if lonely in now.isr and self.partitions.has_uncommitted(state.leader, key):
                self.fail(
                    "a follower that does not fetch leaves the ISR",
                    f"{key[0]}-{key[1]}: broker {lonely} is still in {now.isr}, {LONELY_LIMIT_US // 1000} ms after it "
                    f"was cut off from its leader {state.leader}",
                )
                return False
            if lonely not in now.isr:
                self.coverage.reached("cut off member left the isr")
        self.network.heal_all()
        if not self._run_until(self.scheduler.now_us + RECOVERY_LIMIT_US, self.is_healthy):
            return False
        if not self.is_healthy():
            self.fail("the cluster recovers once the faults are over", self._condition())
        return self.violation is None

    def _has_left(self, key: tuple[str, int], node_id: int) -> bool:
        state = self.quorum.image.partition(*key)
        return state is None or node_id not in state.isr

    def run_until(self, until_us: int, is_done: Callable[[], bool]) -> bool:
        """False when something was violated."""
        return self._run_until(until_us, is_done)

    def _run_until(self, until_us: int, is_done: object) -> bool:
        assert callable(is_done)
        was_done = self.scheduler.run(
            until_us=until_us, is_done=lambda: self.violation is not None or is_done(), events_max=EVENTS_MAX
        )
        if not was_done and self.scheduler.now_us < until_us:
            self.fail("a run ends", f"more than {EVENTS_MAX} events")
        return self.violation is None

    def _begin_clients(self) -> None:
        settings, client = self.settings, self.admin
        creating = create_topic(
            client,
            topic=TOPIC,
            partitions=settings.partitions,
            replication_factor=settings.replication_factor,
            configs=settings.topic_configs(),
        )
        client.loop.run_callback(lambda: client.loop.create_task(creating))
        reader = self._reader_client
        reader.loop.run_callback(lambda: reader.loop.create_task(self._reader.run()))
        for number in range(settings.producers):
            is_idempotent = number == 0 or self.rng.random() < 0.7
            producer = SimProducer(
                name=f"producer-{number}",
                seed=self.rng.random(),
                bootstrap=self.bootstrap,
                topic=TOPIC,
                partitions=settings.partitions,
                acks="all" if is_idempotent else self.rng.choice(("all", "1")),
                is_idempotent=is_idempotent,
                scheduler=self.scheduler,
                network=self.network,
                coverage=self.coverage,
                checker=self.partitions,
                fail=self.fail,
            )
            producer.produce_for_ever(settings.record_gap_us)
            self.producers.append(producer)
            self.client_hosts.append(producer.name)
        self.load.begin()

    def _is_drained(self) -> bool:
        if not all(producer.is_drained for producer in self.producers) or not self.load.is_done:
            return False
        ends = {self._end_offsets(index) for index in range(self.settings.partitions)}
        return all(len(each) == 1 for each in ends)

    def _end_offsets(self, index: int) -> frozenset[int]:
        """Log ends of all replicas, and the high watermark of the leader: one value when all is replicated."""
        found = set()
        for life in self.cluster.up():
            hosted = None if life.broker is None else life.broker.partitions.get(TOPIC, index)
            if hosted is not None:
                found.add(hosted.log.log_end_offset)
                if hosted.replica.is_leader:
                    found.add(hosted.replica.high_watermark)
        return frozenset(found)

    def _replicas(self) -> Iterator[HostedPartition]:
        for life in self.cluster.up():
            for index in range(self.settings.partitions):
                hosted = None if life.broker is None else life.broker.partitions.get(TOPIC, index)
                if hosted is not None:
                    yield hosted

    def _is_known(self) -> bool:
        """Nothing is written any more, so each follower's next fetches tell it the high watermark."""
        return all(each.replica.high_watermark == each.replica.log_end_offset for each in self._replicas())

    def _high_watermarks(self) -> str:
        told = (
            f"{each.topic}-{each.index}, {each.replica.role.value}: {each.replica.high_watermark} of "
            f"{each.replica.log_end_offset}"
            for each in self._replicas()
        )
        return f"high watermarks {KNOWN_LIMIT_US // 1000} ms after the last record: {', '.join(told)}"

    def _condition(self) -> str:
        image = self.quorum.image
        topic = image.topics.get(TOPIC)
        states = [] if topic is None else [str(state) for state in topic.partitions]
        fenced = [each for each, broker in image.brokers.items() if broker.fenced]
        up = [life.node_id for life in self.cluster.up()]
        return f"up {up}, fenced {fenced}, partitions {states}"

    # -- at the end --------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """What producers were told against what lies in the logs."""
        for index in range(self.settings.partitions):
            places = self._places(index)
            for producer in self.producers:
                self._compare_producer(producer, index, places)

    def _places(self, index: int) -> dict[bytes, list[int]]:
        """Offsets of each record's identity in the leader's log."""
        places: dict[bytes, list[int]] = {}
        for life in self.cluster.up():
            hosted = None if life.broker is None else life.broker.partitions.get(TOPIC, index)
            if hosted is None or not hosted.replica.is_leader:
                continue
            start = hosted.log.log_start_offset
            while start < hosted.log.log_end_offset:
                for offset, _, _, value, _ in decode_records(hosted.log.read(start, 1 << 20)):
                    places.setdefault(bytes(value or b"").split(b" ")[0], []).append(offset)
                    start = offset + 1
            return places
        return places

    def _compare_producer(self, producer: SimProducer, index: int, places: dict[bytes, list[int]]) -> None:
        key = (TOPIC, index)
        was_unclean = self.partitions.was_unclean(key)
        mine = [each for each in places if each.startswith(f"{producer.name}:{index}:".encode())]
        for identity, (partition, offset) in producer.acked.items():
            if partition != index or producer.acks != "all" or was_unclean:
                continue
            found = places.get(identity, [])
            if not found:
                self.fail("an acknowledged record is not lost", f"{identity!r} acknowledged at offset {offset}")
            elif offset >= 0 and offset not in found:
                self.fail("an acknowledged record is where it was said", f"{identity!r}: {offset}, found at {found}")
        for identity in mine:
            if identity in producer.failed:
                self.fail("what definitely failed is not in the log", f"{identity!r} at {places[identity]}")
            if producer.is_idempotent and len(places[identity]) > 1 and not was_unclean:
                self.fail("idempotence: no record twice", f"{identity!r} at {places[identity]}")
        if producer.is_idempotent and not was_unclean:
            numbers = [int(each.rpartition(b":")[2]) for each in sorted(mine, key=lambda each: places[each][0])]
            if numbers != sorted(numbers):
                self.fail("an idempotent producer's records keep their order", f"{producer.name} in {key}")

    def dispose(self) -> None:
        self.cluster.dispose()
        self.load.dispose()
        for loop in (*(each.loop for each in self._clients), *(each.loop for each in self.producers)):
            loop.dispose()


def _is_controller(life: Life) -> bool:
    return life.broker is not None and life.broker.metadata.controller.is_active


def run_seed(seed: int) -> SeedResult:
    """Run one seed to its end, or to its first violation. Not re-entrant: it puts virtual clocks in place."""
    with virtual_clocks():
        world = World(settings_of(seed))
        try:
            cluster = world.cluster
            with (
                refusals_counted(world.coverage),
                tellings_watched(world.fail, cluster.lives, cluster.disks),
                _storage_watched(world),
                proposals_watched(world.fail, world.coverage),
                requests_charged(),
                answers_late(random.Random(f"answers {seed}"))
                if world.settings.has_late_answers
                else contextlib.nullcontext(),
            ):
                world.run()
            result = _result(world, seed)
        finally:
            world.dispose()
    del world
    gc.collect()  # it is all cycles, and with collection off nothing counted them: thousands of seeds fill the memory
    return result


@contextlib.contextmanager
def _storage_watched(world: World) -> Iterator[None]:
    patch = Patch()
    storage_failed = Partitions.storage_failed

    def watched(self: Partitions, hosted: HostedPartition, error: Exception) -> AppendOutcome:
        if self.get(*hosted.key) is hosted:
            world.storage_fails(self, hosted)
        return storage_failed(self, hosted, error)

    patch.set(Partitions, "storage_failed", watched)
    try:
        yield
    finally:
        patch.undo()


@contextlib.contextmanager
def virtual_clocks() -> Iterator[None]:
    """The clocks of nodes and clients are those of the simulated processes; nothing is collected meanwhile."""
    saved = node_clock.clocks(), client_clock.source()
    node_clock.use_clocks(read_ns, read_wall_ns)
    client_clock.use_clock(read_ns)
    gc_was_enabled = gc.isenabled()
    gc.disable()  # a collection would end dead coroutines at a time that the seed does not decide
    try:
        yield
    finally:
        asyncio._set_running_loop(None)
        node_clock.use_clocks(*saved[0])
        client_clock.use_clock(saved[1])
        if gc_was_enabled:
            gc.enable()


def _result(world: World, seed: int) -> SeedResult:
    log: list[str] = []
    if world.violation is not None:
        log = sorted(line for logger in world.cluster.loggers.values() for line in logger.lines)
    return SeedResult(
        seed=seed,
        violation=world.violation,
        trace_hash=world.scheduler.trace_hash,
        events=world.scheduler.events_run,
        virtual_us=world.scheduler.now_us,
        acked=sum(len(each.acked) for each in world.producers),
        counts=dict(world.coverage.counts),
        faults=list(world.faults.done),
        log=log,
    )
