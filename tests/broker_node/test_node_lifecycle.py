"""A stop is never lost: if a wait ends at the moment when its task is cancelled, it must not swallow the cancellation.

`asyncio.wait_for` of Python 3.11 swallows it (python/cpython issue 86296). After that, a broker that was asked to stop
waited for its heartbeats for ever.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from broker.node.cluster.lifecycle import Lifecycle
from broker.node.net.channel import ChannelError
from broker.node.process import tasks as module
from broker.node.settings.config import changed, config_of
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

CONFIG = config_of(
    node_id=1,
    controller_quorum_voters={},
    listeners={},
    advertised_listeners={},
    log_dirs=(),
    harness_cluster_id="cluster",
    controller_quorum_request_timeout_ms=1_000,
    broker_heartbeat_interval_ms=1_000,
    broker_session_timeout_ms=9_000,
)


class Control:
    """A controller that registers the broker and answers every heartbeat at once; fenced, so that images wake it."""

    def __init__(self) -> None:
        self.heartbeats = 0
        self.previous_broker_epochs: list[int] = []

    async def call_once(self, api_key: ApiKey, version: int, message: object, *, timeout_ms: int) -> object:
        if api_key is ApiKey.BROKER_REGISTRATION:
            self.previous_broker_epochs.append(cast("Any", message).previous_broker_epoch)
            return SimpleNamespace(error_code=ErrorCode.none, broker_epoch=7)
        self.heartbeats += 1
        if self.heartbeats > 3:
            raise ChannelError("the test is over: the heartbeats should have ended")
        return SimpleNamespace(error_code=ErrorCode.none, is_fenced=True, should_shut_down=False)


def test_heartbeats_end_when_cancelled_in_the_moment_in_which_they_are_woken() -> None:
    async def scenario(wakes_before_cancel: int) -> None:
        control = Control()
        lifecycle = Lifecycle(
            config=CONFIG,
            control=cast("Any", control),
            metadata=cast("Any", SimpleNamespace(image=SimpleNamespace(offset=0, brokers={}))),
            logger=cast("Any", SimpleNamespace(info=lambda *a, **k: None, warning=lambda *a, **k: None)),
            rng=random.Random(1),
            offline_directories=list,
            previous_broker_epoch=lambda: 5,
        )
        lifecycle.may_join.set()
        running = asyncio.create_task(lifecycle.run())
        while not control.heartbeats:
            assert not running.done(), "it ended before its first heartbeat"
            await asyncio.sleep(0)
        for _ in range(3):  # it waits for the next one now
            await asyncio.sleep(0)
        lifecycle.image_changed()
        for _ in range(wakes_before_cancel):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait({running}, timeout=60)
        assert done, "the heartbeats went on after the cancellation"
        assert running.cancelled()
        assert control.previous_broker_epochs == [5], "the life before shut down cleanly in this epoch"

    for wakes_before_cancel in range(4):
        asyncio.run(scenario(wakes_before_cancel))


def test_a_task_that_outlives_its_cancellation_is_named_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[dict[str, object]] = []

    async def stubborn(is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            with suppress(asyncio.CancelledError):
                await is_over.wait()

    async def scenario() -> None:
        is_over = asyncio.Event()
        running = module.Tasks(cast("Any", SimpleNamespace(warning=lambda event, **facts: warnings.append(facts))))
        tasks = [running.spawn(stubborn(is_over)), running.spawn(asyncio.sleep(60))]
        await asyncio.sleep(0)
        await running.end()
        assert [task.done() for task in tasks] == [False, True]
        is_over.set()
        await tasks[0]

    monkeypatch.setattr(module, "END_TASKS_S", 0.05)
    asyncio.run(scenario())
    assert len(warnings) == 1
    assert ".stubborn" in str(warnings[0]["name"])


class Unregistering:
    """A controller that has forgotten the broker after its first heartbeat."""

    def __init__(self, error: ErrorCode, enough: int) -> None:
        self.error, self.enough = error, enough
        self.registrations = self.heartbeats = 0
        self.done = asyncio.Event()

    async def call_once(self, api_key: ApiKey, version: int, message: object, *, timeout_ms: int) -> object:
        if api_key is ApiKey.BROKER_REGISTRATION:
            self.registrations += 1
            return SimpleNamespace(error_code=ErrorCode.none, broker_epoch=6 + self.registrations)
        self.heartbeats += 1
        if self.heartbeats >= self.enough:
            self.done.set()
        error = self.error if self.heartbeats == 2 else ErrorCode.none
        error = self.error if self.error is ErrorCode.broker_id_not_registered and self.heartbeats > 1 else error
        return SimpleNamespace(error_code=error, is_fenced=False, should_shut_down=False)


@pytest.mark.parametrize(
    ("error", "registrations", "warnings"),
    [(ErrorCode.broker_id_not_registered, 1, 1), (ErrorCode.stale_broker_epoch, 2, 0)],
)
def test_a_broker_that_was_unregistered_stays_out_and_goes_on_to_ask(
    error: ErrorCode, registrations: int, warnings: int
) -> None:
    async def scenario() -> None:
        control, warned = Unregistering(error, 5), []
        lifecycle = Lifecycle(
            config=changed(CONFIG, broker_heartbeat_interval_ms=1),
            control=cast("Any", control),
            metadata=cast("Any", SimpleNamespace(image=SimpleNamespace(offset=0, brokers={}))),
            logger=cast("Any", SimpleNamespace(info=lambda *a, **k: None, warning=lambda *a, **k: warned.append(a))),
            rng=random.Random(1),
            offline_directories=list,
            previous_broker_epoch=lambda: -1,
        )
        lifecycle.may_join.set()
        running = asyncio.create_task(lifecycle.run())
        async with asyncio.timeout(30):
            await control.done.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        assert control.registrations == registrations
        assert len(warned) == warnings
        assert lifecycle.is_fenced == (registrations == 1)

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("is_told", [True, False])
def test_a_broker_whose_controller_does_not_learn_of_a_failed_directory_ends(is_told: bool) -> None:
    """log.dir.failure.timeout.ms: until the controller knows it, nobody else leads what lies there."""
    failed = UUID(int=500)

    async def scenario() -> list[OSError]:
        control, untold = Control(), list[OSError]()
        lifecycle = Lifecycle(
            config=changed(CONFIG, log_dir_failure_timeout_ms=200),
            control=cast("Any", control),
            metadata=cast("Any", SimpleNamespace(image=SimpleNamespace(offset=0, brokers={}))),
            logger=cast("Any", SimpleNamespace(info=lambda *a, **k: None, warning=lambda *a, **k: None)),
            rng=random.Random(1),
            offline_directories=lambda: [failed],
            previous_broker_epoch=lambda: 5,
            on_untold=untold.append,
        )
        lifecycle.may_join.set()
        running = asyncio.create_task(lifecycle.run()) if is_told else None
        lifecycle.directory_failed(failed)
        await asyncio.sleep(0.5)
        if running is not None:
            running.cancel()
        return untold

    assert len(asyncio.run(scenario())) == (0 if is_told else 1)
