"""The thread of a group member. It talks to the coordinator while the application works between its polls.

Owns: its own connections, the search for the coordinator, and the order of the core's events. core/groups makes the
decisions. `GroupCalls` sends commits and look-ups of committed offsets. The application's thread and this thread share
`submit`, `call`, `take_step` and the lock. Callbacks never run here. Shown by
tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from broker.client import native
from broker.client.clock import now_ms
from broker.client.core.backoff import Backoff
from broker.client.core.errors import (
    AuthenticationError,
    ClosedError,
    KafkaError,
)
from broker.client.core.groups.events import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Action,
    AskTopics,
    CoordinatorGone,
    CoordinatorReady,
    DropCoordinator,
    Event,
    Out,
    Step,
    Tick,
    TopicInfo,
    TopicsKnown,
)
from broker.client.core.groups.protocols import fatal_event, make_core, refused_event
from broker.client.core.metadata import BrokerAddress
from broker.client.group_call import GroupCall
from broker.client.group_calls import GroupCalls
from broker.client.group_requests import (
    API_OF,
    Identity,
    MemberConfig,
    Send,
    membership_event,
    membership_request,
    timeout_ms,
)
from broker.client.network import Answered, Connected, Lost, Network, NetworkEvent
from broker.client.protocol import HIGHEST, metadata_answer, metadata_request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes.find_coordinator import FindCoordinatorResponse
    from broker.wire.shapes.metadata import MetadataResponse

_LOG = logging.getLogger(__name__)
_WAIT_MS_MAX = 1000  # the loop wakes at least this often
_LOOK_MS = 50  # the wait while there is no connection on which to ask for the coordinator


class _Find(NamedTuple):
    pass


class _Topics(NamedTuple):
    topics: frozenset[str]


class _Sent(NamedTuple):
    incarnation: int  # number of the coordinator connection: answers to requests of an earlier number are ignored
    action: Send


class MemberThread:
    """`wake` ends a wait of the application's thread. This thread may call it at any time."""

    def __init__(self, config: MemberConfig, rng: random.Random, wake: Callable[[], None]) -> None:
        self._config = config
        self._random = rng
        self._wake = wake
        self._network = Network(config, rng, now_ms)
        self._lock = native.new_lock()
        self.core = make_core(config, rng)
        self.polled_ms = now_ms()  # the application writes it, this thread reads it
        self.has_step = False
        self.failure: BaseException | None = None
        self.refusal: AuthenticationError | None = None  # this thread writes it, the application's thread takes it
        self._last_identity = Identity(NO_GENERATION, NO_MEMBER_ID)
        self._inbox: deque[Event] = deque()
        self._calls = GroupCalls(
            config,
            rng,
            self._network,
            identity=self.identity,
            on_wrong_coordinator=self._on_wrong_coordinator,
            wake=wake,
        )
        self._questions: list[_Topics] = []
        self._coordinator: int | None = None
        self._is_ready = False
        self._incarnation = 0
        self._is_finding = False
        self._finding = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._left: native.Event | None = None
        self._is_stopping = False
        self._ended = native.start_thread(self._run)

    # -- for the application's thread -----------------------------------------------------------------------------

    def submit(self, event: Event) -> None:
        self._inbox.append(event)
        self._network.wake()

    def call(self, call: GroupCall) -> None:
        if self._ended.is_set():
            raise ClosedError("the consumer is closed")
        self._calls.put(call)
        self._network.wake()

    def take_step(self) -> Step | None:
        """The step to carry out now. Call `submit(StepDone())` when it is done."""
        with self._lock:
            self.has_step = False
            return None if self.core.step() is None else self.core.begin_step()

    def identity(self) -> Identity:
        with self._lock:
            return Identity(self.core.generation, self.core.member_id)

    def last_identity(self) -> Identity:
        """As `identity`, with one difference. If the membership was lost and the application does not know it yet, this
        is the old identity, under which the application still works."""
        with self._lock:
            return self._last_identity

    def leave(self, event: Event, timeout_ms: int) -> None:
        """Tells the coordinator, and waits for its answer at most this long."""
        self._left = left = native.Event()
        self.submit(event)
        left.wait(timeout_ms / 1000)

    def stop(self, timeout_ms: int) -> None:
        self._is_stopping = True
        self._network.wake()
        self._ended.wait(timeout_ms / 1000)

    # -- the loop -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._round()
        except BaseException as error:  # this is the entry of a thread: whatever the error is, nobody may wait for ever
            _LOG.exception("event=member_thread_died group=%s", self._config.group_id)
            self.failure = error
        finally:
            self._calls.fail_all(ClosedError("the consumer was closed before the coordinator answered"))
            self._network.close()
            if self._left is not None and not self._left.is_set():
                self._left.set()
            self._wake()

    def _round(self) -> None:
        time_ms = now_ms()
        had_error = self.core.error is not None
        with self._lock:
            actions: list[Action] = []
            while self._inbox:
                actions += self.core.handle(self._inbox.popleft(), time_ms)
            actions += self.core.handle(Tick(polled_ms=self.polled_ms), time_ms)
            if self.core.generation != NO_GENERATION:
                self._last_identity = Identity(self.core.generation, self.core.member_id)
            had_step, self.has_step = self.has_step, self.core.step() is not None
            deadline_ms = self.core.next_deadline_ms()
        for action in actions:
            self._perform(action)
        if (self.has_step and not had_step) or (self.core.error is not None and not had_error):
            self._wake()
        self._calls.take_new()
        self._find_coordinator(time_ms)
        deadline_ms = min(deadline_ms, self._calls.send_due(self._coordinator, time_ms))
        self._ask_topics()
        if self._inbox:
            return  # the core must handle the new events first
        if self._coordinator is None and self._is_wanted() and not self._is_finding:
            # No connection is ready. The network tells when one is ready, or when a new attempt is allowed.
            deadline_ms = min(deadline_ms, max(self._finding.not_before_ms, time_ms + _LOOK_MS))
        for event in self._network.poll(max(0, min(deadline_ms - now_ms(), _WAIT_MS_MAX))):
            self._on_network(event)

    def _perform(self, action: Action) -> None:
        match action:
            case AskTopics():
                self._questions.append(_Topics(action.topics))
            case DropCoordinator():
                self._drop_coordinator(action.reason)
            case Out():
                if self._left is not None and not self._left.is_set():
                    self._left.set()
            case _:
                self._send(action)

    def _send(self, action: Send) -> None:
        node = self._coordinator
        if node is None or not self._network.is_ready(node):
            self._inbox.append(CoordinatorGone())
            return
        api_key = API_OF[type(action)]
        version = self._network.version(node, api_key, HIGHEST[api_key])
        if version is None:
            self._inbox.append(
                refused_event(action, f"broker {node} offers no version of {api_key.name} that we speak")
            )
            return
        message = membership_request(action, version, self._config)
        context = _Sent(self._incarnation, action)
        self._network.send(node, api_key, version, message, context, timeout_ms=timeout_ms(action, self._config))

    # -- the coordinator ------------------------------------------------------------------------------------------

    def _is_wanted(self) -> bool:
        return self.core.is_active or self._calls.are_waiting

    def _find_coordinator(self, time_ms: int) -> None:
        if self._coordinator is not None:
            if not self._network.is_ready(self._coordinator):
                self._network.connect(self._coordinator)
            return
        if self._is_finding or time_ms < self._finding.not_before_ms or not self._is_wanted():
            return
        node = self._network.any_ready()
        if node is None:
            return
        version = self._network.version(node, ApiKey.FIND_COORDINATOR, HIGHEST[ApiKey.FIND_COORDINATOR])
        if version is None:
            self._finding.failed(now_ms())  # this broker does not support groups; another broker may
            return
        group_id = self._config.group_id
        message = request(ApiKey.FIND_COORDINATOR, version, key=group_id, key_type=0, coordinator_keys=[group_id])
        self._is_finding = True
        self._network.send(node, ApiKey.FIND_COORDINATOR, version, message, _Find())

    def _on_found(self, answer: FindCoordinatorResponse) -> None:
        self._is_finding = False
        coordinators = field_or(answer, "coordinators", (answer,))
        if not coordinators:  # the answer lacks the coordinator that was asked for: ask again
            self._finding.failed(now_ms())
            return
        found = coordinators[0]
        if found.error_code is not ErrorCode.none:
            self._finding.failed(now_ms())
            if not found.error_code.retriable:
                error = KafkaError(found.error_code, f"coordinator of group {self._config.group_id!r}")
                self._calls.fail_waiting(error)
                self._inbox.append(fatal_event(self.core, found.error_code))
            return
        self._finding.attempts = 0
        address = BrokerAddress(broker_id=found.node_id, host=found.host, port=found.port)
        self._network.name_node(address)
        self._coordinator = found.node_id
        self._incarnation += 1
        self._network.connect(found.node_id)

    def _on_wrong_coordinator(self, reason: str) -> None:
        if self._coordinator is not None:
            self._drop_coordinator(reason)
            self._inbox.append(CoordinatorGone())

    def _drop_coordinator(self, reason: str) -> None:
        node, self._coordinator = self._coordinator, None
        self._is_ready = False
        self._finding.failed(now_ms())
        if node is not None:
            _LOG.info("event=coordinator_unknown group=%s broker=%d reason=%r", self._config.group_id, node, reason)
            self._network.close_node(node, reason)

    # -- events of the network ------------------------------------------------------------------------------------

    def _on_network(self, event: NetworkEvent) -> None:
        if isinstance(event, Connected):
            if event.node == self._coordinator:
                self._is_ready = True
                self._inbox.append(CoordinatorReady())
        elif isinstance(event, Lost):
            self._on_lost(event)
        elif isinstance(event, Answered):
            context = event.context
            if isinstance(context, GroupCall):
                self._calls.answered(context, event.message)
            elif isinstance(context, _Find):
                self._on_found(event.message)
            elif isinstance(context, _Topics):
                self._on_topics(event.message)
            elif isinstance(context, _Sent) and context.incarnation == self._incarnation:
                self._inbox.append(membership_event(context.action, event.message))

    def _on_lost(self, event: Lost) -> None:
        if event.refusal is not None:
            self.refusal = event.refusal
            self._calls.fail_waiting(event.refusal)
            self._wake()
        for context in (*event.unanswered, *event.unsent):
            if isinstance(context, GroupCall):
                is_definite = context in event.unsent
                self._calls.failed(context, KafkaError(ErrorCode.network_exception, event.reason, definite=is_definite))
            elif isinstance(context, _Find):
                self._is_finding = False
                self._finding.failed(now_ms())
            elif isinstance(context, _Topics):
                self._questions.append(context)
        if event.node == self._coordinator:
            self._coordinator = None
            self._is_ready = False
            self._finding.failed(now_ms())
            self._inbox.append(CoordinatorGone())

    def _ask_topics(self) -> None:
        if not self._questions:
            return
        node = self._network.any_ready()
        if node is None:
            return
        version = self._network.version(node, ApiKey.METADATA, HIGHEST[ApiKey.METADATA])
        assert version is not None, "every broker offers Metadata"
        for question in self._questions:
            message = metadata_request(version, sorted(question.topics), auto_create=False)
            self._network.send(node, ApiKey.METADATA, version, message, question)
        self._questions.clear()

    def _on_topics(self, message: MetadataResponse) -> None:
        found = {
            topic.name: TopicInfo(partitions=len(topic.partitions), topic_id=topic.topic_id)
            for topic in metadata_answer(message).topics
            if topic.partitions
        }
        self._inbox.append(TopicsKnown(topics=found, is_answer=True))
