"""The part of a seed's world that faults, schedules and stories may use. It is in a file of its own, so that they do
not import the world, which imports them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from broker.sim.clients import SimClient
from broker.sim.cluster import Cluster
from broker.sim.coverage import Coverage
from broker.sim.network import Network
from broker.sim.partition_checker import PartitionChecker
from broker.sim.plan import Settings
from broker.sim.producers import SimProducer
from broker.sim.quorum_checker import QuorumChecker
from broker.sim.scheduler import Scheduler
from broker.sim.share_checker import ShareChecker
from broker.sim.transaction_checker import TransactionChecker


class LinkHand(Protocol):
    """What a schedule of several steps does to links."""

    def cut_both_ways(self, one: int, other: int, duration_us: int) -> None: ...


class Hand(Protocol):
    """What a schedule of several steps does to hosts and links, through the faults of the seed."""

    @property
    def links(self) -> LinkHand: ...
    def start_after(self, node_id: int, delay_us: int) -> None: ...


class Shares(Protocol):
    """The members of a share group."""

    def is_settled(self) -> bool: ...
    def waiting_text(self) -> str: ...
    def end(self) -> None: ...
    @property
    def is_done(self) -> bool: ...


class Load(Protocol):
    """The clients of coordinators."""

    @property
    def is_done(self) -> bool: ...
    @property
    def shares(self) -> Shares: ...


class Stage(Protocol):
    """The world of a seed (world.py)."""

    settings: Settings
    scheduler: Scheduler
    coverage: Coverage
    rng: random.Random
    network: Network
    cluster: Cluster
    partitions: PartitionChecker
    quorum: QuorumChecker
    transactions: TransactionChecker
    shares: ShareChecker
    admin: SimClient
    producers: list[SimProducer]
    client_hosts: list[str]
    has_lost_power: bool
    rotten: set[int]  # hosts whose metadata log has changed while they were down

    @property
    def faults(self) -> Hand: ...
    @property
    def load(self) -> Load: ...
    @property
    def violation(self) -> object | None: ...
    @property
    def bootstrap(self) -> str: ...
    def new_client(self, name: str) -> SimClient: ...
    def fail(self, invariant: str, message: str) -> None: ...
    def is_healthy(self) -> bool: ...
    def run_until(self, until_us: int, is_done: Callable[[], bool]) -> bool: ...
    def send_corrupt_batch(self, node_id: int) -> None: ...
