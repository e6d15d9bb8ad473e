"""What a broker asks its peers about many partitions goes in several requests, each as large as the peer takes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinator.transactions.types import WriteMarkers
from broker.node.coordination import markers
from broker.node.replicas.isr import IsrSender
from broker.replication import ProposeIsr
from broker.wire.errors import ErrorCode


def _job(partitions: int) -> Any:  # Any: a private class of markers.py
    effect = WriteMarkers(
        transactional_id="x",
        producer_id=1,
        producer_epoch=0,
        is_commit=True,
        coordinator_epoch=0,
        transaction_version=2,
        partitions=frozenset(("t", index) for index in range(partitions)),
    )
    return markers._Job(shard_index=0, effect=effect, left=set(effect.partitions))


def test_the_markers_of_one_transaction_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "PARTITIONS_MAX", 4)
    first, second = _job(3), _job(6)
    waiting = {first: set(first.left), second: set(second.left)}
    sizes: list[list[int]] = []
    sent: dict[Any, set[tuple[str, int]]] = {first: set(), second: set()}
    while waiting:
        batch = markers._next_batch(waiting)
        sizes.append([len(partitions) for partitions in batch.values()])
        for job, partitions in batch.items():
            assert not sent[job] & partitions
            sent[job] |= partitions
    assert sizes == [[3, 1], [4], [1]]
    assert sent == {first: first.left, second: second.left}


def test_isr_proposals_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.node.replicas.isr.PROPOSALS_MAX", 2)

    async def run() -> None:
        asked: list[int] = []
        answered: list[int] = []

        async def call_once(api_key: int, version: int, message: Any, *, timeout_ms: int) -> Any:
            asked.append(len(message.topics))
            return SimpleNamespace(error_code=ErrorCode.none, topics=[])

        sender = IsrSender(
            settings=SimpleNamespace(node_id=1, controller_quorum_request_timeout_ms=1_000),  # type: ignore[arg-type]
            control=SimpleNamespace(call_once=call_once),  # type: ignore[arg-type]
            logger=None,  # type: ignore[arg-type]
        )
        for index in range(5):
            hosted = SimpleNamespace(key=("t", index), topic_id=None, index=index)
            proposal = ProposeIsr(attempt=1, leader_epoch=0, partition_epoch=0, isr=(1,), broker_epochs=(1,))
            sender.propose(hosted, proposal)  # type: ignore[arg-type]
        epoch: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        epoch.set_result(1)
        partitions = SimpleNamespace(perform=lambda hosted, event: answered.append(hosted.index))
        task = asyncio.create_task(sender.run(partitions, SimpleNamespace(broker_epoch=epoch)))  # type: ignore[arg-type]
        async with asyncio.timeout(30):
            while len(answered) < 5:
                await asyncio.sleep(0)
        task.cancel()
        assert asked == [2, 2, 1]
        assert answered == [0, 1, 2, 3, 4]

    asyncio.run(run())
