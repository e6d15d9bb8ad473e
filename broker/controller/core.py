"""The controller core of one node: active while its node leads the quorum. The API is in `broker.controller`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from broker.controller.image import MetadataImage
from broker.controller.types import ControllerAction, ControllerEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    node_id: int
    broker_session_timeout_ms: int = 9000  # broker.session.timeout.ms
    num_partitions: int = 1  # num.partitions
    default_replication_factor: int = 1  # default.replication.factor
    min_insync_replicas: int = 1  # min.insync.replicas
    unclean_leader_election_enable: bool = False  # unclean.leader.election.enable of the broker; topics may override


class Controller:
    def __init__(self, *, config: ControllerConfig, rng: random.Random) -> None:
        raise NotImplementedError

    def handle(self, event: ControllerEvent, now_ms: int) -> list[ControllerAction]:
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        raise NotImplementedError

    def check_invariants(self) -> None:
        raise NotImplementedError

    @property
    def image(self) -> MetadataImage:
        """The committed image."""
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        raise NotImplementedError
