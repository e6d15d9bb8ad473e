"""The producer's only thread. It asks the sender core what to do, does it, and reports the result.

Owns: the network, the encoding of batches before they are sent, and the order "lock, decide, unlock, act". The core,
the accumulator and the metadata are used only under `lock`. Encoding, sockets and callbacks never run under it.
Callbacks run here, each once.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from broker.client import native
from broker.client.clock import now_ms
from broker.client.core.accumulator import Accumulator
from broker.client.core.batch import Batch
from broker.client.core.config import ProducerConfig
from broker.client.core.errors import AuthenticationError
from broker.client.core.metadata import MetadataCache
from broker.client.core.sender import SenderCore
from broker.client.core.sender_events import (
    Action,
    AskIdentity,
    CloseNode,
    Complete,
    Connect,
    Event,
    IdentityAnswered,
    NodeConnected,
    NodeLost,
    ProduceAnswered,
    ProduceSent,
    SendProduce,
    Tick,
)
from broker.client.metrics import ProducerMetrics
from broker.client.network import Answered, Connected, Lost, Network, NetworkEvent, Sent
from broker.client.protocol import (
    HIGHEST,
    encode_records,
    identity_request,
    metadata_answer,
    metadata_request,
    produce_request,
    produce_results,
)
from broker.client.reporting import BatchListener, report
from broker.wire.apis import ApiKey
from broker.wire.compression import CodecId, codec_by_name
from broker.wire.errors import ErrorCode

_LOG = logging.getLogger(__name__)
PRODUCE_VERSION_MAX = HIGHEST[ApiKey.PRODUCE]
LEGACY_PRODUCE = 11  # from version 12 on, a broker treats a producer's transaction as one of transaction.version 2
_NEVER_MS = 2**62
_WAIT_MS_MAX = 1000  # the loop wakes at least this often


class _Produce(NamedTuple):
    request_id: int


class _Metadata(NamedTuple):
    pass


class _Identity(NamedTuple):
    pass


class SenderThread:
    def __init__(self, config: ProducerConfig, seed: int | None, batch_listener: BatchListener | None = None) -> None:
        rng = random.Random(seed)
        self.config = config
        self._batch_listener = batch_listener
        self.lock = native.new_lock()
        self.accumulator = Accumulator(
            batch_size_bytes=config.batch_size, linger_ms=config.linger_ms, buffer_memory_bytes=config.buffer_memory
        )
        self.metadata = MetadataCache(
            max_age_ms=config.metadata_max_age_ms,
            backoff_first_ms=config.retry_backoff_ms,
            backoff_max_ms=config.retry_backoff_max_ms,
            rng=rng,
            idle_ms=config.metadata_max_idle_ms,
        )
        self.core = SenderCore(config, self.accumulator, self.metadata, rng)
        self.metrics = ProducerMetrics()
        self.network = Network(config, rng, now_ms)
        self.sleeps_until_ms = 0  # used under the lock: the thread sleeps until this time if nobody wakes it
        self.memory_waiters: list[native.Event] = []
        self.metadata_waiters: list[native.Event] = []
        self.produce_version_max = PRODUCE_VERSION_MAX
        self.failure: BaseException | None = None
        # Used under the lock: the authentication error of the last connection attempt, until an attempt succeeds.
        self.refusal: AuthenticationError | None = None
        self.ident: int | None = None
        self._codec: CodecId = codec_by_name(config.compression_type)
        self._reporting: deque[Batch] = deque()
        self._never_sent: set[int] = set()
        self._identity_wanted = False
        self._wanted_by_ms = _NEVER_MS
        self._tick_ms = 0
        self._stop_at_ms: int | None = None
        self.ended = native.start_thread(self._run)

    # -- for other threads ----------------------------------------------------------------------------------------

    def wake_by(self, due_ms: int) -> None:
        """Called under the lock. Makes sure that the thread wakes up by `due_ms`."""
        if self.sleeps_until_ms > due_ms:
            self.sleeps_until_ms = 0
            self.network.wake()
        self._wanted_by_ms = min(self._wanted_by_ms, due_ms)

    def stop(self, deadline_ms: int) -> None:
        """Called under the lock. The thread sends the queued records, and ends at the deadline at the latest."""
        if self._stop_at_ms is None:
            self.core.hurry_count += 1
            self._stop_at_ms = deadline_ms
        self._stop_at_ms = min(self._stop_at_ms, deadline_ms)
        self.sleeps_until_ms = 0
        self.network.wake()

    def unreported(self) -> list[Batch]:
        """Called under the lock. Returns every batch whose callbacks have not all run."""
        return [*self._reporting, *self.accumulator.incomplete.values()]

    def event_of(self, batch: Batch) -> native.Event:
        """Called under the lock. The event is set when the callbacks of this batch have run."""
        if batch.waiter is None:
            batch.waiter = native.Event()
            if batch.is_reported:
                batch.waiter.set()
        event: native.Event = batch.waiter
        return event

    # -- the loop -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self.ident = native.thread_id()
        reason = "the producer was closed before the record was acknowledged"
        try:
            while self._step():
                pass
        except BaseException as error:  # this is the entry of a thread: whatever the error is, nobody may wait for ever
            _LOG.exception("event=sender_thread_died")
            self.failure = error
            reason = f"the sender thread died: {type(error).__name__}: {error}"
        finally:
            with self.lock:
                self._stop_at_ms = 0
                self._note(self.core.fail_all(reason))
                self._wake_all(self.metadata_waiters)
                self._wake_all(self.memory_waiters)
            self._report()
            self.network.close()

    def _step(self) -> bool:
        with self.lock:
            time_ms = now_ms()
            if self._stop_at_ms is not None and (time_ms >= self._stop_at_ms or not self.accumulator.incomplete):
                return False
            self._wanted_by_ms = _NEVER_MS
            self._tick_ms = time_ms
            actions = self._note(self.core.handle(Tick(), time_ms))
        self._perform(actions)
        self._report()
        self._ask_identity()
        with self.lock:
            time_ms = now_ms()
            self._ask_metadata(time_ms)
            until_ms = self._next_look_ms(time_ms)
            self.sleeps_until_ms = until_ms
        events = self.network.poll(until_ms - time_ms)
        self.sleeps_until_ms = 0  # the thread is awake; a thread that reads the old value only wakes it once too often
        for event in events:
            self._on_network_event(event)
        return True

    def _next_look_ms(self, time_ms: int) -> int:
        """Called under the lock. It counts from the last Tick, so it misses nothing that arrived or became due since
        then."""
        candidates = [time_ms + _WAIT_MS_MAX, self._wanted_by_ms]
        deadline_ms = self.core.next_deadline_ms(self._tick_ms)
        if deadline_ms is not None:
            candidates.append(deadline_ms)
        asks_ms = self.metadata.next_request_ms()
        if asks_ms is not None and asks_ms > time_ms:
            candidates.append(asks_ms)
        if self._stop_at_ms is not None:
            candidates.append(self._stop_at_ms)
        return max(min(candidates), time_ms)

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case SendProduce():
                    self._send_produce(action)
                case Connect(node=node):
                    self.network.connect(node)
                case AskIdentity():
                    self._identity_wanted = True
                case CloseNode(node=node, reason=reason):
                    self.network.close_node(node, reason)
                case Complete():
                    pass  # `_note` has stored it under the lock; `_report` reports it

    def _send_produce(self, action: SendProduce) -> None:
        time_ms = now_ms()
        for batch in action.batches:
            if batch.encoded is None:
                batch.encoded, plain_bytes = encode_records(batch, self._codec, self.config.compression_level)
                self.metrics.on_batch(sum(map(len, batch.encoded)), plain_bytes, time_ms - batch.created_ms)
                if not self.metrics.is_stamped_by_user:
                    self.metrics.on_records(batch.record_count, batch.waited_ms(int(time.time() * 1000)))
        if not self.network.is_ready(action.node):
            self._never_sent.add(action.request_id)  # the Lost event of this node will follow
            return
        version = self.network.version(action.node, ApiKey.PRODUCE, self.produce_version_max)
        if version is None:
            self._never_sent.add(action.request_id)
            self.network.close_node(action.node, "offers no Produce version that we speak")
            return
        message = produce_request(
            version,
            action.batches,
            self.config.acks_code,
            self.config.request_timeout_ms,
            self.config.transactional_id or None,
        )
        self.network.send(
            action.node,
            ApiKey.PRODUCE,
            version,
            message,
            _Produce(action.request_id),
            expects_answer=self.config.acks_code != 0,
        )

    # -- events of the network ------------------------------------------------------------------------------------

    def _on_network_event(self, event: NetworkEvent) -> None:
        match event:
            case Connected(node=node):
                with self.lock:
                    self.refusal = None
                self._tell(NodeConnected(node=node))
            case Sent(context=context):
                self._tell(ProduceSent(request_id=context.request_id))
            case Answered():
                self._on_answer(event)
            case Lost():
                self._on_lost(event)

    def _on_answer(self, event: Answered) -> None:
        context = event.context
        if isinstance(context, _Produce):
            self.metrics.on_response(event.latency_ms)
            self._tell(ProduceAnswered(request_id=context.request_id, results=produce_results(event.message)))
        elif isinstance(context, _Metadata):
            answer = metadata_answer(event.message)
            with self.lock:
                if answer.brokers:
                    self.metadata.on_answer(answer, now_ms())
                else:
                    self.metadata.on_failure(now_ms())  # this broker does not know its own cluster yet
                self._wake_all(self.metadata_waiters)
            if answer.brokers:
                self.network.update_nodes(answer.brokers)
        else:
            message = event.message
            self._tell(
                IdentityAnswered(
                    error_code=int(message.error_code),
                    producer_id=message.producer_id,
                    producer_epoch=message.producer_epoch,
                )
            )

    def _on_lost(self, event: Lost) -> None:
        contexts: tuple[Any, ...] = (*event.unanswered, *event.unsent)
        unsent = {each.request_id for each in event.unsent if isinstance(each, _Produce)} | self._never_sent
        self._never_sent.clear()
        if event.refusal is not None:
            with self.lock:
                self.refusal = event.refusal
                self._wake_all(self.metadata_waiters)
        if any(isinstance(each, _Metadata) for each in contexts):
            with self.lock:
                self.metadata.on_failure(now_ms())
        if any(isinstance(each, _Identity) for each in contexts):
            self._tell(IdentityAnswered(error_code=ErrorCode.network_exception))
        self._tell(NodeLost(node=event.node, unsent=frozenset(unsent), reason=event.reason))

    def _tell(self, event: Event) -> None:
        with self.lock:
            actions = self._note(self.core.handle(event, now_ms()))
        self._perform(actions)
        self._report()

    def _note(self, actions: list[Action]) -> list[Action]:
        """Called under the lock. Queues finished batches for the report, and wakes callers that wait for memory."""
        finished = [action.batch for action in actions if isinstance(action, Complete)]
        if finished:
            self._reporting.extend(finished)
            self._wake_all(self.memory_waiters)
        return actions

    def _report(self) -> None:
        while self._reporting:
            batch = self._reporting[0]  # it stays in the queue until it is reported, so that flush() sees it
            failures = report(batch, self._batch_listener)
            self.metrics.callback_error_total += failures
            with self.lock:
                self._reporting.popleft()
                batch.is_reported = True
                batch.encoded = None
                if batch.waiter is not None:
                    batch.waiter.set()

    def _ask_metadata(self, time_ms: int) -> None:
        """Called under the lock. Nothing here blocks."""
        asks_ms = self.metadata.next_request_ms()
        if asks_ms is None or asks_ms > time_ms:
            return
        node = self.network.any_ready()
        if node is None:
            return  # the network is connecting or waits for the backoff; its poll ends when that changes
        version = self.network.version(node, ApiKey.METADATA, HIGHEST[ApiKey.METADATA])
        if version is None:
            self.network.close_node(node, "offers no Metadata version that we speak")
            return
        topics = self.metadata.on_request(time_ms)
        message = metadata_request(version, topics, auto_create=True)
        self.network.send(node, ApiKey.METADATA, version, message, _Metadata())

    def _ask_identity(self) -> None:
        if not self._identity_wanted:
            return
        node = self.network.any_ready()
        if node is None:
            return
        version = self.network.version(node, ApiKey.INIT_PRODUCER_ID, HIGHEST[ApiKey.INIT_PRODUCER_ID])
        self._identity_wanted = False
        if version is None:
            self._tell(IdentityAnswered(error_code=ErrorCode.unsupported_version))
            return
        self.network.send(node, ApiKey.INIT_PRODUCER_ID, version, identity_request(version), _Identity())

    @staticmethod
    def _wake_all(waiters: list[native.Event]) -> None:
        for waiter in waiters:
            waiter.set()
        waiters.clear()
