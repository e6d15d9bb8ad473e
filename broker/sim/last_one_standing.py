"""The case that KIP-966 is for: the last member of an ISR loses its power, and with it unsynced records.

1. Two brokers shut down cleanly, one after the other, so the leader is alone.
2. The host of the leader loses its power.
3. The leader returns, and so does the broker that stopped first. Neither may lead.
4. The broker that stopped second returns. It holds all that is committed, and it leads at once.

Without KIP-966 the old leader leads with what is left of its log. `faults` decides whether a seed has this schedule.
Such a seed has no other faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.sim.plan import TOPIC

if TYPE_CHECKING:
    from broker.sim.stage import Stage

STEP_LIMIT_US = 2_500_000  # if a step takes longer, the schedule ends
ALONE_US = 100_000  # The last leader runs alone for this long. A producer with acks=1 still gets answers.
WITHOUT_LEADER_US = 400_000  # Neither of the two may lead for this long.


class LastOneStanding:
    def __init__(self, world: Stage) -> None:
        self._world = world
        self._step: Callable[[], bool] = self._first_stops
        self._until_us = world.scheduler.now_us + STEP_LIMIT_US
        self._key = (TOPIC, world.rng.randrange(world.settings.partitions))
        self._last = self._early = self._late = -1  # the brokers that stay alone, stop first and stop second
        self._has_lost = False
        self._wait_until_us = 0
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
        """End the schedule and start the brokers that are down."""
        self.is_over = True
        for node_id in self._world.cluster.node_ids:
            self._world.faults.start_after(node_id, 10_000)

    def _first_stops(self) -> bool:
        world = self._world
        state = world.quorum.image.partition(*self._key)
        if state is None or not world.is_healthy():
            return False
        self._last = state.leader
        self._early, self._late = (each for each in state.replicas if each != state.leader)
        world.cluster.stop(self._early)
        self._step = self._second_stops
        return True

    def _second_stops(self) -> bool:
        state = self._world.quorum.image.partition(*self._key)
        if state is None or self._world.cluster.is_up(self._early) or set(state.isr) != {self._last, self._late}:
            return False
        self._world.cluster.stop(self._late)
        self._step = self._last_is_alone
        return True

    def _last_is_alone(self) -> bool:
        world = self._world
        state = world.quorum.image.partition(*self._key)
        if state is None or world.cluster.is_up(self._late) or not world.cluster.is_up(self._last):
            return False
        if state.isr != (self._last,) or state.elr != (self._late,):
            return False
        world.scheduler.after(ALONE_US, self._lose_power)
        self._step = self._comes_back
        return True

    def _lose_power(self) -> None:
        """The last leader loses everything that it had not synced."""
        world = self._world
        if self.is_over or not world.cluster.is_up(self._last):
            return
        disk = world.cluster.disks[self._last]
        before = disk.lost_changes
        world.has_lost_power = True
        world.cluster.lose_power(self._last, at_risk=1.0)
        self._has_lost = disk.lost_changes > before
        for node_id in (self._last, self._early):
            world.faults.start_after(node_id, 50_000)

    def _comes_back(self) -> bool:
        """Wait until both are registered and unfenced again. Then nobody may lead."""
        world = self._world
        image = world.quorum.image
        for node_id in (self._last, self._early):
            life, registration = world.cluster.lives[node_id], image.brokers.get(node_id)
            if life.is_dead or registration is None or registration.broker_epoch != life.broker_epoch:
                return False
            if registration.fenced:
                return False
        self._wait_until_us = world.scheduler.now_us + WITHOUT_LEADER_US
        self._step = self._nobody_leads
        return True

    def _nobody_leads(self) -> bool:
        world = self._world
        if world.scheduler.now_us < self._wait_until_us:
            return False
        world.faults.start_after(self._late, 10_000)
        self._step = self._the_late_one_leads
        return True

    def _the_late_one_leads(self) -> bool:
        state = self._world.quorum.image.partition(*self._key)
        if state is None or state.leader != self._late:
            return False
        if self._has_lost:
            self._world.coverage.reached("last one standing lost its power")
        self.end()
        return True
