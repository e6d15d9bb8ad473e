"""Faults of the simulated network: links cut one way or both, hosts isolated, connections broken, links made slow.

Each fault ends by itself after a time that is drawn here. `Faults` decides when a fault begins. Shown by
tests/broker_sim/test_sim_seeds.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.sim.cluster import host_of
from broker.sim.coverage import Coverage
from broker.sim.plan import TOPIC, Settings

if TYPE_CHECKING:
    from broker.sim.stage import Stage


class NetworkFaults:
    def __init__(
        self,
        *,
        world: Stage,
        settings: Settings,
        coverage: Coverage,
        rng: random.Random,
        later: Callable[[int, int, Callable[[], None]], None],
    ) -> None:
        """`later(low_us, high_us, action)` runs the action after a time between these, unless all faults are over
        then."""
        self._world, self._settings, self._coverage, self._rng = world, settings, coverage, rng
        self._network, self._cluster = world.network, world.cluster
        self._later = later

    def _hosts(self) -> list[str]:
        return [*(host_of(each) for each in self._cluster.node_ids), *self._world.client_hosts]

    def cut(self, node_id: int) -> None:
        """Cut one link in one direction."""
        here = host_of(node_id)
        there = self._rng.choice([each for each in self._hosts() if each != here])
        source, target = (here, there) if self._rng.random() < 0.5 else (there, here)
        self._network.cut(source, target)
        self._coverage.reached("link cut one way")
        self._later(50_000, 1_500_000, lambda: self._network.heal(source, target))

    def isolate(self, node_id: int) -> None:
        """Isolate a broker from all others, and sometimes from the clients too. If clients still reach it, an old
        leader continues to accept records."""
        with_clients = self._rng.random() < 0.3
        both = self._rng.choice((True, True, False))
        self.isolate_from(node_id, with_clients, both, self._rng.randrange(200_000, 2_000_000))

    def isolate_leader(self, node_id: int) -> None:
        """Isolate a leader for so long that another one leads. Then there are two leaders, and clients reach both."""
        state = self._world.quorum.image.partition(TOPIC, self._rng.randrange(self._settings.partitions))
        leader = node_id if state is None or state.leader < 0 else state.leader
        self.isolate_from(leader, False, True, self._rng.randrange(1_000_000, 2_200_000))

    def isolate_from(self, node_id: int, with_clients: bool, both: bool, duration_us: int) -> None:
        here = host_of(node_id)
        others = [each for each in self._hosts() if each != here and (with_clients or each.startswith("broker"))]

        def heal() -> None:
            for other in others:
                self._network.heal(here, other)
                self._network.heal(other, here)

        for other in others:
            self._network.cut(here, other)
            if both:
                self._network.cut(other, here)
        self._coverage.reached("host isolated")
        self._later(duration_us, duration_us + 1, heal)

    def break_connections(self, node_id: int) -> None:
        here = host_of(node_id)
        broken = sum(self._network.break_connections(here, other) for other in self._hosts() if other != here)
        if broken:
            self._coverage.reached("connections broken")

    def slow(self, node_id: int) -> None:
        here = host_of(node_id)
        slow_us = self._rng.choice((20_000, 100_000))
        links = [self._network.link(here, other) for other in self._hosts() if other != here]
        for link in links:
            link.delay_max_us = slow_us

        def quick_again() -> None:
            for link in links:
                link.delay_max_us = 1_500

        self._later(100_000, 1_000_000, quick_again)

    def cut_both_ways(self, one: int, other: int, duration_us: int) -> None:
        for source, target in ((one, other), (other, one)):
            self._network.cut(host_of(source), host_of(target))
            self._later(duration_us, duration_us + 1, lambda s=source, t=target: self.heal(s, t))  # type: ignore[misc]

    def heal(self, source: int, target: int) -> None:
        self._network.heal(host_of(source), host_of(target))
