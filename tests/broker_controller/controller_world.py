"""A controller with a quorum of one made of nothing: every write commits at once, or when the test says so."""

from __future__ import annotations

import random
from typing import TypeVar
from uuid import UUID

from broker.controller.core import Controller, ControllerConfig
from broker.controller.image import PartitionState
from broker.controller.records import Endpoint, replica_directory
from broker.controller.topic_types import CreatedTopic, CreateTopics, CreateTopicsResponse, NewTopic
from broker.controller.types import (
    AlteredPartition,
    AlterPartition,
    AlterPartitionResponse,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    ControllerAction,
    ControllerEvent,
    ControllerRequest,
    ImagePublished,
    IsrChange,
    LeadershipGained,
    LeadershipLost,
    MetadataCommitted,
    RegisterBroker,
    RegisterBrokerResponse,
    Respond,
    Tick,
    WriteMetadata,
)
from broker.quorum.types import LogEntry

SESSION_MS = 1000
Answer = TypeVar("Answer")


class ControllerWorld:
    def __init__(self, *, log: list[LogEntry] | None = None, auto_commit: bool = True, **config: object) -> None:
        settings: dict[str, object] = {"node_id": 1, "broker_session_timeout_ms": SESSION_MS, **config}
        self.controller = Controller(config=ControllerConfig(**settings), rng=random.Random(7))  # type: ignore[arg-type]
        self.log: list[LogEntry] = list(log or [])
        self.committed = 0
        self.auto_commit = auto_commit
        self.now_ms = 0
        self.epoch = 0
        self.tokens = 0
        self.answers: dict[int, object] = {}
        self.actions: list[ControllerAction] = []
        self.incarnations = 0
        self.broker_epochs: dict[int, int] = {}

    @property
    def end_offset(self) -> int:
        return self.log[-1].end_offset if self.log else 0

    def handle(self, event: ControllerEvent) -> None:
        for action in self.controller.handle(event, self.now_ms):
            self.actions.append(action)
            match action:
                case WriteMetadata(epoch=epoch, values=values):
                    entry = LogEntry(offset=self.end_offset, epoch=epoch, is_control=False, values=values)
                    self.log.append(entry)
                case Respond(token=token, response=response):
                    assert token not in self.answers, "answered twice"
                    self.answers[token] = response
                case ImagePublished(old=old, new=new):
                    assert old.offset < new.offset
        self.controller.check_invariants()
        if self.auto_commit:
            self.commit()

    def commit(self) -> None:
        entries = tuple(self.log[self.committed :])
        if entries:
            self.committed = len(self.log)
            self.handle(MetadataCommitted(entries=entries))

    def lead(self) -> None:
        self.epoch += 1
        self.handle(LeadershipGained(epoch=self.epoch))
        self.log.append(LogEntry(offset=self.end_offset, epoch=self.epoch, is_control=True, values=(b"",)))
        self.commit()

    def lose(self) -> None:
        self.handle(LeadershipLost(epoch=self.epoch))

    def ask(self, kind: type[Answer], request: ControllerRequest) -> Answer:
        self.handle(request)
        answer = self.answers[request.token]
        assert isinstance(answer, kind)
        return answer

    def token(self) -> int:
        self.tokens += 1
        return self.tokens

    def pass_time(self, duration_ms: int, *, alive: tuple[int, ...] = ()) -> None:
        """Time goes by; the `alive` brokers beat often enough."""
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + SESSION_MS // 4)
            for broker_id in alive:
                self.beat(broker_id)
            self.handle(Tick())

    def register(
        self,
        broker_id: int,
        *,
        incarnation: int | None = None,
        previous: int = -1,
        directories: tuple[UUID | None, ...] = (),
    ) -> RegisterBrokerResponse:
        self.incarnations += 1
        request = RegisterBroker(
            token=self.token(),
            broker_id=broker_id,
            incarnation_id=UUID(int=self.incarnations if incarnation is None else incarnation),
            endpoints=(Endpoint(listener="EXTERNAL", host="127.0.0.1", port=9000 + broker_id),),
            previous_broker_epoch=previous,
            log_directories=directories,
        )
        answer = self.ask(RegisterBrokerResponse, request)
        if answer.error_code == 0:
            self.broker_epochs[broker_id] = answer.broker_epoch
        return answer

    def beat(
        self,
        broker_id: int,
        *,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
        broker_epoch: int | None = None,
        offline: tuple[tuple[str, int], ...] = (),  # (topic, partition) whose storage failed there
        failed: tuple[UUID, ...] = (),  # log directories
        cordoned: tuple[UUID, ...] | None = None,
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeat(
            token=self.token(),
            broker_id=broker_id,
            broker_epoch=self.broker_epochs[broker_id] if broker_epoch is None else broker_epoch,
            current_metadata_offset=self.controller.image.offset if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_directories=frozenset(
                replica_directory(self.controller.image.topics[topic].topic_id, index) for topic, index in offline
            )
            | frozenset(failed),
            cordoned_directories=None if cordoned is None else frozenset(cordoned),
        )
        return self.ask(BrokerHeartbeatResponse, request)

    def join(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            assert self.register(broker_id).error_code == 0
            assert not self.beat(broker_id).is_fenced

    def restart(self, broker_id: int, *, is_clean: bool = False) -> None:
        """A dead broker, already fenced, comes back as a new process. Clean: its last one had shut down in order."""
        previous = self.broker_epochs.get(broker_id, -1) if is_clean else -1
        assert self.register(broker_id, previous=previous).error_code == 0
        assert not self.beat(broker_id).is_fenced

    def shut_down(self, broker_id: int) -> None:
        """It asks for its controlled shutdown until it may go; the others go on."""
        while not self.beat(broker_id, want_shut_down=True).should_shut_down:
            for other in self.controller.image.live_broker_ids():
                if other != broker_id:
                    self.beat(other)

    def kill(self, broker_id: int) -> None:
        """It falls silent until its session is over; the others go on."""
        alive = tuple(other for other in self.controller.image.live_broker_ids() if other != broker_id)
        self.pass_time(SESSION_MS + SESSION_MS // 2, alive=alive)
        assert broker_id not in self.controller.image.live_broker_ids()

    def create(self, name: str = "t", **topic: object) -> CreatedTopic:
        new = NewTopic(name=name, **topic)  # type: ignore[arg-type]
        request = CreateTopics(token=self.token(), topics=(new,))
        return self.ask(CreateTopicsResponse, request).topics[0]

    def partition(self, name: str = "t", partition: int = 0) -> PartitionState:
        state = self.controller.image.partition(name, partition)
        assert state is not None
        return state

    def catch_up_all(self) -> None:
        """Each leader asks to have every live replica in its ISR."""
        image = self.controller.image
        for topic in image.topics.values():
            for partition, state in enumerate(topic.partitions):
                if state.leader == -1:
                    continue
                isr = {replica: -1 for replica in state.replicas if image.brokers[replica].may_lead}
                change = IsrChange(
                    topic_id=topic.topic_id,
                    partition=partition,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    new_isr=isr,
                )
                request = AlterPartition(
                    token=self.token(),
                    broker_id=state.leader,
                    broker_epoch=image.brokers[state.leader].broker_epoch,
                    changes=(change,),
                )
                assert self.ask(AlterPartitionResponse, request).partitions[0].error_code == 0

    def alter_isr(
        self,
        isr: tuple[int, ...],
        *,
        sender: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        broker_epochs: dict[int, int] | None = None,
    ) -> AlteredPartition:
        state = self.partition()
        sender_id = state.leader if sender is None else sender
        epochs = self.broker_epochs | (broker_epochs or {})
        change = IsrChange(
            topic_id=self.controller.image.topics["t"].topic_id,
            partition=0,
            leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=state.partition_epoch if partition_epoch is None else partition_epoch,
            new_isr={replica: epochs.get(replica, -1) for replica in isr},
        )
        request = AlterPartition(
            token=self.token(), broker_id=sender_id, broker_epoch=self.broker_epochs[sender_id], changes=(change,)
        )
        return self.ask(AlterPartitionResponse, request).partitions[0]


def cluster(*broker_ids: int, **config: object) -> ControllerWorld:
    world = ControllerWorld(**config)  # type: ignore[arg-type]
    world.lead()
    world.join(*broker_ids)
    return world
