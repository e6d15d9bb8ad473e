"""What the cluster does in one trial: its moves are carried out one after the other, beside the program.

Each of them touches one trial only, although all trials share the cluster. A leader moves, partitions are added and
records are deleted in the trial's own topic. A coordinator moves with its partition of an internal topic, and no two
trials that run together have the same one (`Coordinators`). A broker that cannot be reached cannot be reached by this
client id: proxies close or hold its requests. A broker can be lost to a client: it closes its connections for good, and
all that the trial has of it moves to the others, as after a death. Metadata goes on naming it, without a partition. A
broker that dies, or hangs, would meet everybody. So that is done only where the trial has the cluster for itself
(benches.py). Shown by tests/harness/test_harness_explore_changes.py and test_harness_explore_deaths.py.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from broker.door.clients import TopicPartition
from broker.door.questions import changed_replicas, partition_for
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics
from harness.clusters.requests.topic_changes import TopicChanges
from harness.errors import CellError
from harness.explore.trial.history import Changed, Logged
from harness.explore.trial.model import Do, Move
from harness.explore.trial.topics import Topics
from workloads.clients.process.peer import now_us

GROUPS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
BROKERS: Final = 3
COORDINATOR_PARTITIONS: Final = 50  # Both topics have so many: the default of all brokers.
MOVED_WITHIN_S: Final = 20.0
WHOLE_WITHIN_S: Final = 120.0  # after a broker was started again, also where a JVM has to on a busy host
ADMIN_TIMEOUT_MS: Final = 10_000
_POLL_S: Final = 0.1
_ABSENT_S: Final = 0.5
# What clients ask for in their ordinary work.
APIS: Final = (
    "ApiVersions", "Metadata", "FindCoordinator", "Produce", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn",
    "TxnOffsetCommit", "EndTxn", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "JoinGroup", "SyncGroup", "Heartbeat",
    "LeaveGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat",
)  # fmt: skip


class Coordinators:
    """Gives trials that run together group names and transactional ids whose coordinators do not share a partition."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def take(self, wish: str, internal: str, *, fits: Callable[[int], bool] = lambda _: True) -> str:
        """`wish`, or `wish` with a number behind it. `internal`: the topic whose partitions are shared out. There are
        more of them than trials side by side. `fits`: whether the partition is one that is wished for; another one is
        taken if none of those is free."""
        with self._lock:
            taken = {partition for topic, partition in self._taken.values() if topic == internal}
            numbers = range(100 * COORDINATOR_PARTITIONS)
            names = (f"{wish}-{number}" if number else wish for number in numbers)
            places = ((name, partition) for name in names if (partition := _partition(name)) not in taken)
            first = next(places)
            fitting = first if fits(first[1]) else next((place for place in places if fits(place[1])), first)
            name, partition = fitting
            self._taken[name] = internal, partition
            return name

    def give_back(self, name: str) -> None:
        with self._lock:
            self._taken.pop(name, None)


def _partition(name: str) -> int:
    return partition_for(name, COORDINATOR_PARTITIONS)


