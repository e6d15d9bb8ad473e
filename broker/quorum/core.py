"""The quorum core of one voter (KIP-595, pre-vote of KIP-996). The API is on one screen in `broker.quorum`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from broker.quorum.types import Action, Event, LogEntry, PersistedState


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    node_id: int
    voters: tuple[int, ...]  # ids of controller.quorum.voters; node_id is among them
    election_timeout_ms: int = 1000  # controller.quorum.election.timeout.ms; jitter of up to as much is added
    fetch_timeout_ms: int = 2000  # controller.quorum.fetch.timeout.ms
    request_timeout_ms: int = 2000  # controller.quorum.request.timeout.ms
    retry_backoff_ms: int = 20  # controller.quorum.retry.backoff.ms
    fetch_max_wait_ms: int = 500  # long poll at the leader; kept below fetch_timeout_ms / 2


class Quorum:
    def __init__(
        self,
        *,
        config: QuorumConfig,
        persisted: PersistedState,  # PersistedState() when there is no quorum-state file
        entries: tuple[LogEntry, ...],  # the metadata log on disk, offsets dense from 0
        rng: random.Random,
    ) -> None:
        raise NotImplementedError

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        raise NotImplementedError

    def check_invariants(self) -> None:
        raise NotImplementedError

    @property
    def node_id(self) -> int:
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        """Whom we believe to lead `epoch`, -1 for nobody."""
        raise NotImplementedError

    @property
    def is_leader(self) -> bool:
        raise NotImplementedError

    @property
    def high_watermark(self) -> int:
        raise NotImplementedError

    @property
    def log_end_offset(self) -> int:
        raise NotImplementedError
