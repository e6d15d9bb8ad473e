"""The shell of the metadata quorum and the controller: performs their actions, in order, and runs their timer.

Owns: the two cores of this node, the channels to the other voters and the tokens of unanswered requests. It decides
nothing. Other parts learn about the cluster through `on_image`. The cores have changed their state before their actions
are performed. So if an action fails (most often on the disk), the rest of the list is not performed, nothing more is
handled or answered, and `on_failure` ends the process. The next process begins with the state on disk
(docs/decisions/0008-storage-failures.md).
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from broker.controller.core import Controller
from broker.controller.image import MetadataImage
from broker.controller.types import (
    ControllerAction,
    ControllerActivated,
    ControllerDeactivated,
    ControllerEvent,
    ControllerRequest,
    ControllerResponse,
    DecisionFailed,
    ImagePublished,
    LeadershipGained,
    LeadershipLost,
    MetadataCommitted,
    MetadataSnapshot,
    Respond,
    WriteMetadata,
)
from broker.controller.types import Tick as ControllerTick
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.cluster.core_configs import controller_config, quorum_config, snapshot_config
from broker.node.cluster.failures import QuorumFailedError
from broker.node.cluster.metadata_store import MetadataStore, check_record_format
from broker.node.cluster.snapshots import SnapshotPolicy, image_in, snapshot_of
from broker.node.net.channel import Channel
from broker.node.net.dialling import controller_dialler
from broker.node.process.clock import monotonic_ms as monotonic_ms
from broker.node.process.clock import wall_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.values import Address
from broker.quorum import messages as quorum_messages
from broker.quorum.core import Quorum
from broker.quorum.snapshots import Snapshot
from broker.quorum.types import (
    Action,
    AppendEntries,
    BecameLeader,
    BeginQuorumEpochRequest,
    Committed,
    DropPrefix,
    EndQuorumEpochRequest,
    Event,
    FetchRequest,
    FetchSnapshotRequest,
    InstallSnapshot,
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
    SnapshotTaken,
    Start,
    Tick,
    TruncateEntries,
    VoteRequest,
    WriteSnapshot,
)
from broker.wire.apis import ApiKey
from broker.wire.errors import ProtocolError
from broker.wire.messages import Message

UNANSWERED_REQUESTS_MAX = 10_000

OnImage: TypeAlias = Callable[[MetadataImage, MetadataImage], None]
QuorumAnswer: TypeAlias = Callable[[Message], None]
ControllerAnswer: TypeAlias = Callable[[ControllerResponse], None]

# The API and version of each request to another voter: those that broker.quorum.messages maps.
_API_OF: dict[type, tuple[ApiKey, int]] = {
    VoteRequest: (ApiKey.VOTE, 2),
    BeginQuorumEpochRequest: (ApiKey.BEGIN_QUORUM_EPOCH, 1),
    EndQuorumEpochRequest: (ApiKey.END_QUORUM_EPOCH, 1),
    FetchRequest: (ApiKey.FETCH, 18),
    FetchSnapshotRequest: (ApiKey.FETCH_SNAPSHOT, 1),
}


class MetadataHost:
    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        journal: Journal,
        on_image: OnImage,
        on_failure: Callable[[QuorumFailedError], None],
        rng: random.Random,
        filesystem: FileSystem = LOCAL,
    ) -> None:
        self._config, self._logger, self._journal, self._on_image = config, logger, journal, on_image
        self._on_failure = on_failure
        voters = tuple(sorted(config.quorum.controller_quorum_voters))
        self._store = MetadataStore(
            config.storage.metadata_directory,
            cluster_id=config.own.harness_cluster_id,
            voters=voters,
            filesystem=filesystem,
        )
        stored = self._store.load()
        check_record_format(stored, config.storage.metadata_directory)
        self.quorum = Quorum(
            config=quorum_config(config.quorum),
            persisted=stored.state,
            entries=stored.entries,
            snapshot=stored.snapshot,
            log_start=stored.log_start,
            rng=rng,
        )
        self._snapshots = SnapshotPolicy(snapshot_config(config.quorum))
        self.controller = Controller(config=controller_config(config), rng=rng)
        self._dialler = controller_dialler(config, logger)
        self._channels = {voter: self._channel(voter) for voter in voters if voter != config.node_id}
        self._events: deque[tuple[bool, Event | ControllerEvent]] = deque()  # (is for the quorum, event)
        self._is_running = False
        self._is_stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._next_token = 0
        self._quorum_answers: dict[int, QuorumAnswer] = {}
        self._controller_answers: dict[int, ControllerAnswer] = {}
        self._stored_snapshot = stored.snapshot
        self._stored_end_offset = self.quorum.log_end_offset
        self._snapshot_handle: asyncio.Handle | None = None

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    @property
    def stored_end_offset(self) -> int:
        """The end offset of the metadata log on this node's disk."""
        return self._store.end_offset

    @property
    def leader_id(self) -> int:
        """The active controller as far as this node knows, -1 for none."""
        return self.quorum.leader_id

    @property
    def has_what_was_known(self) -> bool:
        """Whether the image contains everything that the previous process of this node may have acted upon. This is the
        content of its log: by now each entry is committed or was truncated."""
        return self.quorum.high_watermark >= min(self._stored_end_offset, self.quorum.log_end_offset)

    def controller_address(self, node_id: int) -> Address | None:
        """The address at which this broker connects to the controller of a peer: the configured route of this link,
        else the voter's address."""
        return self._config.own.harness_routes_controller.get(
            node_id
        ) or self._config.quorum.controller_quorum_voters.get(node_id)

    # -- requests ----------------------------------------------------------------------------------------------------

    def reconfigure(self, config: NodeConfig) -> None:
        """Takes new certificates. They hold for new connections."""
        self._dialler.reconfigure(config)

    def start(self) -> None:
        if self._stored_snapshot is not None:
            self._post(False, MetadataSnapshot(image=image_in(self._stored_snapshot)))
            self._stored_snapshot = None
        self._post(True, Start())

    def quorum_request(self, message: Message, answer: QuorumAnswer) -> None:
        """A voter's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch or FetchSnapshot. Raises RemoteProtocolError."""
        request = quorum_messages.request_from_kio(message)
        if self._is_stopped or len(self._quorum_answers) >= UNANSWERED_REQUESTS_MAX:
            return  # no answer: the request ends by the peer's own time limit
        token = self._token()
        self._quorum_answers[token] = answer
        self._post(True, RequestReceived(token=token, request=request))

    def controller_request(self, make: Callable[[int], ControllerRequest], answer: ControllerAnswer) -> None:
        """`make(token)` builds the event; `answer` is called exactly once while the process lives."""
        token = self._token()
        self._controller_answers[token] = answer
        self._post(False, make(token))

    def stop(self) -> None:
        """Tells the voters if this node leads, and stops. Requests that have no answer yet never get one."""
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

    # -- events ------------------------------------------------------------------------------------------------------

    def _token(self) -> int:
        self._next_token += 1
        return self._next_token

    def _channel(self, voter: int) -> Channel:
        return Channel(
            name=f"controller-{self._config.node_id}-{voter}",
            address=lambda: self.controller_address(voter),
            client_id=f"voter-{self._config.node_id}",
            logger=self._logger,
            dialler=self._dialler,
        )

    def _post(self, is_for_quorum: bool, event: Event | ControllerEvent) -> None:
        """Queues the event. Then handles all queued events, unless that is already under way (cores are not
        re-entrant)."""
        if self._is_stopped:
            return
        self._events.append((is_for_quorum, event))
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._events:
                is_for_quorum, event = self._events.popleft()
                self._handle(is_for_quorum, event)
        except Exception as error:  # whatever the error is, the state in memory is ahead of the performed actions
            self._fail(type(event).__name__, error)
            return
        finally:
            self._is_running = False
        self._note_snapshot()
        self._schedule()

    def _fail(self, doing: str, error: Exception) -> None:
        """No other node may learn of a state that is only in memory. So this node answers nothing more, and the process
        ends."""
        self._is_stopped = True
        self._events.clear()
        self._quorum_answers.clear()
        self._controller_answers.clear()
        if self._timer is not None:
            self._timer.cancel()
        cause = f"{type(error).__name__}: {error}"
        self._journal.write("quorum_failed", doing=doing, epoch=self.quorum.epoch, cause=cause)
        failure = QuorumFailedError(f"while it handled {doing} in epoch {self.quorum.epoch}: {cause}")
        failure.__cause__ = error
        self._on_failure(failure)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def _note_snapshot(self) -> None:
        """Takes the snapshot in a later turn of the event loop, so that no answer waits for it."""
        if self._snapshot_handle is None and not self._is_stopped and self._snapshots.is_due(monotonic_ms()):
            self._snapshot_handle = asyncio.get_running_loop().call_soon(self._take_snapshot_if_due)

    def _take_snapshot_if_due(self) -> None:
        """Takes a snapshot of the committed image if no event is being handled. Leader and followers each take their
        own (KIP-630)."""
        self._snapshot_handle = None
        now_ms = monotonic_ms()
        image = self.controller.image
        if self._is_running or self._is_stopped or not self._snapshots.is_due(now_ms):
            return
        try:
            snapshot, drops_prefix = self._make_snapshot(image, now_ms)
        except Exception as error:  # this ends the process too: a snapshot that cannot be made would be tried for ever
            self._fail("a snapshot", error)
            return
        self._post(True, SnapshotTaken(snapshot=snapshot, drops_prefix=drops_prefix))

    def _make_snapshot(self, image: MetadataImage, now_ms: int) -> tuple[Snapshot, bool]:
        epoch = self.quorum.epoch_before(image.offset + 1)
        snapshot = snapshot_of(image, epoch=epoch, last_timestamp_ms=wall_ms())
        drops_prefix = self._snapshots.drops_prefix(self._store.size_bytes, now_ms)
        self._snapshots.taken(now_ms, has_dropped_prefix=drops_prefix)
        facts = {"end_offset": snapshot.snapshot_id.end_offset, "epoch": epoch, "bytes": len(snapshot.data)}
        self._logger.info("metadata_snapshot", **facts, drops_prefix=drops_prefix)
        return snapshot, drops_prefix

    def _handle(self, is_for_quorum: bool, event: Event | ControllerEvent) -> None:
        now_ms = monotonic_ms()
        if is_for_quorum:
            for action in self.quorum.handle(event, now_ms):  # type: ignore[arg-type]  # the flag tells the type
                self._perform_quorum(action)
        else:
            for decision in self.controller.handle(event, now_ms):  # type: ignore[arg-type]
                self._perform_controller(decision)

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = (self.quorum.next_deadline_ms(), self.controller.next_deadline_ms(), self._snapshots.deadline_ms())
        deadlines = [each for each in due if each is not None]
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
        self._note_snapshot()
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
            case WriteSnapshot():
                self._store.write_snapshot(action.snapshot)
            case DropPrefix():
                self._store.drop_prefix(action.start_offset)
            case InstallSnapshot():
                self._store.install_snapshot(action.snapshot)
                snapshot_id = action.snapshot.snapshot_id
                self._journal.write(
                    "metadata_snapshot_installed", end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
                )
                self._events.append((False, MetadataSnapshot(image=image_in(action.snapshot))))
            case Committed():
                size_bytes = sum(entry.size_bytes for entry in action.entries)
                self._snapshots.committed(size_bytes, monotonic_ms())
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
            action.request, receiver_id=action.peer_id, cluster_id=self._config.own.harness_cluster_id
        )
        timeout_ms = self._config.quorum.controller_quorum_request_timeout_ms
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
            self._tell(lambda: answer(quorum_messages.response_to_kio(response)))

    def _tell(self, answer: Callable[[], None]) -> None:
        """If an answer cannot be made, only its request fails: the change that it reports is already on disk."""
        try:
            answer()
        except Exception:
            self._logger.error("handler_failed", api_key="quorum or controller", cause=repr(traceback.format_exc()))

    def _perform_controller(self, action: ControllerAction) -> None:
        match action:
            case WriteMetadata():
                self._events.append((True, Propose(epoch=action.epoch, values=action.values)))
            case Respond():
                answer = self._controller_answers.pop(action.token, None)
                if answer is not None:
                    told, response = answer, action.response
                    self._tell(lambda: told(response))
            case DecisionFailed():
                self._logger.error("handler_failed", api_key=action.request, cause=repr(action.cause))
            case ImagePublished():
                self._on_image(action.old, action.new)
            case ControllerActivated():
                self._journal.write("controller_elected", controller_epoch=action.epoch)
                self._logger.info("controller_active", epoch=action.epoch)
            case ControllerDeactivated():
                self._logger.info("controller_resigned", epoch=action.epoch)
