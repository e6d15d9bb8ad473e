"""The world of one seed: the cluster, its clients and its faults. It runs them, heals the faults, waits for recovery
and compares.

`seed_run` makes a world from a seed's number. `recovery` says what it waits for at the end, `comparison` what it
compares.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Set
from dataclasses import dataclass

from broker.controller.image import MetadataImage
from broker.log.directory import parse_directory_name
from broker.node.cluster.failures import QuorumFailedError
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.partitions import Partitions
from broker.sim.aftermath import Aftermath, names_damage
from broker.sim.clients import Reader, SimClient, create_topic, send_corrupt_batch
from broker.sim.cluster import EXTERNAL, SESSION_MS, Cluster, Life, SimLogger, port
from broker.sim.comparison import compare_producers
from broker.sim.coordinator_load import CoordinatorLoad
from broker.sim.coverage import Coverage
from broker.sim.faults import Faults
from broker.sim.invariants.healed import (
    ClusterRecoversOnceTheFaultsAreOver,
    DamageIsNamedNotCut,
    EverythingSentGetsAnOutcome,
    FollowersLearnWhatIsCommitted,
)
from broker.sim.invariants.processes import (
    BrokerDoesNotFail,
    BrokerStarts,
    CoresOwnInvariants,
    EventLoopAnswersWithinASession,
    NoHandlerRaises,
    RunEnds,
    SimulationDoesNotRaise,
)
from broker.sim.network import Network
from broker.sim.partition_checker import PartitionChecker
from broker.sim.plan import FAULTS_END_US, TOPIC, Settings
from broker.sim.producers import SimProducer
from broker.sim.quorum_checker import QuorumChecker
from broker.sim.recovery import (
    KNOWN_LIMIT_US,
    RECOVERY_LIMIT_US,
    condition,
    high_watermarks,
    is_drained,
    is_known,
    lonely_follower_leaves,
    shares_finish,
)
from broker.sim.scheduler import Scheduler
from broker.sim.share_checker import ShareChecker
from broker.sim.transaction_checker import TransactionChecker

NOTHING: frozenset[tuple[str, int]] = frozenset()
EVENTS_MAX = 3_000_000  # a run with more events is in an endless loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    invariant: str
    message: str
    at_us: int


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
        self.shares = ShareChecker(fail=self.fail, coverage=self.coverage, partitions=self.partitions)
        self.cluster = Cluster(
            settings=settings,
            scheduler=self.scheduler,
            network=self.network,
            coverage=self.coverage,
            rng=random.Random(rng.random()),
            on_event=self._after_event,
            on_defect=lambda cause: NoHandlerRaises(self.fail).violated(cause),
            on_power_loss=lambda: self.faults.power_lost(),
        )
        self.quorum = QuorumChecker(
            fail=self.fail,
            coverage=self.coverage,
            on_image=self.partitions.image_changed,
            on_vote=lambda voter, candidate: self.faults.vote_given(voter, candidate),
            began_clean=self.cluster.began_clean,
        )
        self.client_hosts: list[str] = []
        self._clients: list[SimClient] = []
        self.producers: list[SimProducer] = []
        self._known_lives: set[int] = set()
        self._offline: set[tuple[int, tuple[str, int]]] = (
            set()
        )  # (node, partition) whose storage has failed, until the partition is back
        # The key is the node, the value its state at the last check.
        self._controllers: dict[int, tuple[MetadataImage, bool]] = {}
        self._logger = SimLogger(0, lambda: self.scheduler.now_us, lambda cause: None)
        self.admin = self.new_client("admin")
        self._reader_client = self.new_client("reader")
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
        self.faults: Faults = Faults(
            world=self, settings=settings, coverage=self.coverage, rng=random.Random(rng.random())
        )

    def new_client(self, name: str) -> SimClient:
        """A client on a host of its own. Faults cut the links to this host like those to any other."""
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

    # -- invariants --------------------------------------------------------------------------------------------------

    def fail(self, invariant: str, message: str) -> None:
        """Only the first violation counts, because later ones may be its consequences."""
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
                BrokerStarts(self.fail).violated(repr(life.loop.failure))
            return
        if life.node_id in self.rotten:
            DamageIsNamedNotCut(self.fail).violated(f"broker {life.node_id} started on a damaged metadata log")
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
            self.shares.look(life)
            controller = life.broker.metadata.controller
            seen = self._controllers.get(life.node_id)
            if seen is None or seen[0] is not controller.image or seen[1] != controller.is_active:
                self._controllers[life.node_id] = (controller.image, controller.is_active)
                controller.check_invariants()
        except AssertionError as error:
            CoresOwnInvariants(self.fail).violated(f"broker {life.node_id}: {error!r}")
        self.faults.after_event()

    def _check_failures(self, life: Life) -> None:
        assert life.broker is not None
        loop = life.loop
        answers = EventLoopAnswersWithinASession(self.fail)
        if not answers.check(life.node_id, held_us=loop.held_us, waited_us=loop.waited_us, session_ms=SESSION_MS):
            return
        error = loop.failure  # in a callback; a real process would log it and continue, with its work half done
        if error is not None:
            where = "".join(traceback.format_exception(error)[-3:])
            NoHandlerRaises(self.fail).violated(f"broker {life.node_id}: {error!r}\n{where}")
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
            BrokerDoesNotFail(self.fail).violated(f"broker {life.node_id}: {error!r}\n{where}")

    def _note_offline(self, life: Life) -> None:
        """Note partitions that went offline, and those that are back. A restart brings them back, once the disk is
        healed."""
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
        """Called before the partition is removed, because otherwise the checker reads only between events."""
        for life in self.cluster.up():
            if life.broker is not None and life.broker.partitions is partitions and self.violation is None:
                with self.cluster.disks[life.node_id].observed():
                    self.partitions.failing(life, hosted)

    def _end_and_restart(self, life: Life) -> None:
        """A broker ends itself when its disk refuses something that it needs. Its supervisor starts it again."""
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
                    continue  # its directory was never synced, so nobody knows that vote
                self.quorum.quorum_state_written(life.node_id, disk.content(path).decode())
            elif (key := parse_directory_name(directory)) is not None:
                changed.add(key)
        disk.changed_paths.clear()
        return changed

    # -- for the faults ----------------------------------------------------------------------------------------------

    def is_healthy(self) -> bool:
        """Whether every broker is up and unfenced, and every partition has a leader that leads and all its replicas in
        sync."""
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
            and not state.is_reassigning
            and self.cluster.lives[state.leader].leads((name, index))
            for name, each in image.topics.items()
            for index, state in enumerate(each.partitions)
        )

    def send_corrupt_batch(self, node_id: int) -> None:
        """Send a damaged batch to the leader, if there is one, otherwise to `node_id`."""
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
        """Run the seed. An exception costs only this seed."""
        try:
            self._run()
        except Exception as error:
            SimulationDoesNotRaise(self.fail).check(error)

    def _run(self) -> None:
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
            ClusterRecoversOnceTheFaultsAreOver(self.fail).violated(condition(self))
            return
        if self.settings.has_lonely_follower and not lonely_follower_leaves(self):
            return
        for producer in self.producers:
            producer.may_produce = False
        self.load.end()
        if not self._run_until(self.scheduler.now_us + RECOVERY_LIMIT_US, lambda: is_drained(self)):
            return
        if not is_drained(self):
            EverythingSentGetsAnOutcome(self.fail).violated(f"a producer still waits; {self.load.waiting_text()}")
        if not self._run_until(self.scheduler.now_us + KNOWN_LIMIT_US, lambda: is_known(self)):
            return
        if not is_known(self):
            FollowersLearnWhatIsCommitted(self.fail).violated(high_watermarks(self))
        if not shares_finish(self):
            return
        compare_producers(self)
        self.load.compare()
        if not self._run_until(self.scheduler.now_us + RECOVERY_LIMIT_US, self.load.is_compared):
            return
        if self.settings.has_aftermath:
            Aftermath(self).run()

    def run_until(self, until_us: int, is_done: Callable[[], bool]) -> bool:
        """False if something was violated."""
        return self._run_until(until_us, is_done)

    def _run_until(self, until_us: int, is_done: object) -> bool:
        assert callable(is_done)
        was_done = self.scheduler.run(
            until_us=until_us, is_done=lambda: self.violation is not None or is_done(), events_max=EVENTS_MAX
        )
        if not was_done and self.scheduler.now_us < until_us:
            RunEnds(self.fail).violated(f"more than {EVENTS_MAX} events")
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

    def dispose(self) -> None:
        self.cluster.dispose()
        self.load.dispose()
        for loop in (*(each.loop for each in self._clients), *(each.loop for each in self.producers)):
            loop.dispose()
