"""Commits of a group's offsets, and the look-up of committed offsets, for the application's thread.

Owns: automatic commits, the calls that wait for an answer, and the callbacks that are due. The member's thread sends
the requests (member_thread.py). Callbacks and interceptors run in the thread that polls or commits, as in Java.
Shown by tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import CommitFailedError, KafkaError, TimedOutError
from broker.client.core.fetcher import FetcherCore
from broker.client.core.groups.events import NO_GENERATION
from broker.client.core.transactions import OffsetAndMetadata
from broker.client.group_call import GroupCall
from broker.client.group_requests import Identity, commit_error, commit_request, committed_offsets, committed_request
from broker.client.interceptors import ConsumerInterceptors
from broker.client.member_thread import MemberThread
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.wire.shapes.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from broker.wire.shapes.offset_fetch import OffsetFetchRequest

_LOG = logging.getLogger(__name__)
Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback: TypeAlias = Callable[[Offsets, KafkaError | None], None]
# The member is no longer in the group. Its partitions belong to another member, which reads the uncommitted records
# again.
_FENCED = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
        ErrorCode.fenced_member_epoch,
        ErrorCode.rebalance_in_progress,
    }
)


class GroupCommits:
    """`has_membership` says whether a member makes the commits. Without a subscription they carry no member id."""

    def __init__(
        self,
        config: ConsumerConfig,
        fetcher: FetcherCore,
        thread: MemberThread,
        interceptors: ConsumerInterceptors,
        has_membership: Callable[[], bool],
    ) -> None:
        self._config = config
        self._fetcher = fetcher
        self._thread = thread
        self._interceptors = interceptors
        self._has_membership = has_membership
        self._finished: deque[Callable[[], None]] = deque()
        self._done: deque[Offsets] = deque()  # commits that the interceptors have not been told of
        self._look_up: GroupCall | None = None
        self._due_ms = 0
        self._last_commit: dict[TopicPartition, int] = {}
        # True while the application gives up or takes partitions: its callbacks wait until then
        self.holds_callbacks = False

    def on_poll(self, time_ms: int) -> None:
        """Records that earlier polls returned now count as processed."""
        if self._config.enable_auto_commit and time_ms >= self._due_ms:
            self._due_ms = time_ms + self._config.auto_commit_interval_ms
            self._commit_automatically()
        self._look_committed_up(time_ms)

    def run_callbacks(self) -> None:
        self._tell_interceptors()
        while self._finished:
            self._finished.popleft()()

    # -- committed offsets ----------------------------------------------------------------------------------------

    def _look_committed_up(self, time_ms: int) -> None:
        """Does not wait. It asks for unknown offsets, and takes the answers that have arrived."""
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
                self._thread.call(self._look_up)

    def _committed_call(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> GroupCall:
        chosen = list(partitions)

        def build(version: int, who: Identity) -> OffsetFetchRequest:
            return committed_request(version, self._config, who, chosen)

        return GroupCall(ApiKey.OFFSET_FETCH, build, committed_offsets, deadline_ms, is_repeated=True)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        call = self._committed_call(partitions, now_ms() + timeout_ms)
        self._thread.call(call)
        self._wait(call)
        if call.error is not None:
            raise call.error
        result: dict[TopicPartition, OffsetAndMetadata | None] = call.result
        return result

    # -- commits --------------------------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of all assigned partitions that have one. A commit without offsets commits these."""
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
        self._thread.call(call)
        self._wait(call)
        self._tell_interceptors()
        if not self.holds_callbacks:
            self.run_callbacks()
        if call.error is not None:
            raise _commit_failure(call.error)

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        """The commit is not retried, because a later commit may be in the log before the retry. The callback runs in a
        later call of this client."""
        if not offsets:
            return

        def on_done(call: GroupCall) -> None:
            error = None if call.error is None else _commit_failure(call.error)
            if callback is not None:
                self._finished.append(partial(callback, offsets, error))
            elif error is not None:
                _LOG.warning("event=commit_failed group=%s cause=%r", self._config.group_id, str(error))

        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        self._thread.call(self._commit_call(offsets, deadline_ms, is_repeated=False, on_done=on_done))

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
            if self._has_membership() and who.generation == NO_GENERATION:
                # If the group has become empty, the coordinator would accept a commit without a member.
                raise KafkaError(ErrorCode.unknown_member_id, "not a member of the group any more")
            return commit_request(version, self._config, who, chosen)

        def parse(answer: OffsetCommitResponse) -> None:
            error = commit_error(answer)
            if error is not None:
                raise error

        def done(call: GroupCall) -> None:
            if call.error is None and self._interceptors:
                self._done.append(chosen)
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

    def commit_before_change(self, deadline_ms: int | None = None) -> None:
        """The automatic commit before partitions are given up. A failure is only logged: records that were not
        committed are read again."""
        self._last_commit.clear()
        left_ms = self._config.default_api_timeout_ms if deadline_ms is None else max(1, deadline_ms - now_ms())
        try:
            self.commit_sync(self.positions(), min(left_ms, self._config.max_poll_interval_ms))
        except KafkaError as error:
            _LOG.warning("event=auto_commit_failed group=%s cause=%r", self._config.group_id, str(error))

    def _wait(self, call: GroupCall) -> None:
        # the member's thread ends the call at its deadline
        call.done.wait(max(0, call.deadline_ms - now_ms() + 1000) / 1000)
        if not call.done.is_set():
            raise TimedOutError(f"{call.api_key.name}: no answer in time", definite=False)

    def _tell_interceptors(self) -> None:
        while self._done:
            self._interceptors.on_commit(self._done.popleft())


def _is_passing(error: KafkaError) -> bool:
    """Whether a look-up that failed with this error is made again."""
    is_of_membership = error.code in (ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch)
    return error.retriable or is_of_membership or isinstance(error, TimedOutError)


def _commit_failure(error: KafkaError) -> KafkaError:
    return CommitFailedError(error) if error.code in _FENCED else error