class Changes:
    """`coordinators`: the internal topic and the key that say who coordinates, for each one that the program has. They
    move together. The broker of "the coordinator", where it is cut off or lost, is the first one's. `output`: the topic
    that a copier writes to, or nothing. Its leaders move too: a producer meets what happens only there.
    `unreachable`: makes brokers close (`cut`) or hold (`freeze`) this client's requests. `between`: the same for what
    brokers say to one another: it places a toxic on links, and returns what removes it. `refuse`: makes a broker's
    address refuse connections, and returns what ends that. `copy`: the
    records of a partition from one offset to another, as they are now. `ends` follows what is created."""

    def __init__(
        self,
        topics: Topics,
        *,
        cluster: ProcessCluster,
        own: OwnTopics,
        coordinators: Sequence[tuple[str, str]],
        output: str = "",
        unreachable: Callable[[Do, Collection[int]], Callable[[], None]],
        between: Callable[[str, Sequence[str], Mapping[str, int]], Callable[[], None]],
        refuse: Callable[[int], Callable[[], None]],
        copy: Callable[[int, int, int], Sequence[Logged]],
        note: Callable[[Changed], None],
        ends: dict[int, int],
    ) -> None:
        self._of_trial, self._cluster, self._own, self._coordinators = topics, cluster, own, tuple(coordinators)
        self._name = topics.names[0]
        self._output = output
        self._topics = TopicChanges(cluster.broker_addresses, cluster.probe_of_leader, own)
        self._unreachable, self._between, self._refuse = unreachable, between, refuse
        self._copy, self._note, self._ends = copy, note, ends
        self._moves: queue.SimpleQueue[Move | None] = queue.SimpleQueue()
        self._begun = self._done = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lost: int | None = None  # the broker that stays lost to this client
        self._let_go: Callable[[], None] = lambda: None
        self._is_lagging = False
        self._dead: dict[int, Callable[[], None]] = {}  # broker -> what makes its address accept connections again
        self.starts: dict[int, int] = {}  # partition -> log start offset
        self.deleted: list[Logged] = []
        self.recreated_us: int | None = None
        self.problem = ""

    def begin(self, move: Move) -> None:
        self._begun += 1
        self._moves.put(move)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"{self._name}-changes", daemon=True)
            self._thread.start()

    @property
    def is_over(self) -> bool:
        return self._done == self._begun

    @property
    def _all_topics(self) -> list[str]:
        """With the one of the copies."""
        return [*self._of_trial.names, self._output] if self._output else list(self._of_trial.names)

    def end(self) -> None:
        """Waits for the move that is under way, which has a bound, and lets go of every broker. One that is dead is
        started again, and not waited for."""
        self._stop.set()
        self._moves.put(None)
        if self._thread is not None:
            self._thread.join()
        let_go, self._let_go = self._let_go, lambda: None
        let_go()
        self._revive()

    def _run(self) -> None:
        while (move := self._moves.get()) is not None:
            try:
                if not self._stop.is_set() and not self.problem:
                    self._carry_out(move)
            except Exception as error:  # a mistake of ours as well: who waits for the next move must not wait for ever
                self.problem = f"{move}: {type(error).__name__}: {error}"
            finally:
                self._done += 1

    def _say(self, what: str) -> None:
        self._note(Changed(at_us=now_us(), what=what))

    def _carry_out(self, move: Move) -> None:
        match move.do:
            case Do.MOVE_LEADER:
                topic, partition = self._of_trial.place(move.partition)
                self._move_leader(topic, partition)
                if self._output:
                    self._move_leader(self._output, partition)
            case Do.MOVE_COORDINATOR:
                for each in self._coordinators:
                    self._move_coordinator(*each)
            case Do.ADD_PARTITIONS:
                self._add_partitions(move.count)
            case Do.DELETE_RECORDS:
                self._delete_records(move.partition, move.count)
            case Do.RECREATE:
                self._recreate()
            case Do.CUT | Do.FREEZE:
                if (broker := self._broker_of(move.partition)) is not None:
                    self._make_unreachable(move, [broker], f"broker {broker}")
            case Do.CUT_ALL | Do.FREEZE_ALL:
                left = [each for each in sorted(self._cluster.broker_ids) if each != self._lost]
                self._make_unreachable(move, left, "every broker")
            case Do.LOSE:
                self._lose(move)
            case Do.DIE | Do.DIE_ALL | Do.HANG | Do.ISOLATE:
                self._strike(move)
            case Do.LAG:
                self._lag(move)
            case _:
                raise AssertionError(f"{move.do} is no move of a cluster")

    # --- the topic ----------------------------------------------------------------------------------------------------

    def _move_leader(self, topic: str, partition: int) -> None:
        """The only replica goes to the next broker, and the leadership with it."""
        (now,) = self._topics.replicas_of(topic)[partition]
        brokers = [each for each in sorted(self._cluster.broker_ids) if each != self._lost or each == now]
        then = brokers[(brokers.index(now) + 1) % len(brokers)]
        self._topics.set_replicas(topic, {partition: (then,)})
        of = " of the copies" if topic == self._output else "" if topic == self._name else f" of {topic}"
        self._say(f"the leader of partition {partition}{of} moved from broker {now} to broker {then}")

    def _add_partitions(self, count: int) -> None:
        assert len(self._of_trial.names) == 1  # Else the numbers of the others would be other ones.
        before = len(self._ends)
        self._topics.set_partition_count(self._name, before + count)
        self._await(lambda: all(self._cluster.leader(self._name, each) is not None for each in range(before + count)))
        self._leave_the_lost(self._name, before + count)
        self._ends.update(dict.fromkeys(range(before, before + count), 0))
        self._say(f"the topic has {before + count} partitions")

    def _delete_records(self, number: int, keep: int) -> None:
        topic, partition = self._of_trial.place(number)
        start = self.starts.get(number, 0)
        before = self._topics.end_offset(topic, partition) - keep
        if before <= start:
            return
        copied = self._copy(number, start, before)
        self._topics.delete_records(topic, partition, before)
        self.deleted += copied
        self.starts[number] = before
        self._say(f"partition {number} begins at offset {before}")

    def _recreate(self) -> None:
        assert len(self._of_trial.names) == 1  # What is known of the others' logs would be forgotten.
        partitions = len(self._ends)
        self._topics.delete(self._name)
        self._await(lambda: not any(self._topics.id_by_broker(self._name).values()))
        time.sleep(_ABSENT_S)
        self._topics.create(self._name, partitions=partitions, replication_factor=1, config={})
        self._await(lambda: all(self._topics.id_by_broker(self._name).values()))
        self._leave_the_lost(self._name, partitions)
        self.starts.clear()
        self.deleted.clear()
        self.recreated_us = now_us()
        self._say("the topic was deleted and created anew")

    # --- coordinators -------------------------------------------------------------------------------------------------

    def _move_coordinator(self, topic: str, key: str) -> None:
        """The partition of the internal topic gets replicas without its leader, and then its old ones again, in an
        order in which the new leader stays."""
        partition = partition_for(key, COORDINATOR_PARTITIONS)
        replicas, leader = self._cluster.replicas(topic, partition), self._cluster.leader(topic, partition)
        # A lost broker comes last: the first of those that are in sync leads.
        others = tuple(sorted((each for each in replicas if each != leader), key=lambda each: each == self._lost))
        if leader is None or not others:
            raise CellError(f"{topic}-{partition} has replicas {replicas} and leader {leader}: it cannot move")
        self._set_replicas(topic, partition, others)
        self._await(lambda: self._cluster.leader(topic, partition) in others)
        self._say(f"the coordinator moved from broker {leader} to {self._cluster.leader(topic, partition)}")
        self._set_replicas(topic, partition, (*others, leader))

    def _set_replicas(self, topic: str, partition: int, replicas: tuple[int, ...]) -> None:
        wanted = {TopicPartition(topic, partition): replicas}
        admin = Admin(self._cluster.direct_addresses)
        admin.change(f"the replicas of {topic}-{partition}", changed_replicas(wanted, ADMIN_TIMEOUT_MS))
        self._await(lambda: self._cluster.replicas(topic, partition) == replicas)

    # --- brokers ------------------------------------------------------------------------------------------------------

    def _make_unreachable(self, move: Move, brokers: Collection[int], who: str) -> None:
        begun_s = time.monotonic()
        heal = self._unreachable(move.do, brokers)
        try:
            self._say(f"{who} {'closes connections' if move.do in (Do.CUT, Do.CUT_ALL) else 'is silent'}")
            self._stop.wait(left_s(move.count, time.monotonic() - begun_s))
        finally:
            heal()
        self._say(f"{who} answers again")

    def _lose(self, move: Move) -> None:
        broker = self._broker_of(move.partition)
        if broker is None or self._lost is not None or len(self._cluster.broker_ids) < 3:
            return
        self._let_go, self._lost = self._unreachable(move.do, [broker]), broker
        self._say(f"broker {broker} closes connections for good")
        for topic in self._all_topics:
            self._leave_the_lost(topic, self._topics.partition_count(topic))
        for each in self._coordinators:
            if self._coordinated_by(*each) == broker:
                self._move_coordinator(*each)

    def _strike(self, move: Move) -> None:
        """The process of a broker is killed or stopped, or it is cut off. Where one of three is away for good, a second
        one must not be."""
        if move.do is Do.DIE_ALL:
            struck, who = sorted(self._cluster.broker_ids), "every broker"
        else:
            broker = self._broker_of(move.partition)
            struck, who = ([] if broker is None else [broker]), f"broker {broker}"
        if self._dead or not struck:
            return
        undo, begun, ended = self._put_away(move.do, struck)
        self._say(f"{who} {begun}")
        if move.do is Do.DIE and not move.count:
            self._await(lambda: self._is_served_without(struck[0]))
            self._say(f"others lead what {who} led")
            return
        try:
            self._stop.wait(move.count / 1_000)
        finally:
            undo()
        self._say(f"{who} {ended}")
        for topic in self._all_topics:
            if not self._cluster.wait_healthy(topic, timeout_s=WHOLE_WITHIN_S, replication_factor=BROKERS):
                raise TimeoutError(f"{topic} is not in sync {WHOLE_WITHIN_S:.0f} s after {who} {ended}")
        self._say("all replicas are in sync")

    def _put_away(self, do: Do, struck: Sequence[int]) -> tuple[Callable[[], None], str, str]:
        """What brings them back, and what is told of both."""
        match do:
            case Do.DIE | Do.DIE_ALL:
                for broker in struck:
                    self._cluster.kill(broker)
                    self._dead[broker] = self._refuse(broker)
                return self._revive, "died", "was started again"
            case Do.HANG:
                self._cluster.pause(struck[0])
                return partial(self._cluster.resume, struck[0]), "hangs", "goes on"
            case _:
                others = [each for each in self._cluster.broker_ids if each not in struck]
                links = [
                    f"{kind}-{source}-{target}"
                    for kind in ("internal", "controller")
                    for broker in struck
                    for other in others
                    for source, target in ((broker, other), (other, broker))
                ]
                undo = self._between("timeout", links, {"timeout": 0})
                return undo, "is cut off from the other brokers", "reaches the others again"

    def _revive(self) -> None:
        """A client finds nobody there until the process has begun; then its connections are closed until it listens."""
        while self._dead:
            broker, accept = self._dead.popitem()
            try:
                self._cluster.restart(broker)
            finally:  # the next trial has the same address
                accept()

    def _lag(self, move: Move) -> None:
        broker = self._broker_of(move.partition)
        if broker is None or self._is_lagging:
            return
        self._is_lagging = True
        links = [f"internal-{other}-{broker}" for other in self._cluster.broker_ids if other != broker]
        # No broker is lost to the client where replication can lag, so there is nothing else to let go.
        self._let_go = self._between("latency", links, {"latency": move.count, "jitter": 0})
        self._say(f"replication from broker {broker} lags by {move.count} ms")

    def _is_served_without(self, broker: int) -> bool:
        led = [(topic, part) for topic in self._all_topics for part in range(self._topics.partition_count(topic))]
        away = (None, broker)
        return all(self._cluster.leader(*each) not in away for each in led) and all(
            self._coordinated_by(*each) not in away for each in self._coordinators
        )

    def _leave_the_lost(self, topic: str, partitions: int) -> None:
        """No partition of the topic stays on the broker that is lost."""
        for partition in range(partitions) if self._lost is not None else ():
            if self._cluster.leader(topic, partition) == self._lost:
                self._move_leader(topic, partition)

    def _broker_of(self, partition: int) -> int | None:
        if partition >= 0:
            return self._cluster.leader(*self._of_trial.place(min(partition, len(self._ends) - 1)))
        return self._coordinated_by(*self._coordinators[0]) if self._coordinators else None

    def _coordinated_by(self, topic: str, key: str) -> int | None:
        ask = self._cluster.group_coordinator if topic == GROUPS else self._cluster.transaction_coordinator
        return ask(key)

    def _await(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + MOVED_WITHIN_S
        while not holds():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not within {MOVED_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)


def left_s(lasts_ms: int, placed_s: float) -> float:
    """How long a broker still stays unreachable. The first toxic acts at once, and on a busy host it takes many seconds
    until the last one is placed: a client shall not be told to have waited for what the program does not ask for."""
    return max(0.0, lasts_ms / 1_000 - placed_s)
