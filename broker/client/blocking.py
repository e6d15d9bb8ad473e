"""A network that its caller drives. It makes one call at a time, with a time limit. Answers to other requests go to a
handler.

Owns: metadata refreshes, finding a leader or any broker, retries of retriable errors until the deadline. It has no
thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import AdminConfig, ConsumerConfig, ProducerConfig
from broker.client.core.errors import AuthenticationError, KafkaError, TimedOutError
from broker.client.core.metadata import NO_LEADER, MetadataAnswer, MetadataCache
from broker.client.core.shares.config import ShareConsumerConfig
from broker.client.network import Answered, Lost, Network, NetworkEvent
from broker.client.question import Question, Result
from broker.client.questions import metadata_of
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Answer = TypeVar("Answer")
Build: TypeAlias = "Callable[[int], Asks[Answer]]"  # version -> request
_WAIT_MS_MAX = 200


class _Call:
    """A call that waits for its answer. The object itself is the context of the request."""

    __slots__ = ("failure", "message")

    def __init__(self) -> None:
        self.message: Message = None
        self.failure: KafkaError | None = None


class BlockingClient:
    def __init__(
        self,
        config: ConsumerConfig | AdminConfig | ProducerConfig | ShareConsumerConfig,
        rng: random.Random,
        on_event: Callable[[NetworkEvent], None] = lambda event: None,
    ) -> None:
        self.config = config
        self.network = Network(config, rng, now_ms)
        self.metadata = MetadataCache(
            max_age_ms=config.metadata_max_age_ms,
            backoff_first_ms=config.retry_backoff_ms,
            backoff_max_ms=config.retry_backoff_max_ms,
            rng=rng,
        )
        self._on_event = on_event
        self._refusal: AuthenticationError | None = None

    def close(self) -> None:
        self.network.close()

    def step(self, until_ms: int) -> None:
        """One round of the network, for at most 200 ms and not beyond `until_ms`. Raises AuthenticationError, once, if
        the authentication between a broker and this client failed. So the caller learns it at once, and not by a
        time-out."""
        self.advance(until_ms)
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal

    def advance(self, until_ms: int) -> None:
        """As `step`, for a caller that holds records which the application has not seen yet. An AuthenticationError is
        kept for the next `step`."""
        for event in self.network.poll(min(until_ms - now_ms(), _WAIT_MS_MAX)):
            self.dispatch(event)

    def dispatch(self, event: NetworkEvent) -> None:
        if isinstance(event, Answered) and isinstance(event.context, _Call):
            event.context.message = event.message
        elif isinstance(event, Lost):
            self._refusal = self._refusal or event.refusal
            for context in (*event.unanswered, *event.unsent):
                if isinstance(context, _Call):
                    context.failure = KafkaError(
                        ErrorCode.network_exception, event.reason, definite=context in event.unsent
                    )
            self._on_event(event)
        else:
            self._on_event(event)

    def call(
        self, node: int | None, api_key: ApiKey, build: Build[Answer], deadline_ms: int, *, highest: int | None = None
    ) -> Answer:
        """As `ask`, but returns the whole answer."""
        whole: Question[Answer] = Question(api_key, build, lambda message: message, highest=highest)
        return self.ask(node, whole, deadline_ms)

    def ask(self, node: int | None, question: Question[Result], deadline_ms: int) -> Result:
        """Ask one broker (None: any). Raises KafkaError: NETWORK_EXCEPTION if the connection broke, TimedOutError at
        the deadline, or the broker's error."""
        chosen = self._wait_ready(node, deadline_ms)
        version = question.version(partial(self.network.version, chosen), f"broker {chosen}")
        call = _Call()
        timeout_ms = max(1, min(self.config.request_timeout_ms, deadline_ms - now_ms()))
        self.network.send(chosen, question.api_key, version, question.build(version), call, timeout_ms=timeout_ms)
        while call.message is None:
            if call.failure is not None:
                raise call.failure
            if now_ms() >= deadline_ms + _WAIT_MS_MAX:
                raise TimedOutError(f"no answer to {question.api_key.name} from broker {chosen}", definite=False)
            self.step(deadline_ms + _WAIT_MS_MAX)
        return question.parse(call.message)

    def _wait_ready(self, node: int | None, deadline_ms: int) -> int:
        while True:
            ready = self.network.any_ready() if node is None else node
            if ready is not None and self.network.is_ready(ready):
                return ready
            if node is not None:
                self.network.connect(node)
            if now_ms() >= deadline_ms:
                who = "any broker" if node is None else f"broker {node}"
                raise TimedOutError(f"cannot connect to {who} of {','.join(self.config.bootstrap_servers)}")
            self.step(deadline_ms)

    def fetch_metadata(self, topics: Sequence[str] | None, deadline_ms: int) -> MetadataAnswer:
        """Fetch the metadata of these topics (None: all) and put them into the cache. The question does not create
        topics."""

        def ask() -> MetadataAnswer:
            answer = self.ask(None, metadata_of(topics), deadline_ms)
            if not answer.brokers:
                raise KafkaError(ErrorCode.leader_not_available, "the metadata names no broker yet")
            return answer

        answer = self.retrying(ask, deadline_ms)
        self.metadata.on_answer(answer, now_ms())
        self.network.update_nodes(answer.brokers)
        return answer

    def leader(self, partition: TopicPartition, deadline_ms: int) -> int:
        def find() -> int:
            if self.metadata.leader(partition) == NO_LEADER:
                self.fetch_metadata([partition.topic], deadline_ms)
            found = self.metadata.leader(partition)
            if found == NO_LEADER:
                raise KafkaError(ErrorCode.leader_not_available, f"{partition.topic}-{partition.partition}")
            return found

        return self.retrying(find, deadline_ms)

    def ask_leader(
        self, partition: TopicPartition, question: Callable[[int], Question[Result]], deadline_ms: int
    ) -> Result:
        """Ask the partition's leader and follow leader changes. `question` gets the leader epoch that this client
        knows."""

        def ask() -> Result:
            node = self.leader(partition, deadline_ms)
            attempt_deadline_ms = min(deadline_ms, now_ms() + self.config.request_timeout_ms)
            try:
                return self.ask(node, question(self.metadata.leader_epoch(partition)), attempt_deadline_ms)
            except KafkaError:
                self.fetch_metadata([partition.topic], deadline_ms)
                raise

        return self.retrying(ask, deadline_ms)

    def retrying(self, ask: Callable[[], Result], deadline_ms: int) -> Result:
        """Repeat the call until it succeeds, fails with an error that is not retriable, or the deadline passes. Waits
        retry.backoff.ms between two attempts."""
        while True:
            try:
                return ask()
            except KafkaError as error:
                is_worth_it = error.retriable or isinstance(error, TimedOutError)
                if not is_worth_it or now_ms() + self.config.retry_backoff_ms >= deadline_ms:
                    raise
            self.pause(self.config.retry_backoff_ms)

    def pause(self, wait_ms: int) -> None:
        """Waits, and handles events of the network meanwhile."""
        until_ms = now_ms() + wait_ms
        while now_ms() < until_ms:
            self.step(until_ms)
