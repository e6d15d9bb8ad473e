"""The requests of one voter to the others: at most one in flight to each."""

from __future__ import annotations

from dataclasses import dataclass

from broker.quorum.config import QuorumConfig
from broker.quorum.types import FetchRequest, Request, Send


@dataclass(slots=True)
class Channel:
    """The state of the requests to one voter."""

    correlation_id: int | None = None
    deadline_ms: int = 0
    not_before_ms: int = 0

    def close(self, not_before_ms: int) -> None:
        """The request is answered, or no answer will come."""
        self.correlation_id = None
        self.not_before_ms = not_before_ms


class Channels:
    def __init__(self, config: QuorumConfig, peers: tuple[int, ...]) -> None:
        self._config, self._peers = config, peers
        self._last_correlation_id = 0
        self.by_peer: dict[int, Channel] = {}

    def reset(self) -> None:
        """Called at each change of role. Late answers to earlier requests are then not recognised."""
        self.by_peer = {peer_id: Channel() for peer_id in self._peers}

    def send(self, peer_id: int, request: Request, now_ms: int) -> Send:
        channel = self.by_peer[peer_id]
        assert channel.correlation_id is None, "one request in flight to a peer"
        self._last_correlation_id += 1
        channel.correlation_id = self._last_correlation_id
        # The leader may hold a Fetch for this long before it answers.
        wait_ms = request.max_wait_ms if isinstance(request, FetchRequest) else 0
        channel.deadline_ms = now_ms + self._config.request_timeout_ms + wait_ms
        return Send(peer_id=peer_id, correlation_id=channel.correlation_id, request=request)

    def ended(self, peer_id: int, correlation_id: int, now_ms: int) -> Channel | None:
        """The channel of this request, which is free again. None if the request is from an earlier role, or
        timed out."""
        channel = self.by_peer.get(peer_id)
        if channel is None or channel.correlation_id != correlation_id:
            return None
        channel.close(now_ms + self._config.retry_backoff_ms)
        return channel

    def expire(self, now_ms: int) -> None:
        for channel in self.by_peer.values():
            if channel.correlation_id is not None and channel.deadline_ms <= now_ms:
                channel.close(now_ms + self._config.retry_backoff_ms)
