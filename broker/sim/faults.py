"""The faults of a seed: which ones, when and for how long. Faults that Kafka does not survive either are left out.

There is one restriction. Without flush.messages=1 an acknowledged record may be only in page caches. Then only one host
may lose its power, and only once. This happens at a moment when all brokers are up and in sync and no other fault is
active. Until all are in sync again, no other fault follows. Otherwise the host could return as the last member of an
ISR, and lead with the records that it still has.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.controller.reassignment_types import WantedReplicas
from broker.sim.cluster import host_of
from broker.sim.coverage import Coverage
from broker.sim.directed import (
    CrashAfterVote,
    FetchOfAnEarlierLife,
    FigureEight,
    alter_setting,
    prefer_leaders,
    reassign,
)
from broker.sim.disk import Failure
from broker.sim.disk_failures import failure_of_partition, failure_of_quorum
from broker.sim.last_one_standing import LastOneStanding
from broker.sim.network_faults import NetworkFaults
from broker.sim.plan import FAULTS_BEGIN_US, FAULTS_END_US, TOPIC, Settings

if TYPE_CHECKING:
    from broker.sim.stage import Stage

_WEIGHTS = {
    "kill": 5,
    "kill all": 1,
    "kill within": 2,
    "power": 3,
    "power within": 3,
    "power all": 1,
    "stop": 2,
    "pause": 3,
    "cut": 4,
    "isolate": 2,
    "isolate leader": 3,
    "stale": 3,
    "break": 3,
    "slow": 2,
    "corrupt": 2,
    "disk": 1,
    "setting": 2,
}
_OF_DISKS = ("disk", "disk", "quorum disk")


class Faults:
    def __init__(self, *, world: Stage, settings: Settings, coverage: Coverage, rng: random.Random) -> None:
        self._world, self._settings, self._coverage, self._rng = world, settings, coverage, rng
        self._scheduler, self._network, self._cluster = world.scheduler, world.network, world.cluster
        self.links = NetworkFaults(world=world, settings=settings, coverage=coverage, rng=rng, later=self._later)
        # A random generator of its own, so that reassignments do not change what else a seed does.
        self._moves = random.Random(f"moves of {settings.seed}")
        self.done: list[str] = []  # what was done, for the report of a failed seed
        self.is_over = False
        self._busy_until_us = 0  # some fault is active until then
        self._is_fragile = False  # a host lost its power, and may not have fetched again what it lost
        # A schedule of several steps. Its seed has no other faults.
        self._schedule: FigureEight | FetchOfAnEarlierLife | LastOneStanding | None = None
        self._crash_after_vote: CrashAfterVote | None = None

    def plan(self) -> None:
        if self._settings.directed == "figure eight":
            self._scheduler.at(FAULTS_BEGIN_US, self._begin_figure_eight)
            return  # other faults would disturb its steps
        if self._settings.directed == "earlier life":
            self._scheduler.at(FAULTS_BEGIN_US + 1_000_000, self._begin_earlier_life)
            return
        if self._settings.directed == "last one standing":
            self._scheduler.at(FAULTS_BEGIN_US, self._begin_last_one_standing)
            return
        if self._settings.directed == "crash after vote":
            self._scheduler.at(FAULTS_BEGIN_US + 300_000, self._begin_crash_after_vote)
        kinds = self._rng.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()), k=self._settings.faults)
        for number, kind in enumerate(kinds):
            self._step(f"fault {number}", self._rng, lambda kind=kind: self._act(kind))  # type: ignore[misc]
        for number in range(self._settings.disk_faults):
            when_us, kind = self._rng.randrange(FAULTS_BEGIN_US, FAULTS_END_US), self._rng.choice(_OF_DISKS)
            self._step_at(when_us, f"disk fault {number}", lambda kind=kind: self._act(kind))  # type: ignore[misc]
        for number in range(self._settings.leader_moves):
            self._step(f"leader move {number}", self._rng, self._prefer)
        for number in range(self._settings.reassignments):
            self._step(f"reassignment {number}", self._moves, self._reassign)

    def _step(self, name: str, rng: random.Random, act: Callable[[], None]) -> None:
        self._step_at(rng.randrange(FAULTS_BEGIN_US, FAULTS_END_US), name, act)

    def _step_at(self, when_us: int, name: str, act: Callable[[], None]) -> None:
        """A step that is left out is drawn all the same, so that the others begin when the seed has them begin."""
        if name not in self._settings.left_out:
            self._scheduler.at(when_us, act)

    def end(self) -> None:
        """Heal everything. From here on the cluster must recover."""
        self.is_over = True
        self._network.heal_all()
        if self._schedule is not None:
            self._schedule.end()
        for life in self._cluster.all_lives:
            if not life.is_dead:
                life.loop.resume()
        for disk in self._cluster.disks.values():
            disk.death, disk.failures = None, []
        for node_id in self._cluster.node_ids:
            self._end_stop(node_id)

    # -- directed ----------------------------------------------------------------------------------------------------

    def _begin_figure_eight(self) -> None:
        self.done.append(f"{self._scheduler.now_us / 1e6:.3f} figure eight")
        self._schedule = FigureEight(self._world)

    def _begin_earlier_life(self) -> None:
        self.done.append(f"{self._scheduler.now_us / 1e6:.3f} fetch of an earlier life")
        schedule = self._schedule = FetchOfAnEarlierLife(self._world)
        schedule.begin()

    def _begin_last_one_standing(self) -> None:
        self.done.append(f"{self._scheduler.now_us / 1e6:.3f} last one standing")
        self._schedule = LastOneStanding(self._world)

    def _begin_crash_after_vote(self) -> None:
        self.done.append(f"{self._scheduler.now_us / 1e6:.3f} crash after vote")
        self._crash_after_vote = CrashAfterVote(self._world)
        self._crash_after_vote.begin()

    def after_event(self) -> None:
        """Let the schedule do its next step. This is an event of its own, because the step changes the network."""
        if self._schedule is not None and not self._schedule.is_over:
            self._scheduler.after(0, self._schedule.look)

    def vote_given(self, voter: int, candidate: int) -> None:
        schedule = self._crash_after_vote
        if schedule is not None and not self.is_over:
            self._scheduler.after(0, lambda: schedule.vote_given(voter, candidate))

    def start_after(self, node_id: int, delay_us: int) -> None:
        self._scheduler.after(delay_us, lambda: self._start(node_id))

    def restart_soon(self, node_id: int) -> None:
        if self.is_over:
            self._scheduler.after(10_000, lambda: self._start(node_id))
        self._later(10_000, 1_500_000, lambda: self._start(node_id))

    # -- single faults -----------------------------------------------------------------------------------------------

    def _act(self, kind: str) -> None:
        self._is_fragile = self._is_fragile and not self._world.is_healthy()
        if self.is_over or self._is_fragile:
            return
        node_id = self._rng.choice(self._cluster.node_ids)
        actions: dict[str, Callable[[int], None]] = {
            "kill": self._kill,
            "kill all": self._kill_all,
            "kill within": self._kill_within,
            "power": self._power,
            "power within": self._power_within,
            "power all": self._power_all,
            "stop": self._stop,
            "pause": self._pause,
            "cut": self.links.cut,
            "isolate": self.links.isolate,
            "isolate leader": self.links.isolate_leader,
            "stale": self._stale,
            "break": self.links.break_connections,
            "slow": self.links.slow,
            "corrupt": self._world.send_corrupt_batch,
            "disk": self._disk,
            "quorum disk": self._quorum_disk,
            "setting": self._setting,
        }
        self.done.append(f"{self._scheduler.now_us / 1e6:.3f} {kind} broker {node_id}")
        self._scheduler.note(f"fault {kind} {node_id}")
        actions[kind](node_id)

    def _later(self, low_us: int, high_us: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self.is_over:
                action()

        delay_us = self._rng.randrange(low_us, high_us)
        self._busy_for(delay_us)
        self._scheduler.after(delay_us, act)

    def _busy_for(self, duration_us: int) -> None:
        self._busy_until_us = max(self._busy_until_us, self._scheduler.now_us + duration_us)

    def _start(self, node_id: int) -> None:
        if not self._cluster.is_up(node_id):
            self._cluster.start(node_id)

    def _kill(self, node_id: int) -> None:
        if self._cluster.is_up(node_id):
            self._cluster.kill(node_id)
            self._coverage.reached("process killed")
            self.restart_soon(node_id)

    def _kill_all(self, _: int) -> None:
        for node_id in self._cluster.node_ids:
            self._kill(node_id)
        self._coverage.reached("all processes killed")

    def _kill_within(self, node_id: int) -> None:
        """Kill the process, perhaps between a write and its sync. What the next life finds is then only in the page
        cache."""
        if self._cluster.is_up(node_id):
            self._busy_for(self._die_within(node_id, of_power=False, may_die=lambda: True))

    def _may_lose_power(self, node_id: int) -> bool:
        if not self._cluster.is_up(node_id):
            return False
        return self._survives_loss_of_power() and not (
            self._settings.can_lose_power_unsynced and self._world.has_lost_power
        )

    def _survives_loss_of_power(self) -> bool:
        """Whether the cluster survives a loss of power now. Always True if it syncs what it acknowledges."""
        if not self._settings.can_lose_power_unsynced:
            return True
        disks = self._cluster.disks.values()
        is_quiet = self._scheduler.now_us >= self._busy_until_us and not any(each.failures for each in disks)
        return is_quiet and self._world.is_healthy()

    def power_lost(self) -> None:
        self._is_fragile = self._settings.can_lose_power_unsynced

    def _power(self, node_id: int) -> None:
        if self._may_lose_power(node_id):
            self._world.has_lost_power = True
            self._cluster.lose_power(node_id)
            self.restart_soon(node_id)

    def _power_all(self, _: int) -> None:
        if self._settings.can_lose_power_unsynced:
            return
        for node_id in self._cluster.node_ids:
            self._power(node_id)

    def _power_within(self, node_id: int) -> None:
        if not self._may_lose_power(node_id):
            return
        self._world.has_lost_power = True
        self._die_within(node_id, of_power=True, may_die=self._survives_loss_of_power)

    def _die_within(self, node_id: int, *, of_power: bool, may_die: Callable[[], bool]) -> int:
        """Let the process die at a later disk operation. Returns for how long (us) this may happen."""
        self._cluster.die_within(node_id, self._rng.randrange(1, 25), of_power=of_power, may_die=may_die)
        duration_us = self._rng.randrange(300_000, 1_500_000)
        self._scheduler.after(duration_us, lambda: self._end_die_within(node_id))
        return duration_us

    def _end_die_within(self, node_id: int) -> None:
        """Perhaps there was no operation at which the process could die. Then it no longer waits for one."""
        if not self.is_over:
            self._cluster.disks[node_id].death = None
            self._start(node_id)

    def _stop(self, node_id: int) -> None:
        if self._cluster.is_up(node_id):
            self._cluster.stop(node_id)
            self._later(300_000, 1_500_000, lambda: self._end_stop(node_id))

    def _end_stop(self, node_id: int) -> None:
        if self._cluster.is_up(node_id) and self._cluster.lives[node_id].is_stopping:
            self._cluster.kill(node_id)
        self._start(node_id)

    def _pause(self, node_id: int) -> None:
        if self._cluster.is_up(node_id):
            loop = self._cluster.lives[node_id].loop
            duration_us = self._rng.randrange(50_000, 1_500_000)
            loop.pause(duration_us)
            self._busy_for(duration_us)
            self._coverage.reached("process paused")

    def _stale(self, node_id: int) -> None:
        """The requests that a broker sends now arrive late, after those of its next life or epoch."""
        here = host_of(node_id)
        duration_us = self._rng.randrange(300_000, 1_600_000)
        self._busy_for(duration_us)
        if self._rng.random() < 0.3:
            client = self._rng.choice(self._world.client_hosts)
            self._network.stall(client, here, duration_us)
            return
        held = sum(
            self._network.stall(here, host_of(each), duration_us) for each in self._cluster.node_ids if each != node_id
        )
        if held:
            self._coverage.reached("requests delayed on their connection")
        what_next = self._rng.choice(("restart", "restart", "restart", "isolate", "nothing"))
        after_us = self._rng.randrange(60_000, 260_000)
        if what_next == "restart":
            self._later(after_us, after_us + 1, lambda: self._quick_restart(node_id))
        elif what_next == "isolate":
            self._later(after_us, after_us + 1, lambda: self.links.isolate_from(node_id, False, True, 1_200_000))

    def _quick_restart(self, node_id: int) -> None:
        """Restart a broker within its session, with a loss of power if that is allowed. Some of the records that it had
        fetched are then lost."""
        if self._may_lose_power(node_id):
            self._world.has_lost_power = True
            self._cluster.lose_power(node_id)
        elif self._cluster.is_up(node_id):
            self._cluster.kill(node_id)
            self._coverage.reached("process killed")
        # The fetches of its new life are delayed too, so the leader knows only those of the old life.
        for leader in self._cluster.node_ids:
            if leader != node_id and self._rng.random() < 0.5:
                self._network.cut(host_of(leader), host_of(node_id))
                self._later(300_000, 900_000, lambda leader=leader: self.links.heal(leader, node_id))  # type: ignore[misc]
        self.start_after(node_id, self._rng.randrange(10_000, 60_000))

    def _prefer(self) -> None:
        if not self.is_over and any(prefer_leaders(life) for life in self._cluster.up()):
            self.done.append(f"{self._scheduler.now_us / 1e6:.3f} preferred leaders")
            self._coverage.reached("preferred leaders asked for")

    def _reassign(self) -> None:
        """Reassign a partition to other replicas, at least two, or cancel its reassignment."""
        partition = self._moves.randrange(self._settings.partitions)
        is_back = self._moves.random() < 0.25
        count = self._moves.randint(2, min(len(self._cluster.node_ids), self._settings.replication_factor + 1))
        target = tuple(self._moves.sample(self._cluster.node_ids, count))
        self._is_fragile = self._is_fragile and not self._world.is_healthy()
        if self.is_over or self._is_fragile:
            return
        wanted = WantedReplicas(topic=TOPIC, partition=partition, replicas=None if is_back else target)
        if any(reassign(life, wanted) for life in self._cluster.up()):
            self.done.append(f"{self._scheduler.now_us / 1e6:.3f} reassign {partition} {wanted.replicas or 'back'}")

    def _disk(self, node_id: int) -> None:
        self._fail_disk(node_id, failure_of_partition(self._rng))

    def _quorum_disk(self, node_id: int) -> None:
        self._fail_disk(node_id, failure_of_quorum(self._rng))

    def _fail_disk(self, node_id: int, failure: Failure) -> None:
        disk = self._cluster.disks[node_id]
        disk.failures.append(failure)
        if not failure.is_once and self._rng.random() < 0.5:
            self._kill(node_id)  # so the failure hits it at its start
        self._later(300_000, 1_500_000, lambda: self._heal_disk(node_id, failure))

    def _heal_disk(self, node_id: int, failure: Failure) -> None:
        failures = self._cluster.disks[node_id].failures
        failures[:] = [each for each in failures if each is not failure]
        life = self._cluster.lives.get(node_id)
        if life is not None and life.broker is not None and not life.is_dead and life.broker.partitions.offline():
            self._cluster.kill(node_id)  # as in Kafka, an offline partition returns with a restart
            self.restart_soon(node_id)

    def _setting(self, _: int) -> None:
        """Change a setting like IncrementalAlterConfigs, on the node that is the active controller."""
        if self._rng.random() < 0.7 or not self._settings.unclean:
            changes: dict[str, str | None] = {"min.insync.replicas": str(self._rng.choice((1, 2)))}
        else:
            changes = {"unclean.leader.election.enable": self._rng.choice(("true", "false"))}
        for life in self._cluster.up():
            if alter_setting(life, changes):
                self._coverage.reached("setting changed at run time")
                return
