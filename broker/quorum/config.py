"""Settings of the quorum, with Kafka's names and defaults. All times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    node_id: int
    voters: tuple[int, ...]  # ids of controller.quorum.voters; node_id is among them
    # controller.quorum.election.timeout.ms; a random time up to the same length is added
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000  # controller.quorum.fetch.timeout.ms
    request_timeout_ms: int = 2000  # controller.quorum.request.timeout.ms
    retry_backoff_ms: int = 20  # controller.quorum.retry.backoff.ms
    fetch_max_bytes: int = 1 << 20  # controller.quorum.fetch.max.bytes; an answer has at least one entry
    fetch_snapshot_max_bytes: int = 1 << 20  # controller.quorum.fetch.snapshot.max.bytes, for one answer
    fetch_max_wait_ms: int = 500  # long poll at the leader; the core keeps it below fetch_timeout_ms / 2

    def __post_init__(self) -> None:
        if self.node_id not in self.voters:
            raise ValueError(f"node.id {self.node_id} is not in controller.quorum.voters {self.voters}")
        if len(set(self.voters)) != len(self.voters):
            raise ValueError(f"controller.quorum.voters {self.voters} names a voter twice")
        if min(self.election_timeout_ms, self.fetch_timeout_ms, self.request_timeout_ms, self.retry_backoff_ms) < 1:
            raise ValueError("quorum timeouts must be at least 1 ms")

    @property
    def check_quorum_timeout_ms(self) -> int:
        """1.5 times fetch_timeout_ms, as in Kafka. A leader waits longer than its followers, so a slow leader does not
        resign too early."""
        return self.fetch_timeout_ms * 3 // 2
