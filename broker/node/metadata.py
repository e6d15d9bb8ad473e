"""The shell of the metadata quorum and the controller: performs their actions, in order, and runs their timer.

Owns the two cores of this node, the channels to the other voters and the tokens of unanswered requests. Decides
nothing. Other parts hear of the cluster through `on_image`.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from broker.controller.core import Controller, ControllerConfig
from broker.controller.image import MetadataImage
from broker.controller.types import (
    ControllerAction,
    ControllerActivated,
    ControllerDeactivated,
    ControllerEvent,
    ControllerRequest,
    ControllerResponse,
    ImagePublished,
    LeadershipGained,
    LeadershipLost,
    MetadataCommitted,
    Respond,
    WriteMetadata,
)
from broker.controller.types import Tick as ControllerTick
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.channel import Channel
from broker.node.clock import monotonic_ms as monotonic_ms
from broker.node.config import Address, NodeConfig
from broker.node.journal import Journal
from broker.node.logs import Logger
from broker.node.metadata_store import MetadataStore
from broker.node.topic_config import topic_defaults
from broker.quorum import messages as quorum_messages
from broker.quorum.core import Quorum, QuorumConfig
from broker.quorum.types import (
    Action,
    AppendEntries,
    BecameLeader,
    BeginQuorumEpochRequest,
    Committed,
    EndQuorumEpochRequest,
    Event,
    FetchRequest,
    LeaderChanged,
    LostLeadership,
    PersistQuorumState,
    Propose,
    Reply,
    RequestReceived,
    Response,
    ResponseReceived,
    Send,
    SendFailed,
    Shutdown,
    Start,
    Tick,
    TruncateEntries,
    VoteRequest,
)
from broker.wire.apis import ApiKey
from broker.wire.errors import ProtocolError
from broker.wire.messages import Message

# The versions that broker.quorum.messages maps.
_API_OF: dict[type, tuple[ApiKey, int]] = {
    VoteRequest: (ApiKey.VOTE, 2),
    BeginQuorumEpochRequest: (ApiKey.BEGIN_QUORUM_EPOCH, 1),
    EndQuorumEpochRequest: (ApiKey.END_QUORUM_EPOCH, 1),
    FetchRequest: (ApiKey.FETCH, 17),
}
UNANSWERED_REQUESTS_MAX = 10_000

OnImage: TypeAlias = Callable[[MetadataImage, MetadataImage], None]
QuorumAnswer: TypeAlias = Callable[[Message], None]
ControllerAnswer: TypeAlias = Callable[[ControllerResponse], None]


class MetadataHost:
    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        journal: Journal,
        on_image: OnImage,
        rng: random.Random,
        filesystem: FileSystem = LOCAL,
    ) -> None:
        self._config, self._logger, self._journal, self._on_image = config, logger, journal, on_image
        voters = tuple(sorted(config.controller_quorum_voters))
        self._store = MetadataStore(
            config.log_dirs, cluster_id=config.harness_cluster_id, voters=voters, filesystem=filesystem
        )
        persisted, entries = self._store.load()
        fetch_timeout_ms = config.controller_quorum_fetch_timeout_ms
        self.quorum = Quorum(
            config=QuorumConfig(
                node_id=config.node_id,
                voters=voters,
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                fetch_timeout_ms=fetch_timeout_ms,
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
                fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
                fetch_max_wait_ms=min(500, max(1, fetch_timeout_ms * 2 // 5)),
            ),
            persisted=persisted,
            entries=entries,
            rng=rng,
        )
        self.controller = Controller(
            config=ControllerConfig(
                node_id=config.node_id,
                broker_session_timeout_ms=config.broker_session_timeout_ms,
                num_partitions=config.num_partitions,
                default_replication_factor=config.default_replication_factor,
                min_insync_replicas=config.min_insync_replicas,
                unclean_leader_election_enable=config.unclean_leader_election_enable,
                auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
                leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
                topic_defaults=topic_defaults(config),
            ),
            rng=rng,
        )
        self._channels = {voter: self._channel(voter) for voter in voters if voter != config.node_id}
        self._events: deque[tuple[bool, Event | ControllerEvent]] = deque()  # (is for the quorum, event)
        self._is_running = False
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._next_token = 0
        self._quorum_answers: dict[int, QuorumAnswer] = {}
        self._controller_answers: dict[int, ControllerAnswer] = {}

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def leader_id(self) -> int:
        """Whom we believe to be the active controller, -1 for nobody."""
        return self.quorum.leader_id

    def controller_address(self, node_id: int) -> Address | None:
        """Where this broker dials the controller of a peer: the route of the ordered link, else the voter address."""
        return self._config.harness_routes_controller.get(node_id) or self._config.controller_quorum_voters.get(node_id)

    # -- entrances ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._post(True, Start())

    def quorum_request(self, message: Message, answer: QuorumAnswer) -> None:
        """A voter's Vote, BeginQuorumEpoch, EndQuorumEpoch or Fetch of the metadata log. Raises RemoteProtocolError."""
        request = quorum_messages.request_from_kio(message)
        if self._is_stopped or len(self._quorum_answers) >= UNANSWERED_REQUESTS_MAX:
            return  # the peer's own time limit ends it
        token = self._token()
        self._quorum_answers[token] = answer
        self._post(True, RequestReceived(token=token, request=request))

    def controller_request(self, make: Callable[[int], ControllerRequest], answer: ControllerAnswer) -> None:
        """`make(token)` builds the event; `answer` is called exactly once while the process lives."""
        token = self._token()
        self._controller_answers[token] = answer
        self._post(False, make(token))

    def stop(self) -> None:
        """Tell the voters if we lead, and let go of everything. The answers still due never come."""
        if self._is_stopped:
            return
        self._post(True, Shutdown())
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._store.close()

    # -- the engine --------------------------------------------------------------------------------------------------

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def _channel(self, voter: int) -> Channel:
        return Channel(
            name=f"controller-{self._config.node_id}-{voter}",
            address=lambda: self.controller_address(voter),
            client_id=f"voter-{self._config.node_id}",
            logger=self._logger,
        )

    def _post(self, is_for_quorum: bool, event: Event | ControllerEvent) -> None:
        """Queue the event; handle everything queued unless that is under way already (cores are not re-entrant)."""
        if self._is_stopped:
            return
        self._events.append((is_for_quorum, event))
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._events:
                self._handle(*self._events.popleft())
        finally:
            self._is_running = False
        self._schedule()

    def _handle(self, is_for_quorum: bool, event: Event | ControllerEvent) -> None:
        now_ms = monotonic_ms()
        if is_for_quorum:
            for action in self.quorum.handle(event, now_ms):  # type: ignore[arg-type]  # the flag tells
                self._perform_quorum(action)
        else:
            for decision in self.controller.handle(event, now_ms):  # type: ignore[arg-type]
                self._perform_controller(decision)

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadlines = [d for d in (self.quorum.next_deadline_ms(), self.controller.next_deadline_ms()) if d is not None]
        if deadlines and not self._is_stopped:
            delay_ms = max(0, min(deadlines) - monotonic_ms())
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_ms = monotonic_ms()
        quorum_ms, controller_ms = self.quorum.next_deadline_ms(), self.controller.next_deadline_ms()
        if quorum_ms is not None and quorum_ms <= now_ms:
            self._post(True, Tick())
        if controller_ms is not None and controller_ms <= now_ms:
            self._post(False, ControllerTick())
        if self._timer is None:
            self._schedule()

    # -- actions -----------------------------------------------------------------------------------------------------

    def _perform_quorum(self, action: Action) -> None:
        match action:
            case Send():
                self._send(action)
            case Reply():
                self._reply(action.token, action.response)
            case PersistQuorumState():
                self._store.persist_state(action.state)
            case AppendEntries():
                self._store.append(action.entries)
            case TruncateEntries():
                self._store.truncate(action.end_offset)
            case Committed():
                self._events.append((False, MetadataCommitted(entries=action.entries)))
            case BecameLeader():
                self._events.append((False, LeadershipGained(epoch=action.epoch)))
            case LostLeadership():
                self._events.append((False, LeadershipLost(epoch=action.epoch)))
            case LeaderChanged():
                self._logger.info("quorum_leader", leader=action.leader_id, epoch=action.epoch)

    def _send(self, action: Send) -> None:
        api_key, version = _API_OF[type(action.request)]
        message = quorum_messages.request_to_kio(
            action.request, receiver_id=action.peer_id, cluster_id=self._config.harness_cluster_id
        )
        timeout_ms = self._config.controller_quorum_request_timeout_ms
        if isinstance(action.request, FetchRequest):
            timeout_ms += action.request.max_wait_ms

        def answer(response: Message | None) -> None:
            failed = SendFailed(peer_id=action.peer_id, correlation_id=action.correlation_id)
            if response is None:
                self._post(True, failed)
                return
            try:
                known = quorum_messages.response_from_kio(response)
            except (ProtocolError, ValueError) as error:
                self._logger.warning("quorum_answer_refused", peer=action.peer_id, cause=repr(str(error)))
                self._post(True, failed)
                return
            received = ResponseReceived(sender_id=action.peer_id, correlation_id=action.correlation_id, response=known)
            self._post(True, received)

        self._channels[action.peer_id].send(api_key, version, message, timeout_ms=timeout_ms, answer=answer)

    def _reply(self, token: int, response: Response) -> None:
        answer = self._quorum_answers.pop(token, None)
        if answer is not None:
            answer(quorum_messages.response_to_kio(response))

    def _perform_controller(self, action: ControllerAction) -> None:
        match action:
            case WriteMetadata():
                self._events.append((True, Propose(epoch=action.epoch, payload=action.payload)))
            case Respond():
                answer = self._controller_answers.pop(action.token, None)
                if answer is not None:
                    answer(action.response)
            case ImagePublished():
                self._on_image(action.old, action.new)
            case ControllerActivated():
                self._journal.write("controller_elected", controller_epoch=action.epoch)
                self._logger.info("controller_active", epoch=action.epoch)
            case ControllerDeactivated():
                self._logger.info("controller_resigned", epoch=action.epoch)
