"""Tells the checker of share groups what the leaders do: what they load, deliver, answer, and write to coordinators."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from broker.mutants import Patch
from broker.node.features.share_groups.delivery.partition import Acknowledgement
from broker.node.features.share_groups.handlers import api_78_share_fetch
from broker.node.features.share_groups.live_share import LiveShare, Told
from broker.node.features.share_groups.persister import Persister, Place, StateToWrite
from broker.node.process.clock import monotonic_ms
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.node.features.share_groups.handlers.reads import ShareRead
    from broker.node.features.share_groups.states.shard import StateResult
    from broker.sim.share_checker import ShareChecker


@contextlib.contextmanager
def shares_watched(checker: ShareChecker) -> Iterator[None]:
    """Within this context the checker sees what all brokers do with share partitions."""
    patch = Patch()
    _watch_deliveries(checker, patch)
    _watch_answers(checker, patch)
    _watch_states(checker, patch)
    try:
        yield
    finally:
        patch.undo()


def _watch_deliveries(checker: ShareChecker, patch: Patch) -> None:

    def watched(found: ShareRead, member: str, *, records_max: int, batch_size: int, is_strict: bool) -> int:
        now_ms = monotonic_ms()
        count: int = acquire(found, member, records_max=records_max, batch_size=batch_size, is_strict=is_strict)
        if found.live is not None:
            checker.acquired(found.live, member, found.acquired, now_ms)
        return count

    locks_due = LiveShare._locks_due

    def ended(self: LiveShare) -> None:
        locks_due(self)
        checker.locks_ended(self, monotonic_ms())

    acquire = patch.set(api_78_share_fetch, "acquire", watched)
    patch.set(LiveShare, "_locks_due", ended)


def _watch_answers(checker: ShareChecker, patch: Patch) -> None:
    acknowledge, release = LiveShare.acknowledge, LiveShare.release

    def acknowledged(self: LiveShare, member: str, acks: Sequence[Acknowledgement], told: Told) -> None:
        asked = checker.asked(self, member, acks, monotonic_ms())

        def answer(error: ErrorCode, message: str | None) -> None:
            checker.answered(self, asked, error)
            told(error, message)

        acknowledge(self, member, acks, answer)

    def released(self: LiveShare, member: str, told: Told) -> None:
        held = checker.held(self, member) if self.is_current else None

        def answer(error: ErrorCode, message: str | None) -> None:
            if held is not None:
                checker.answered(self, held, error)
            told(error, message)

        release(self, member, answer)

    patch.set(LiveShare, "acknowledge", acknowledged)
    patch.set(LiveShare, "release", released)


def _watch_states(checker: ShareChecker, patch: Patch) -> None:
    load, read, write, initialize = LiveShare.load, Persister.read, Persister.write, Persister.initialize
    last_read: dict[tuple[Persister, str, Place], StateResult] = {}
    states = checker.states

    async def loaded(self: LiveShare) -> ErrorCode:
        error = await load(self)
        if self.core is not None:
            result = last_read[(self._persister, self.group_id, self.place)]
            checker.loaded(self, result, self._settings().limits, asyncio.get_running_loop())
        return error

    async def watched_read(self: Persister, group_id: str, place: Place, leader_epoch: int) -> StateResult:
        since = states.number
        result = await read(self, group_id, place, leader_epoch)
        if result.error_code is ErrorCode.none:
            last_read[(self, group_id, place)] = result
            states.read((group_id, place), leader_epoch, result, since=since)
        return result

    async def watched_write(self: Persister, group_id: str, place: Place, state: StateToWrite) -> StateResult:
        states.writing((group_id, place), state)
        result = await write(self, group_id, place, state)
        if result.error_code is ErrorCode.none:
            states.written((group_id, place), state)
        return result

    async def initialized(
        self: Persister, group_id: str, state_epoch: int, offsets: Mapping[UUID, Mapping[int, int]]
    ) -> dict[Place, StateResult]:
        states.initializing(group_id, state_epoch, offsets)
        return await initialize(self, group_id, state_epoch, offsets)

    patch.set(LiveShare, "load", loaded)
    patch.set(Persister, "read", watched_read)
    patch.set(Persister, "write", watched_write)
    patch.set(Persister, "initialize", initialized)
