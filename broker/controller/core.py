"""The controller core of one node. It is active while its node leads the quorum. The API is in `broker.controller`.

Owns the order of things:

- A decision is made on the image with everything written so far.
- An answer is given when the records that it depends on are committed.
- Records that were written but not committed are forgotten when the leadership ends.
"""

from __future__ import annotations

import random
import traceback
from collections import deque
from dataclasses import dataclass, field

from broker.controller.acls import create_acls, delete_acls
from broker.controller.brokers import allocate_producer_ids, fence, heartbeat, register, unregister
from broker.controller.config import ControllerConfig
from broker.controller.configs import alter_configs
from broker.controller.directories import assign_replicas
from broker.controller.directory_types import AssignReplicas
from broker.controller.elections import changes_to_preferred, elect_leaders, leaders_allowed
from broker.controller.feature_types import UpdateFeatures
from broker.controller.features import first_records, update_features
from broker.controller.image import MetadataImage
from broker.controller.outcome import Outcome, refusal
from broker.controller.partitions import alter_partitions
from broker.controller.reassignment_types import AlterPartitionReassignments, UnregisterBroker
from broker.controller.reassignments import alter_reassignments
from broker.controller.record_codec import decode_records, encode_records
from broker.controller.records import MetadataRecord
from broker.controller.replay import replay
from broker.controller.scram import alter_user_scram_credentials
from broker.controller.security_types import AlterUserScramCredentials, CreateAcls, DeleteAcls
from broker.controller.sessions import BrokerSessions
from broker.controller.setting_types import AlterConfigs
from broker.controller.topic_types import CreatePartitions, CreateTopics, DeleteTopics
from broker.controller.topics import create_partitions, create_topics, delete_topics
from broker.controller.types import (
    AllocateProducerIds,
    AlterPartition,
    BrokerHeartbeat,
    ControllerAction,
    ControllerActivated,
    ControllerDeactivated,
    ControllerEvent,
    ControllerRequest,
    ControllerResponse,
    DecisionFailed,
    ElectLeaders,
    ImagePublished,
    LeadershipGained,
    LeadershipLost,
    MetadataCommitted,
    MetadataSnapshot,
    RegisterBroker,
    Respond,
    Tick,
    WriteMetadata,
)
from broker.quorum.types import LogEntry
from broker.wire.errors import ErrorCode

__all__ = ["Controller", "ControllerConfig"]

PENDING_WRITES_MAX = 4096  # written, not committed; a leader that cannot commit resigns long before this limit


@dataclass(slots=True, kw_only=True)
class _PendingWrite:
    offset: int  # Its first record's offset.
    values: tuple[bytes, ...]
    waiting: list[tuple[ControllerRequest, ControllerResponse]] = field(default_factory=list)


