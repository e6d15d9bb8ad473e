"""The parts of the broker that a handler may use. The broker makes it once. Handlers know nothing else of the
broker."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.controller.types import ControllerRequest
from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.denials import DenialLog
from broker.node.cluster.image_moves import ImageMoves
from broker.node.cluster.metadata import MetadataHost
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.groups import Groups
from broker.node.coordination.producer_ids import ProducerIds
from broker.node.coordination.transactions import Transactions
from broker.node.coordination.verification import TransactionVerifier
from broker.node.net.requests import UnderWay, guarded
from broker.node.process.logs import Logger
from broker.node.replicas.appends import Appends
from broker.node.replicas.cores import Cores
from broker.node.replicas.fetch_sessions import FetchSessions
from broker.node.replicas.log_starts import LogStarts
from broker.node.replicas.partitions import Partitions
from broker.node.settings.config import NodeConfig
from broker.security.authorizer import Authorizer
from broker.wire.errors import ErrorCode

P = TypeVar("P")

# It may write to internal topics, as in Kafka, for repairs by hand.
REPAIRING_CLIENT_ID = "__admin_client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    config: NodeConfig
    config_in_effect: Callable[[], NodeConfig]  # with what was changed at run time
    logger: Logger
    metadata: MetadataHost
    image_moves: ImageMoves
    control: ControllerClient
    partitions: Partitions
    cores: Cores
    appends: Appends
    log_starts: LogStarts
    fetch_sessions: FetchSessions
    authorizer: Authorizer | None  # None: everybody may do everything
    denials: DenialLog | None  # set if there is an authorizer
    groups: Groups
    transactions: Transactions
    # The key is the key type of FindCoordinator. Any: each has its own kind of shard.
    coordinators: Mapping[int, CoordinatorHost[Any]]
    internal_topics: frozenset[str]  # in which coordinators keep their state; clients may read them
    parts: Mapping[type, object]  # what features have opened: see `part`
    producer_ids: ProducerIds
    verifier: TransactionVerifier
    spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]]
    offered: frozenset[int]  # API keys that have a handler

    def part(self, kind: type[P]) -> P:
        """What a feature has opened on this node. Only its own handlers ask."""
        found = self.parts[kind]
        assert isinstance(found, kind)
        return found

    def may_produce(self, topic: str, client_id: str) -> bool:
        """If a client wrote a record to an internal topic, a coordinator might fail to load its partition."""
        return topic not in self.internal_topics or client_id == REPAIRING_CLIENT_ID

    def absent(self, topic: str, index: int) -> ErrorCode:
        """The error for a partition that is not hosted here: it does not exist, other brokers have it, or it is offline
        here (as in Kafka)."""
        if self.metadata.image.partition(topic, index) is None:
            return ErrorCode.unknown_topic_or_partition
        if self.partitions.is_offline(topic, index):
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower

    def serve(self, request: UnderWay, work: Coroutine[object, object, None]) -> None:
        """Answers a request in the background. As in `Dispatcher`, an exception ends only that request. It never ends
        the broker, as an exception of a task of `spawn` does. The peer sees a closed connection, so the outcome is
        unknown."""

        async def served() -> None:
            try:
                await work
            except Exception:
                request.fail(traceback.format_exc())

        self.spawn(served())

    def ask_controller(
        self,
        request: UnderWay,
        make: Callable[[int], ControllerRequest],
        answer: Callable[[Any], None],  # Any: the response type of this request
    ) -> None:
        """Lets the controller of this node decide. An exception of `answer` ends only that request."""
        self.metadata.controller_request(make, guarded(request, answer))
