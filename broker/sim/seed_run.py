"""Runs one seed and returns its result. Only the result outlives the call."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.client import clock as client_clock
from broker.mutants import Patch
from broker.node.process import clock as node_clock
from broker.node.replicas.hosted import AppendOutcome, HostedPartition
from broker.node.replicas.partitions import Partitions
from broker.sim.costs import requests_charged
from broker.sim.coverage import refusals_counted
from broker.sim.loop import read_ns, read_wall_ns
from broker.sim.plan import Settings, settings_of
from broker.sim.proposals import answers_late, proposals_watched
from broker.sim.share_watch import shares_watched
from broker.sim.tellings import tellings_watched
from broker.sim.world import Violation, World


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
    log: list[str] = field(default_factory=list)  # log of the brokers, only if something was violated


def run_seed(seed: int) -> SeedResult:
    """Run one seed to its end, or to its first violation. Not re-entrant, because it installs virtual clocks."""
    return run(settings_of(seed))


def run(settings: Settings) -> SeedResult:
    """As `run_seed`, with settings that may differ from those that the seed drew."""
    seed = settings.seed
    with virtual_clocks():
        world = World(settings)
        try:
            cluster = world.cluster
            with (
                refusals_counted(world.coverage),
                tellings_watched(world.fail, cluster.lives, cluster.disks),
                _storage_watched(world),
                proposals_watched(world.fail, world.coverage),
                requests_charged(),
                shares_watched(world.shares) if world.settings.share_members else contextlib.nullcontext(),
                answers_late(random.Random(f"answers {seed}"))
                if world.settings.has_late_answers
                else contextlib.nullcontext(),
            ):
                world.run()
            result = _result(world, seed)
        finally:
            world.dispose()
    del world
    # The objects form cycles, and nothing was freed while the garbage collection was off. Without this, thousands of
    # seeds would fill the memory.
    gc.collect()
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
    """Within this context, nodes and clients read the clocks of the simulated processes. No garbage is collected."""
    saved = node_clock.clocks(), client_clock.source()
    node_clock.use_clocks(read_ns, read_wall_ns)
    client_clock.use_clock(read_ns)
    gc_was_enabled = gc.isenabled()
    gc.disable()  # it would end dead coroutines at times that the seed does not decide
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
        lines = (line for logger in world.cluster.loggers.values() for line in logger.lines)
        log = sorted(lines, key=lambda line: (float(line.split(" ", 1)[0]), line))
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
