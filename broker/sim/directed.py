"""Faults that would almost never occur by chance: schedules of several steps. Each step waits for the state that it
needs.

Owns what is done and when. `faults` decides whether a seed has one of these schedules. Correct code passes all of them.
Only code that breaks a rule of Kafka causes a violation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.controller.reassignment_types import AlterPartitionReassignments, WantedReplicas
from broker.controller.setting_types import AlterConfigs, ConfigChange
from broker.controller.types import ElectLeaders
from broker.sim.cluster import Life, host_of
from broker.sim.plan import TOPIC

if TYPE_CHECKING:
    from broker.quorum.core import Quorum
    from broker.sim.stage import Stage

BEGIN_ATTEMPTS_MAX = 4
DRAIN_ATTEMPTS_MAX = 20
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
STEP_LIMIT_US = 1_600_000  # if a step takes longer, the schedule ends, because other faults came in between


def alter_setting(life: Life, changes: dict[str, str | None], *, topic: str = TOPIC, broker: int | None = None) -> bool:
    """Change settings of a topic or of a broker like IncrementalAlterConfigs, if this node is the active controller.

    A new min.insync.replicas makes partitions forget their eligible leader replicas. Then a partition without a leader
    gets one only by an unclean election, as in Apache Kafka. So this change is left out while there is such a
    partition.
    """
    metadata = None if life.broker is None or life.is_dead else life.broker.metadata
    if metadata is None or not metadata.controller.is_active:
        return False
    kind, name = (TOPIC_RESOURCE, topic) if broker is None else (BROKER_RESOURCE, str(broker))
    change = ConfigChange(resource_type=kind, resource_name=name, changes=changes)

    def alter() -> None:
        decided = metadata.controller.decided_image.topics.get(topic)
        if "min.insync.replicas" in changes and decided and any(each.leader < 0 for each in decided.partitions):
            return
        metadata.controller_request(lambda token: AlterConfigs(token=token, resources=(change,)), lambda response: None)

    life.loop.run_callback(alter)
    return True


def prefer_leaders(life: Life) -> bool:
    """Like ElectLeaders for all partitions, if this node is the active controller."""
    metadata = None if life.broker is None or life.is_dead else life.broker.metadata
    if metadata is None or not metadata.controller.is_active:
        return False

    def elect() -> None:
        metadata.controller_request(
            lambda token: ElectLeaders(token=token, unclean=False, partitions=None), lambda response: None
        )

    life.loop.run_callback(elect)
    return True


def reassign(life: Life, wanted: WantedReplicas) -> bool:
    """Like AlterPartitionReassignments, if this node is the active controller."""
    metadata = None if life.broker is None or life.is_dead else life.broker.metadata
    if metadata is None or not metadata.controller.is_active:
        return False

    def alter() -> None:
        metadata.controller_request(
            lambda token: AlterPartitionReassignments(token=token, partitions=(wanted,)), lambda response: None
        )

    life.loop.run_callback(alter)
    return True


def quorum_of(life: Life | None) -> Quorum | None:
    return None if life is None or life.is_dead or life.broker is None else life.broker.metadata.quorum


class CrashAfterVote:
    """A voter dies right after it gave its vote. Then a second candidate asks it for its vote in the same epoch.

    The first candidate is cut off from the other voters before they learn its epoch, so one of them becomes a candidate
    in the same epoch. If the voter has lost its vote, it votes twice. This happens if the vote was not written, or was
    written and not synced when the power failed.
    """

    def __init__(self, world: Stage) -> None:
        self._world = world
        self._candidate = -1
        self._is_over = False

    def begin(self) -> None:
        """Cause an election: the controller dies and soon returns, and may become a candidate again."""
        cluster = self._world.cluster
        for life in cluster.up():
            quorum = quorum_of(life)
            if quorum is not None and quorum.is_leader:
                cluster.kill(life.node_id)
                self._world.faults.start_after(life.node_id, 250_000)

    def vote_given(self, voter: int, candidate: int) -> None:
        if self._is_over:
            return
        if voter == candidate:
            self._candidate_stands(candidate)
        elif candidate == self._candidate:
            self._is_over = True
            self._crash(voter)

    def _candidate_stands(self, candidate: int) -> None:
        """Cut the candidate off, so that only one other voter gets its request."""
        network, cluster = self._world.network, self._world.cluster
        others = [life.node_id for life in cluster.up() if life.node_id != candidate]
        if self._candidate >= 0 or len(others) < 2:
            return
        self._candidate = candidate
        for deaf in others[1:]:
            network.break_connections(host_of(candidate), host_of(deaf))
            self._world.faults.links.cut_both_ways(candidate, deaf, 1_200_000)

    def _crash(self, voter: int) -> None:
        world = self._world
        if not world.cluster.is_up(voter):
            return
        world.faults.links.cut_both_ways(voter, self._candidate, 1_000_000)
        if world.settings.can_lose_power_unsynced:
            world.cluster.kill(voter)
        else:
            world.cluster.lose_power(voter)
        world.coverage.reached("voter died after its vote")
        world.faults.start_after(voter, 20_000)


class FetchOfAnEarlierLife:
    """A host loses its power, and its follower loses records that its leader believed it to have. Then a fetch arrives
    that it sent before.

    By then the follower has restarted and registered again, and is not in the ISR. Nothing was written meanwhile. So
    judged by its offset, the old fetch would bring the follower into the ISR. Only the broker epoch shows that it is
    from an earlier process (KIP-903).
    """

    def __init__(self, world: Stage) -> None:
        self._world = world
        self._key = (TOPIC, world.rng.randrange(world.settings.partitions))
        self._leader = self._follower = self._old_epoch = -1
        self._attempts = 0
        self.is_over = False

    def begin(self) -> None:
        world = self._world
        if self.is_over:
            return
        state = world.quorum.image.partition(*self._key)
        controllers = [life.node_id for life in world.cluster.up() if leads_quorum(life)]
        free = [] if state is None else [each for each in state.isr if each not in (state.leader, *controllers)]
        if state is None or not world.is_healthy() or controllers in ([], [state.leader]) or not free:
            self._try_again(controllers)
            return
        self._leader = state.leader
        self._follower = world.rng.choice(free)
        self._old_epoch = world.cluster.lives[self._follower].broker_epoch
        for producer in world.producers:
            producer.may_produce = False
        world.scheduler.after(150_000, self._hold)

    def _try_again(self, controllers: list[int]) -> None:
        """Move the controller and try again. Neither leader nor follower may be the controller. The follower must
        register with it in between. If the follower were the controller, the leader would be cut off from it and
        fenced. Then the follower would be alone in the ISR, without the records that it lost."""
        world = self._world
        self._attempts += 1
        if self._attempts == BEGIN_ATTEMPTS_MAX:
            self.end()
            return
        if controllers and world.is_healthy():
            world.cluster.kill(controllers[0])
            world.faults.start_after(controllers[0], 20_000)
        world.scheduler.after(700_000, self.begin)

    def _hold(self) -> None:
        """Hold the follower's next fetch on the network. The fetch that now waits at the leader is answered within
        replica.fetch.wait.max.ms."""
        world = self._world
        if not all(producer.is_drained for producer in world.producers):
            self._attempts += 1
            world.scheduler.after(100_000, self._hold if self._attempts < DRAIN_ATTEMPTS_MAX else self.end)
            return
        world.network.stall(host_of(self._follower), host_of(self._leader), 4_000_000)
        world.scheduler.after(230_000, self._power_off)

    def _power_off(self) -> None:
        world = self._world
        if not world.is_healthy():
            self.end()
            return
        world.has_lost_power = True
        world.cluster.lose_power(self._follower, at_risk=1.0)
        world.network.cut(host_of(self._leader), host_of(self._follower))  # otherwise the follower would catch up first
        world.faults.start_after(self._follower, 20_000)
        world.scheduler.after(3_000_000, self.end)

    def look(self) -> None:
        """When the leader knows that the follower is unfenced in its new life, let the old fetch arrive."""
        life = self._world.cluster.lives.get(self._leader)
        if self.is_over or life is None or life.broker is None:
            return
        image = life.broker.metadata.image
        state, registration = image.partition(*self._key), image.brokers.get(self._follower)
        if state is None or registration is None or self._follower in state.isr:
            return
        if registration.may_lead and registration.broker_epoch > self._old_epoch:
            self._leader, leader = -1, self._leader
            self._world.network.release(host_of(self._follower), host_of(leader))
            self._world.scheduler.after(60_000, self.end)

    def end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        for producer in self._world.producers:
            producer.may_produce = True
        self._world.network.heal_all()


def leads_quorum(life: Life) -> bool:
    quorum = quorum_of(life)
    return quorum is not None and quorum.is_leader


class FigureEight:
    """The schedule of figure 8 of the Raft paper, on the metadata quorum of three voters.

    1. The first leader writes an entry that no other voter gets.
    2. A second voter is elected, and is cut off as soon as it leads.
    3. The first voter leads again and sends its old entry to the third voter. A majority now holds the entry. It must
       not be committed, because the second leader's log ends in a newer epoch. So that voter can still win and remove
       the entry.
    4. The second voter returns, wins and removes the entry.
    """

    def __init__(self, world: Stage) -> None:
        self._world = world
        self._step: Callable[[], bool] = self._begin
        self._until_us = world.scheduler.now_us + STEP_LIMIT_US
        self._first = self._second = self._third = -1
        self._log_end = 0  # log end of the first leader before the entry that only it has
        self._epoch = 0
        self.is_over = False

    def look(self) -> None:
        """Do the next step if its state is reached. Called after every event of a broker while the schedule runs."""
        if self.is_over:
            return
        if self._world.scheduler.now_us > self._until_us:
            self.end()
        elif self._step():
            self._until_us = self._world.scheduler.now_us + STEP_LIMIT_US

    def end(self) -> None:
        self.is_over = True
        nodes = self._world.cluster.node_ids
        for one in nodes:
            for other in nodes:
                if one != other:
                    self._world.network.heal(host_of(one), host_of(other))

    def _quorum(self, node_id: int) -> Quorum | None:
        return quorum_of(self._world.cluster.lives.get(node_id))

    def _cut(self, one: int, other: int) -> None:
        self._world.network.break_connections(host_of(one), host_of(other))
        self._world.network.cut(host_of(one), host_of(other))
        self._world.network.cut(host_of(other), host_of(one))

    def _heal(self, one: int, other: int) -> None:
        self._world.network.heal(host_of(one), host_of(other))
        self._world.network.heal(host_of(other), host_of(one))

    def _begin(self) -> bool:
        for life in self._world.cluster.up():
            quorum = quorum_of(life)
            if quorum is not None and quorum.is_leader and quorum.high_watermark == quorum.log_end_offset:
                self._first, self._log_end, self._epoch = life.node_id, quorum.log_end_offset, quorum.epoch
                for other in self._world.cluster.node_ids:
                    if other != self._first:
                        self._cut(self._first, other)
                self._step = self._write_alone
                return True
        return False

    def _write_alone(self) -> bool:
        life = self._world.cluster.lives[self._first]
        self._step = self._second_leads
        alter_setting(life, {"min.insync.replicas": "1"})
        return True

    def _second_leads(self) -> bool:
        for node_id in self._world.cluster.node_ids:
            quorum = self._quorum(node_id)
            if node_id != self._first and quorum is not None and quorum.is_leader and quorum.epoch > self._epoch:
                (self._third,) = set(self._world.cluster.node_ids) - {self._first, node_id}
                self._second = node_id
                self._cut(self._second, self._third)
                self._heal(self._first, self._third)
                self._step = self._old_entry_is_held_by_two
                return True
        return False

    def _old_entry_is_held_by_two(self) -> bool:
        first, third = self._quorum(self._first), self._quorum(self._third)
        if first is None or third is None or not first.is_leader or third.last_entry is None:
            return False
        if third.log_end_offset <= self._log_end or third.last_entry.epoch >= first.epoch:
            return False
        # The third voter's next fetch still arrives and shows that it holds the old entry. The answer does not arrive.
        self._world.network.cut(host_of(self._first), host_of(self._third))
        self._world.coverage.reached("old entry on a majority")
        self._step = self._nothing_more
        self._world.scheduler.after(30_000, self._second_returns)
        return True

    def _second_returns(self) -> None:
        if not self.is_over:
            self._cut(self._first, self._third)
            self._heal(self._second, self._third)

    def _nothing_more(self) -> bool:
        return False