class Controller:
    def __init__(self, *, config: ControllerConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._committed = MetadataImage()
        # The image with the pending writes. Without pending writes it equals the committed image.
        self._latest = self._committed
        self._pending: deque[_PendingWrite] = deque()
        self._leading_epoch: int | None = None
        self._active = False
        self._next_offset = 0  # offset of the next write; only the active controller writes, so it knows this
        self._sessions = BrokerSessions(timeout_ms=config.broker_session_timeout_ms)
        self._actions: list[ControllerAction] = []
        self._now_ms = 0
        self._rebalance_at_ms: int | None = None  # None: not active, or auto.leader.rebalance.enable is off

    # -- public -------------------------------------------------------------------------------------------------------

    def handle(self, event: ControllerEvent, now_ms: int) -> list[ControllerAction]:
        self._now_ms = max(self._now_ms, now_ms)
        self._actions = []
        match event:
            case LeadershipGained(epoch=epoch):
                self._leading_epoch = epoch
            case LeadershipLost(epoch=epoch):
                self._deactivate(epoch)
            case MetadataCommitted(entries=entries):
                self._commit(entries)
            case MetadataSnapshot(image=image):
                self._load(image)
            case Tick():
                pass
            case _:
                self._handle_request(event)
        self._fence_silent_brokers()
        self._rebalance_leaders()
        return self._actions

    def next_deadline_ms(self) -> int | None:
        """When the next session ends, or leaders are to be moved back. None while not active, or if nothing is due."""
        if not self._active:
            return None
        deadlines = [self._sessions.expires_at_ms(broker_id) for broker_id in self._latest.live_broker_ids()]
        deadlines.append(self._rebalance_at_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def image(self) -> MetadataImage:
        """The committed image."""
        return self._committed

    @property
    def decided_image(self) -> MetadataImage:
        """The image with everything that was decided, committed or not. The next decision is made on it."""
        return self._latest

    @property
    def is_active(self) -> bool:
        return self._active

    def check_invariants(self) -> None:
        self._committed.check_invariants()
        self._latest.check_invariants()
        assert self._active or not self._pending
        assert not self._active or self._leading_epoch is not None
        assert len(self._pending) <= PENDING_WRITES_MAX
        offset = self._pending[0].offset if self._pending else self._next_offset
        for write in self._pending:
            assert write.offset == offset
            offset += len(write.values)
        assert offset == self._next_offset
        assert self._pending or self._latest == self._committed
        may_lead = leaders_allowed(self._latest)
        for topic in self._latest.topics.values():
            for index, partition in enumerate(topic.partitions):
                online = partition.leader >= 0
                fenced = [replica for replica in partition.isr if replica not in may_lead]
                assert not online or not fenced, f"{topic.name}: {partition} has {fenced} in its ISR"
                failed = [each for each in partition.isr if self._latest.has_offline(each, topic.topic_id, index)]
                assert not online or not failed, f"{topic.name}-{index}: {failed} of its ISR are offline"

    # -- leadership and commits ---------------------------------------------------------------------------------------

    def _commit(self, entries: tuple[LogEntry, ...]) -> None:
        old = self._committed
        activate_at: int | None = None
        for entry in entries:
            records = () if entry.is_control else decode_records(entry.values)
            self._committed = replay(self._committed, records, offset=entry.end_offset - 1, epoch=entry.epoch)
            if entry.is_control and entry.epoch == self._leading_epoch:
                activate_at = entry.offset
        if not self._active:
            self._latest = self._committed
            self._next_offset = self._committed.offset + 1
        if self._committed is not old:
            self._actions.append(ImagePublished(old=old, new=self._committed))
        if self._active:
            self._answer_committed(entries)
        elif activate_at is not None:
            self._activate()

    def _load(self, image: MetadataImage) -> None:
        assert not self._active, "the active controller has everything in its log"
        if image.offset <= self._committed.offset:
            return
        old, self._committed = self._committed, image
        self._latest, self._next_offset = image, image.offset + 1
        self._actions.append(ImagePublished(old=old, new=image))

    def _answer_committed(self, entries: tuple[LogEntry, ...]) -> None:
        for entry in entries:
            write = self._pending.popleft()
            assert write.offset == entry.offset
            assert write.values == entry.values
            self._actions += [Respond(token=request.token, response=response) for request, response in write.waiting]
        if not self._pending:
            self._latest = self._committed

    def _activate(self) -> None:
        """Our LeaderChange entry is committed, and with it everything that earlier leaders committed."""
        assert self._leading_epoch is not None
        self._active = True
        self._sessions.restart(self._latest.brokers, self._now_ms)
        self._actions.append(ControllerActivated(epoch=self._leading_epoch))
        if self._config.auto_leader_rebalance_enable:
            self._rebalance_at_ms = self._now_ms + self._config.leader_imbalance_check_interval_ms
        first = first_records(
            self._latest,
            eligible_level=self._config.eligible_leader_replicas_version,
            share_level=self._config.share_version,
            min_insync_replicas=self._config.min_insync_replicas,
        )
        if first:
            self._write(first)

    def _deactivate(self, epoch: int) -> None:
        if self._leading_epoch != epoch:
            return
        self._leading_epoch = None
        if not self._active:
            return
        self._active = False
        self._rebalance_at_ms = None
        for write in self._pending:
            for request, _ in write.waiting:
                # The next leader may still commit it. The client must look before it repeats the request.
                self._respond(request, refusal(request, ErrorCode.not_controller))
        self._pending.clear()
        self._latest = self._committed
        self._next_offset = self._committed.offset + 1
        self._actions.append(ControllerDeactivated(epoch=epoch))

    # -- requests -----------------------------------------------------------------------------------------------------

    def _handle_request(self, request: ControllerRequest) -> None:
        if not self._active:
            self._respond(request, refusal(request, ErrorCode.not_controller))
            return
        if len(self._pending) >= PENDING_WRITES_MAX:
            self._respond(request, refusal(request, ErrorCode.request_timed_out))
            return
        try:
            outcome = self._decide(request)
            if outcome.records:
                self._write(outcome.records)
        except Exception:  # costs only this request: decisions and writes change nothing before they are complete
            self._actions.append(DecisionFailed(request=type(request).__name__, cause=traceback.format_exc()))
            self._respond(request, refusal(request, ErrorCode.unknown_server_error))
            return
        if self._pending:
            self._pending[-1].waiting.append((request, outcome.response))
        else:
            self._respond(request, outcome.response)

    def _decide(self, request: ControllerRequest) -> Outcome:
        image, unclean = self._latest, self._config.unclean_leader_election_enable
        match request:
            case RegisterBroker():
                return register(
                    image, self._sessions, request, next_offset=self._next_offset, now_ms=self._now_ms, unclean=unclean
                )
            case BrokerHeartbeat():
                return heartbeat(
                    image, self._sessions, request, next_offset=self._next_offset, now_ms=self._now_ms, unclean=unclean
                )
            case CreateTopics():
                return create_topics(image, request, config=self._config, rng=self._rng)
            case DeleteTopics():
                return delete_topics(image, request)
            case AlterPartition():
                return alter_partitions(image, request, unclean=unclean)
            case AssignReplicas():
                return assign_replicas(image, request, unclean=unclean)
            case AllocateProducerIds():
                return allocate_producer_ids(image, request)
            case AlterConfigs():
                return alter_configs(image, request, config=self._config)
            case CreatePartitions():
                return create_partitions(image, request, config=self._config, rng=self._rng)
            case ElectLeaders():
                return elect_leaders(image, request)
            case CreateAcls():
                return create_acls(image, request, rng=self._rng)
            case DeleteAcls():
                return delete_acls(image, request)
            case AlterUserScramCredentials():
                return alter_user_scram_credentials(image, request)
            case AlterPartitionReassignments():
                return alter_reassignments(image, request, unclean=unclean)
            case UnregisterBroker():
                return unregister(image, self._sessions, request, unclean=unclean)
            case UpdateFeatures():
                return update_features(
                    image, request, node_id=self._config.node_id, min_insync_replicas=self._config.min_insync_replicas
                )

    def _respond(self, request: ControllerRequest, response: ControllerResponse) -> None:
        self._actions.append(Respond(token=request.token, response=response))

    def _write(self, records: tuple[MetadataRecord, ...]) -> None:
        assert self._leading_epoch is not None
        values = encode_records(records)
        # Decoded again before it is written. A record that cannot be replayed would end every broker, again at each
        # start.
        written = decode_records(values)
        if written != records:
            raise ValueError(f"metadata records do not survive their encoding: {records!r:.300}")
        offset, next_offset = self._next_offset, self._next_offset + len(values)
        self._latest = replay(self._latest, written, offset=next_offset - 1, epoch=self._leading_epoch)
        self._pending.append(_PendingWrite(offset=offset, values=values))
        self._next_offset = next_offset
        self._actions.append(WriteMetadata(epoch=self._leading_epoch, values=values))

    def _fence_silent_brokers(self) -> None:
        if not self._active:
            return
        for broker_id in self._latest.live_broker_ids():
            if not self._sessions.is_valid(broker_id, self._now_ms):
                broker = self._latest.brokers[broker_id]
                self._write(fence(self._latest, broker, unclean=self._config.unclean_leader_election_enable))

    def _rebalance_leaders(self) -> None:
        """auto.leader.rebalance.enable: at intervals, make the first replica of each partition its leader again."""
        if not self._active or self._rebalance_at_ms is None or self._now_ms < self._rebalance_at_ms:
            return
        self._rebalance_at_ms = self._now_ms + self._config.leader_imbalance_check_interval_ms
        changes = changes_to_preferred(self._latest)
        if changes and len(self._pending) < PENDING_WRITES_MAX:
            self._write(changes)
