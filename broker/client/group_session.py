"""The application's side of a group: subscription, listener, commits, and the steps of a rebalance, inside `poll`.

Owns: the subscription of the application, its listener, automatic commits, and the look-up of committed offsets. All of
it runs in the application's thread. The membership itself is in member_thread.py. `poll`, `commit_sync`, `unsubscribe`
and `close` call the listener and the commit callbacks, as in Java. Shown by tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import logging
import random
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import CommitFailedError, KafkaError, TimedOutError
from broker.client.core.fetcher import FetcherCore
from broker.client.core.groups.events import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Leave,
    Rejoin,
    Step,
    StepDone,
    StepKind,
    Subscribe,
    TopicInfo,
    TopicsKnown,
)
from broker.client.core.metadata import MetadataCache
from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata
from broker.client.group_call import GroupCall
from broker.client.group_requests import (
    Identity,
    commit_error,
    commit_request,
    committed_offsets,
    committed_request,
)
from broker.client.interceptors import ConsumerInterceptors
from broker.client.member_thread import MemberThread
from broker.client.metrics import ConsumerMetrics
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.wire.shapes.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from broker.wire.shapes.offset_fetch import OffsetFetchRequest

_LOG = logging.getLogger(__name__)
Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback: TypeAlias = Callable[[Offsets, KafkaError | None], None]
_INTERNAL_PREFIX = "__"  # __consumer_offsets and __transaction_state
# The member does not count any more. What it read now belongs to another member, which will read it again.
_FENCED = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
        ErrorCode.fenced_member_epoch,
        ErrorCode.rebalance_in_progress,
    }
)


class RebalanceListener:
    """Override what you need. Called in the thread that polls. `on_partitions_revoked` may still commit."""

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are new, in addition to those that the member has. Their positions are looked up afterwards;
        a seek decides them."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """These are about to go."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """These are gone already, and another member may have them: too late for a commit."""
        self.on_partitions_revoked(partitions)


class GroupSession:
    """Exists if there is a group.id. Without a subscription it only commits and looks up offsets, and is no member."""

    def __init__(
        self,
        config: ConsumerConfig,
        fetcher: FetcherCore,
        metadata: MetadataCache,
        metrics: ConsumerMetrics,
        rng: random.Random,
        wake: Callable[[], None],
        interceptors: ConsumerInterceptors,
    ) -> None:
        self._config = config
        self._interceptors = interceptors
        self._fetcher = fetcher
        self._metadata = metadata
        self._metrics = metrics
        self._listener = RebalanceListener()
        self._pattern: re.Pattern[str] | None = None
        self._topics: frozenset[str] = frozenset()
        self._is_subscribed = False
        self._metadata_version = -1
        self._told_counts: dict[str, int] = {}
        self._owned: frozenset[TopicPartition] = frozenset()
        self._finished: deque[Callable[[], None]] = deque()
        self._commits_done: deque[Offsets] = deque()  # that the interceptors have not heard of
        self._look_up: GroupCall | None = None
        self._commit_due_ms = 0
        self._last_commit: dict[TopicPartition, int] = {}
        self._is_in_step = False
        self.thread = MemberThread(config, rng, wake)

    # -- subscription ---------------------------------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        return self._is_subscribed

    @property
    def wants_all_topics(self) -> bool:
        """A pattern needs to see every topic."""
        return self._pattern is not None

    def subscription(self) -> frozenset[str]:
        return self._topics

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None) -> None:
        if listener is not None:
            self._listener = listener
        self._is_subscribed = True
        self.thread.polled_ms = now_ms()
        if isinstance(topics, re.Pattern):
            self._pattern = topics
            self._metadata_version = -1
            self._metadata.request_update()
            return
        self._pattern = None
        self._set_topics(frozenset(topics))

    def _set_topics(self, topics: frozenset[str]) -> None:
        self._topics = topics
        for topic in topics:
            self._metadata.use_topic(topic, now_ms())
        self.thread.submit(Subscribe(topics=topics))

    def unsubscribe(self, *, reason: str = "unsubscribed", leaves_group: bool | None = None) -> None:
        """Gives everything up, after a last automatic commit, and leaves. Bounded by default.api.timeout.ms."""
        if not self._is_subscribed:
            return
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        while self.thread.has_step and now_ms() < deadline_ms:  # deliver at least the steps that were decided before
            self._run_step()
        if self._owned:
            self._give_up(self._owned, frozenset())
        self._is_subscribed = False
        self._pattern = None
        self._topics = frozenset()
        self.thread.leave(Leave(reason=reason, leaves_group=leaves_group), max(0, deadline_ms - now_ms()))

    def close(self, timeout_ms: int, leaves_group: bool | None) -> None:
        """The last commit, and leaving, as far as there is time."""
        deadline_ms = now_ms() + timeout_ms
        try:
            if self._is_subscribed:
                if self._owned:
                    self._give_up(self._owned, frozenset(), deadline_ms)
                leave = Leave(reason="the consumer was closed", leaves_group=leaves_group)
                self.thread.leave(leave, max(0, min(self._config.request_timeout_ms, deadline_ms - now_ms())))
            elif self._config.enable_auto_commit:
                self._commit_before_change(deadline_ms)
        finally:
            self.thread.stop(max(1000, deadline_ms - now_ms()))
            self._run_callbacks()

    def rejoin(self, reason: str) -> None:
        self.thread.submit(Rejoin(reason=reason))

    # -- what poll does -------------------------------------------------------------------------------------------

    def on_poll(self) -> None:
        """Called before records are taken. Records that earlier polls returned count as processed."""
        thread = self.thread
        time_ms = now_ms()
        thread.polled_ms = time_ms
        if self._finished or self._commits_done:
            self._run_callbacks()
        if thread.failure is not None:
            raise KafkaError(-1, f"the group's thread died: {thread.failure!r}", name="LOCAL_STATE")
        if self._metadata.version != self._metadata_version:
            self._on_metadata()
        if thread.has_step:
            self._run_step()
        if thread.core.error is not None and not thread.has_step:
            raise thread.core.error
        if self._config.enable_auto_commit and time_ms >= self._commit_due_ms:
            self._commit_due_ms = time_ms + self._config.auto_commit_interval_ms
            self._commit_automatically()
        self._look_committed_up(time_ms)

    def _run_step(self) -> None:
        step = self.thread.take_step()
        if step is None:
            return
        self._is_in_step = True
        try:
            self._carry_out(step)
        finally:
            self._is_in_step = False
            self.thread.submit(StepDone())

    def _carry_out(self, step: Step) -> None:
        if step.kind is StepKind.LOST:
            self._owned = frozenset()
            self._fetcher.assign(())
            self._listener.on_partitions_lost(step.revoked)
            return
        if step.revoked or (step.kind is StepKind.PREPARE and self._owned):
            self._give_up(step.revoked, self._owned - step.revoked)
        if step.kind is StepKind.COMPLETE:
            self._owned = step.remaining
            self._fetcher.assign(sorted(step.remaining))
            self._told_counts.clear()
            for topic in self.thread.core.group_topics:
                self._metadata.use_topic(topic, now_ms())
            self._listener.on_partitions_assigned(step.assigned)

    def _give_up(
        self, revoked: frozenset[TopicPartition], remaining: frozenset[TopicPartition], deadline_ms: int | None = None
    ) -> None:
        if self._config.enable_auto_commit:
            self._commit_before_change(deadline_ms)
        if revoked:
            self._listener.on_partitions_revoked(revoked)
        self._owned = remaining
        self._fetcher.assign(sorted(remaining))

    def _on_metadata(self) -> None:
        """New metadata of topics. A pattern may match other topics. The leader watches the number of partitions."""
        self._metadata_version = self._metadata.version
        if self._pattern is not None:
            pattern = self._pattern
            matched = frozenset(name for name in self._metadata.topic_names() if self._is_match(pattern, name))
            if matched != self._topics or not self._topics:
                self._set_topics(matched)
        counts = {
            topic: count
            for topic in self.thread.core.group_topics | self._topics
            if (count := self._metadata.partition_count(topic))
        }
        if counts != self._told_counts:
            self._told_counts = counts
            known = {topic: TopicInfo(partitions=count, topic_id="") for topic, count in counts.items()}
            self.thread.submit(TopicsKnown(topics=known, is_answer=False))

    def _is_match(self, pattern: re.Pattern[str], topic: str) -> bool:
        if self._config.exclude_internal_topics and topic.startswith(_INTERNAL_PREFIX):
            return False
        return pattern.fullmatch(topic) is not None

    def accepts_topic(self, topic: str) -> bool:
        """Of all that a Metadata answer names: what the cache should hold for this subscription."""
        if self._pattern is None:
            return True
        return self._is_match(self._pattern, topic) or topic in self.thread.core.group_topics

    # -- committed offsets ----------------------------------------------------------------------------------------

    def _look_committed_up(self, time_ms: int) -> None:
        """Does not wait: asks for unknown offsets and takes in answers that have come."""
        call = self._look_up
        if call is not None and call.done.is_set():
            self._look_up = None
            if call.error is None:
                for chosen, found in call.result.items():
                    self._fetcher.on_committed(chosen, None if found is None else (found.offset, found.leader_epoch))
            elif not _is_passing(call.error):
                raise call.error
        if self._look_up is None:
            awaiting = self._fetcher.awaiting_committed()
            if awaiting:
                self._look_up = self._committed_call(awaiting, time_ms + self._config.default_api_timeout_ms)
                self.thread.call(self._look_up)

    def _committed_call(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> GroupCall:
        chosen = list(partitions)

        def build(version: int, who: Identity) -> OffsetFetchRequest:
            return committed_request(version, self._config, who, chosen)

        return GroupCall(ApiKey.OFFSET_FETCH, build, committed_offsets, deadline_ms, is_repeated=True)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        call = self._committed_call(partitions, now_ms() + timeout_ms)
        self.thread.call(call)
        self._wait(call)
        if call.error is not None:
            raise call.error
        result: dict[TopicPartition, OffsetAndMetadata | None] = call.result
        return result

    # -- commits --------------------------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Of all assigned partitions that have one: what a commit without offsets commits."""
        return {
            each: OffsetAndMetadata(position, self._fetcher.position_epoch(each))
            for each in self._fetcher.assignment()
            if (position := self._fetcher.position(each)) is not None
        }

    def commit_sync(self, offsets: Offsets, timeout_ms: int) -> None:
        """Raises CommitFailedError if the member is out of the group or a rebalance is under way."""
        if not offsets:
            return
        call = self._commit_call(offsets, now_ms() + timeout_ms, is_repeated=True)
        self.thread.call(call)
        self._wait(call)
        self._tell_interceptors()
        if not self._is_in_step:
            self._run_callbacks()
        if call.error is not None:
            raise _commit_failure(call.error)

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """Not repeated, because a later commit may be in the log by then. The callback runs in a later call of this
        client."""
        if not offsets:
            return

        def on_done(call: GroupCall) -> None:
            error = None if call.error is None else _commit_failure(call.error)
            if callback is not None:
                self._finished.append(partial(callback, offsets, error))
            elif error is not None:
                _LOG.warning("event=commit_failed group=%s cause=%r", self._config.group_id, str(error))

        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        self.thread.call(self._commit_call(offsets, deadline_ms, is_repeated=False, on_done=on_done))

    def _commit_call(
        self,
        offsets: Offsets,
        deadline_ms: int,
        *,
        is_repeated: bool,
        on_done: Callable[[GroupCall], None] | None = None,
    ) -> GroupCall:
        chosen = dict(offsets)

        def build(version: int, who: Identity) -> OffsetCommitRequest:
            if self._is_subscribed and who.generation == NO_GENERATION:
                # A group that has become empty would accept it from anybody.
                raise KafkaError(ErrorCode.unknown_member_id, "not a member of the group any more")
            return commit_request(version, self._config, who, chosen)

        def parse(answer: OffsetCommitResponse) -> None:
            error = commit_error(answer)
            if error is not None:
                raise error

        def done(call: GroupCall) -> None:
            if call.error is None:
                self._metrics.on_commit(now_ms() - call.began_ms)
                if self._interceptors:
                    self._commits_done.append(chosen)
            if on_done is not None:
                on_done(call)

        return GroupCall(ApiKey.OFFSET_COMMIT, build, parse, deadline_ms, is_repeated=is_repeated, on_done=done)

    def _commit_automatically(self) -> None:
        positions = self.positions()
        changed = {each: at for each, at in positions.items() if self._last_commit.get(each) != at.offset}
        if not changed:
            return

        def noted(offsets: Offsets, error: KafkaError | None) -> None:
            if error is None:
                self._last_commit.update({each: at.offset for each, at in offsets.items()})
            else:
                _LOG.warning("event=auto_commit_failed group=%s cause=%r", self._config.group_id, str(error))

        self.commit_async(changed, noted)

    def _commit_before_change(self, deadline_ms: int | None = None) -> None:
        """A failure is only logged. Records that were not committed come again."""
        self._last_commit.clear()
        left_ms = self._config.default_api_timeout_ms if deadline_ms is None else max(1, deadline_ms - now_ms())
        try:
            self.commit_sync(self.positions(), min(left_ms, self._config.max_poll_interval_ms))
        except KafkaError as error:
            _LOG.warning("event=auto_commit_failed group=%s cause=%r", self._config.group_id, str(error))

    def _wait(self, call: GroupCall) -> None:
        call.done.wait(max(0, call.deadline_ms - now_ms() + 1000) / 1000)  # the thread itself keeps the deadline
        if not call.done.is_set():
            raise TimedOutError(f"{call.api_key.name}: no answer in time", definite=False)

    def _tell_interceptors(self) -> None:
        while self._commits_done:
            self._interceptors.on_commit(self._commits_done.popleft())

    def _run_callbacks(self) -> None:
        self._tell_interceptors()
        while self._finished:
            self._finished.popleft()()

    def group_metadata(self) -> GroupMetadata:
        """For a member that was dropped, this is its old identity. So the coordinator refuses what it did since then.
        Without a generation, the coordinator would accept its offsets from anybody (KIP-447)."""
        who = self.thread.last_identity() if self._is_subscribed else Identity(NO_GENERATION, NO_MEMBER_ID)
        return GroupMetadata(
            group_id=self._config.group_id,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=self._config.group_instance_id or None,
        )


def _is_passing(error: KafkaError) -> bool:
    """Of a look-up: it is made again."""
    is_of_membership = error.code in (ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch)
    return error.retriable or is_of_membership or isinstance(error, TimedOutError)


def _commit_failure(error: KafkaError) -> KafkaError:
    return CommitFailedError(error) if error.code in _FENCED else error
