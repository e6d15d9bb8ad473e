"""One real broker of a given size in the simulated loop, with an authorizer.

It has `topics` topics, the first of them with `size` partitions, a consumer group and a share group with `size` members
each, two groups with `size` committed offsets, and an access control list for every other name. Requests go to its
dispatcher, so their names stay countable (tests/work.py). Requests for it are drawn by sized_requests.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from broker.node.net.principal import Principal
from broker.node.net.requests import Request
from broker.node.settings.config import NodeConfig, changed
from broker.sim.cluster import Cluster
from broker.sim.coverage import Coverage
from broker.sim.network import Network
from broker.sim.plan import Settings
from broker.sim.scheduler import Scheduler
from broker.wire.apis import APIS, ApiKey, Listener
from broker.wire.codec import RequestHeader, decode_response
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import request
from tests.work import Work

ADMIN: Final = Principal("User", "admin")  # a super user
HALF: Final = Principal("User", "half")  # may do everything with every other topic and group
ANSWER_US: Final = 500_000  # virtual; a long poll has no answer by then
NEVER_MS: Final = 10**9
EVENTS_MAX: Final = 200_000
CREATED_AT_ONCE: Final = 500
SUBSCRIBED: Final = 8  # topics of a member
SETTINGS: Final = Settings(
    seed=1,
    brokers=1,
    partitions=1,
    replication_factor=1,
    min_insync_replicas=1,
    segment_bytes=1 << 20,
    flush_messages=None,
    unclean=False,
    producers=0,
    record_gap_us=1,
    faults=0,
    share_members=1,
)


class _Cluster(Cluster):
    def _config(self, node_id: int) -> NodeConfig:
        return changed(
            super()._config(node_id),
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users=f"{ADMIN};User:ANONYMOUS",
            group_initial_rebalance_delay_ms=0,
            group_consumer_session_timeout_ms=60_000,
            group_share_session_timeout_ms=60_000,
            group_share_max_size=1_000,
            # Nothing else is to happen meanwhile.
            replica_high_watermark_checkpoint_interval_ms=NEVER_MS,
            log_initial_task_delay_ms=NEVER_MS,
            log_retention_check_interval_ms=NEVER_MS,
            log_flush_start_offset_checkpoint_interval_ms=NEVER_MS,
        )


class _Origin:
    """A connection that keeps what goes out."""

    def __init__(self, principal: Principal, listener: Listener) -> None:
        self.listener, self.listener_name, self.is_closed = listener, listener.name, False
        self.peer_host, self.principal, self.is_peer = "/10.0.0.1", principal, False
        self.failed: list[str] = []
        self.is_answered = False

    def answer_ready(self, size_bytes: int) -> None:
        self.is_answered = True

    def await_answer(self, request: object) -> None:
        pass

    def request_failed(self, api_key: int, cause: str) -> None:
        self.failed.append(cause)

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_over(self) -> bool:
        return self.is_answered or self.is_closed or bool(self.failed)


class SizedBroker:
    """Use it within `virtual_clocks`, one at a time."""

    def __init__(self, size: int, *, topics: int | None = None) -> None:
        self.size, self.topics = size, topics or size
        self.topic_ids: list[UUID] = []
        self.scheduler = Scheduler()
        network = Network(scheduler=self.scheduler, rng=random.Random(1))
        self.cluster = _Cluster(
            settings=SETTINGS,
            scheduler=self.scheduler,
            network=network,
            coverage=Coverage(),
            rng=random.Random(2),
            on_event=lambda life: None,
            on_defect=lambda cause: None,
            on_power_loss=lambda: None,
        )
        self.cluster.start(1)
        self._life = self.cluster.lives[1]
        self.advance(2_000_000)
        self._fill()

    def advance(self, delay_us: int, is_done: Callable[[], bool] = lambda: False) -> None:
        self.scheduler.run(until_us=self.scheduler.now_us + delay_us, is_done=is_done, events_max=EVENTS_MAX)

    def dispose(self) -> None:
        self.cluster.dispose()

    # -- requests ----------------------------------------------------------------------------------------------------

    def ask(
        self, key: ApiKey, version: int, message: Any, *, principal: Principal = ADMIN, work: Work | None = None
    ) -> Any:
        """The answer. None if the connection was closed, or if there is none yet."""
        listener = Listener.CLIENT if Listener.CLIENT in APIS[key].listeners else min(APIS[key].listeners, key=str)
        origin = _Origin(principal, listener)
        header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="c", body_position=0)
        asked: Request[Any] = Request(origin, header, message)  # type: ignore[arg-type]
        broker = self._life.broker
        assert broker is not None

        def dispatch() -> None:
            try:
                broker._dispatcher.dispatch(asked)
            except RemoteProtocolError:
                origin.close()

        def run() -> None:
            self._life.loop.run_callback(dispatch)
            if not origin.is_over:
                self.advance(ANSWER_US, lambda: origin.is_over)

        if work is None:
            run()
        else:
            with work:
                run()
        assert not origin.failed, origin.failed
        assert self._life.loop.failure is None, self._life.loop.failure
        buffers = asked.take()
        return None if not buffers else decode_response(key, version, b"".join(map(bytes, buffers))[4:])[1]

    # -- contents ----------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        size = self.size
        for begin in range(0, self.topics, CREATED_AT_ONCE):
            topics = [
                {
                    "name": topic_of(index),
                    "num_partitions": size if index == 0 else 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
                for index in range(begin, min(begin + CREATED_AT_ONCE, self.topics))
            ]
            made = self._ask(ApiKey.CREATE_TOPICS, topics=topics, timeout=30_000, validate_only=False)
            assert {each.error_code for each in made.topics} == {ErrorCode.none}
            self.topic_ids += [each.topic_id for each in made.topics]
        creations = [
            {
                "resource_type": kind,
                "resource_name": name,
                "resource_pattern_type": 3,
                "principal": str(HALF),
                "host": "*",
                "operation": 2,
                "permission_type": 3,
            }
            for kind, name in [
                *((2, topic_of(index)) for index in range(0, self.topics, 2)),
                *((3, f"group-{index}") for index in range(0, size, 2)),
                *((5, f"transaction-{index}") for index in range(0, size, 2)),
                *((3, name) for name in ("classic", "consumer", "share")),
            ]
        ]
        for begin in range(0, len(creations), CREATED_AT_ONCE):
            self._ask(ApiKey.CREATE_ACLS, creations=creations[begin : begin + CREATED_AT_ONCE])
        self._ask(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["classic"])
        self._ask(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["transaction-0"])
        self.advance(3_000_000)
        partitions = [
            {"partition_index": index, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
            for index in range(size)
        ]
        for group_id in ("classic", "group-0"):
            self._ask(
                ApiKey.OFFSET_COMMIT,
                version=9,
                group_id=group_id,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": topic_of(0), "partitions": partitions}],
            )
        for number in range(size):
            self._join(number)
        self.advance(1_000_000)

    def _join(self, number: int) -> None:
        """There are four subscriptions of few topics. An answer that describes the group has those of each member. In
        the share group all have the same: otherwise everybody would read each partition, as in Kafka."""
        step = max(1, self.size // SUBSCRIBED)
        for key, group_id in ((ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer"), (ApiKey.SHARE_GROUP_HEARTBEAT, "share")):
            values: dict[str, Any] = (
                {}
                if key is ApiKey.SHARE_GROUP_HEARTBEAT
                else {
                    "instance_id": None,
                    "rebalance_timeout": 60_000,
                    "subscribed_topic_regex": None,
                    "server_assignor": None,
                    "topic_partitions": [],
                }
            )
            first = number % 4 if key is ApiKey.CONSUMER_GROUP_HEARTBEAT else 0
            self._ask(
                key,
                group_id=group_id,
                member_id=f"member-{number}",
                member_epoch=0,
                rack_id=None,
                subscribed_topic_names=[topic_of(index) for index in range(first, self.size, step)],
                **values,
            )

    def _ask(self, key: ApiKey, *, version: int | None = None, **values: object) -> Any:
        version = APIS[key].max_version if version is None else version
        return self.ask(key, version, request(key, version, **values))


def topic_of(index: int) -> str:
    return f"topic-{index:06}"
