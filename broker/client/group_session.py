"""The application's side of a group: subscription, listener, commits, and the steps of a rebalance, inside `poll`.

Owns: the subscription of the application and its listener. All of it runs in the application's thread. Commits are in
group_commits.py, the membership itself is in member_thread.py. `poll`, `commit_sync`, `unsubscribe`
and `close` call the listener and the commit callbacks, as in Java. Shown by tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import KafkaError
from broker.client.core.fetcher import FetcherCore
from broker.client.core.groups.events import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Leave,
    Step,
    StepDone,
    StepKind,
    Subscribe,
    TopicInfo,
    TopicsKnown,
)
from broker.client.core.metadata import MetadataCache
from broker.client.core.transactions import GroupMetadata
from broker.client.group_commits import GroupCommits
from broker.client.group_requests import Identity
from broker.client.interceptors import ConsumerInterceptors
from broker.client.member_thread import MemberThread


class RebalanceListener:
    """Override the methods that you need. They are called in the thread that polls. `on_partitions_revoked` may still
    commit."""

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """These partitions are new, in addition to those that the member has. Their positions are looked up afterwards,
        unless this method calls seek."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """The member is about to give up these partitions."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """The member has already lost these partitions, and another member may have them. It is too late for a
        commit."""
        self.on_partitions_revoked(partitions)


class GroupSession:
    """It exists if group.id is set. Without a subscription it only commits and looks up offsets, and the consumer is no
    member."""

    def __init__(
        self,
        config: ConsumerConfig,
        fetcher: FetcherCore,
        metadata: MetadataCache,
        rng: random.Random,
        wake: Callable[[], None],
        interceptors: ConsumerInterceptors,
    ) -> None:
        self._config = config
        self._fetcher = fetcher
        self._metadata = metadata
        self._listener = RebalanceListener()
        self._topics: frozenset[str] = frozenset()
        self._is_subscribed = False
        self._metadata_version = -1
        self._told_counts: dict[str, int] = {}
        self._owned: frozenset[TopicPartition] = frozenset()
        self.thread = MemberThread(config, rng, wake)
        self.commits = GroupCommits(
            config, fetcher, self.thread, interceptors, has_membership=lambda: self._is_subscribed
        )

    # -- subscription ---------------------------------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        return self._is_subscribed

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None) -> None:
        if listener is not None:
            self._listener = listener
        self._is_subscribed = True
        self.thread.polled_ms = now_ms()
        self._topics = frozenset(topics)
        for topic in self._topics:
            self._metadata.use_topic(topic, now_ms())
        self.thread.submit(Subscribe(topics=self._topics))

    def unsubscribe(self, *, reason: str = "unsubscribed", leaves_group: bool | None = None) -> None:
        """Makes a last automatic commit, gives up all partitions, and leaves the group. It is bounded by
        default.api.timeout.ms."""
        if not self._is_subscribed:
            return
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        while self.thread.has_step and now_ms() < deadline_ms:  # carry out at least the steps that were decided before
            self._run_step()
        if self._owned:
            self._give_up(self._owned, frozenset())
        self._is_subscribed = False
        self._topics = frozenset()
        self.thread.leave(Leave(reason=reason, leaves_group=leaves_group), max(0, deadline_ms - now_ms()))

    def close(self, timeout_ms: int, leaves_group: bool | None) -> None:
        """Makes the last commit and leaves the group, as far as there is time."""
        deadline_ms = now_ms() + timeout_ms
        try:
            if self._is_subscribed:
                if self._owned:
                    self._give_up(self._owned, frozenset(), deadline_ms)
                leave = Leave(reason="the consumer was closed", leaves_group=leaves_group)
                self.thread.leave(leave, max(0, min(self._config.request_timeout_ms, deadline_ms - now_ms())))
            elif self._config.enable_auto_commit:
                self.commits.commit_before_change(deadline_ms)
        finally:
            self.thread.stop(max(1000, deadline_ms - now_ms()))
            self.commits.run_callbacks()

    # -- steps of poll --------------------------------------------------------------------------------------------

    def on_poll(self) -> None:
        """It is called before records are taken. Records that earlier polls returned now count as processed."""
        thread = self.thread
        time_ms = now_ms()
        thread.polled_ms = time_ms
        self.commits.run_callbacks()
        if thread.failure is not None:
            raise KafkaError(-1, f"the group's thread died: {thread.failure!r}", name="LOCAL_STATE")
        if thread.refusal is not None:
            refusal, thread.refusal = thread.refusal, None
            raise refusal
        if self._metadata.version != self._metadata_version:
            self._on_metadata()
        if thread.has_step:
            self._run_step()
        if thread.core.error is not None and not thread.has_step:
            raise thread.core.error
        self.commits.on_poll(time_ms)

    def _run_step(self) -> None:
        step = self.thread.take_step()
        if step is None:
            return
        self.commits.holds_callbacks = True
        try:
            self._carry_out(step)
        finally:
            self.commits.holds_callbacks = False
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
            self.commits.commit_before_change(deadline_ms)
        if revoked:
            self._listener.on_partitions_revoked(revoked)
        self._owned = remaining
        self._fetcher.assign(sorted(remaining))

    def _on_metadata(self) -> None:
        """There is new metadata of topics. A leader must know if numbers of partitions have changed."""
        self._metadata_version = self._metadata.version
        counts = {
            topic: count
            for topic in self.thread.core.group_topics | self._topics
            if (count := self._metadata.partition_count(topic))
        }
        if counts != self._told_counts:
            self._told_counts = counts
            known = {topic: TopicInfo(partitions=count, topic_id="") for topic, count in counts.items()}
            self.thread.submit(TopicsKnown(topics=known, is_answer=False))

    def group_metadata(self) -> GroupMetadata:
        """For a member that the group has removed, this is its old identity. So the coordinator refuses what this
        member did after its removal. Without a generation, the coordinator would accept offsets from anybody
        (KIP-447)."""
        who = self.thread.last_identity() if self._is_subscribed else Identity(NO_GENERATION, NO_MEMBER_ID)
        return GroupMetadata(
            group_id=self._config.group_id,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=self._config.group_instance_id or None,
        )
