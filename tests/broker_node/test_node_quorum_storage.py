"""An error of the disk under the quorum or the controller ends the process; nobody hears of what is not on the disk."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.node.cluster.failures import QuorumFailedError
from broker.node.cluster.metadata import MetadataHost
from broker.node.cluster.metadata_store import MetadataStore
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.settings.config import config_of
from broker.node.settings.values import Address
from broker.quorum import messages as quorum_messages
from broker.quorum.types import LogEntry, VoteRequest
from broker.sim.disk import Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler
from broker.wire.messages import Message

NOBODY = Address(host="127.0.0.1", port=1)


class Voter:
    """The quorum shell of node 1 of three, on a simulated disk; the others are not there."""

    def __init__(self, disk: SimDisk) -> None:
        self.answers: list[Message] = []
        self.failures: list[QuorumFailedError] = []
        config = config_of(
            node_id=1,
            controller_quorum_voters=dict.fromkeys((1, 2, 3), NOBODY),
            listeners={"INTERNAL": NOBODY},
            advertised_listeners={},
            log_dirs=(Path("/data"),),
        )
        self.host = MetadataHost(
            config=config,
            logger=Logger(1),
            journal=Journal(None, broker_id=1, with_appends=False),
            on_image=lambda old, new: None,
            on_failure=self.failures.append,
            rng=random.Random(1),
            filesystem=SimFileSystem(disk),
        )

    def ask_vote(self, candidate: int, *, epoch: int) -> None:
        request = VoteRequest(
            candidate_id=candidate, candidate_epoch=epoch, last_epoch=0, last_offset=0, pre_vote=False
        )
        message = quorum_messages.request_to_kio(request, receiver_id=1, cluster_id="")
        self.host.quorum_request(message, self.answers.append)

    def granted(self) -> list[bool]:
        return [quorum_messages.response_from_kio(each).vote_granted for each in self.answers]  # type: ignore[union-attr]


def new_disk() -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(1), name="disk")


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await work()

    asyncio.run(bounded())


@pytest.mark.parametrize("call", ["replace", "syncdir"])
def test_a_vote_that_the_disk_did_not_take_is_told_nobody_and_ends_the_voter(call: str) -> None:
    """Shown before: one ENOSPC on quorum-state, and the same broker voted twice in one epoch."""

    async def work() -> None:
        disk = new_disk()
        voter = Voter(disk)
        disk.failures.append(Failure(call=call, where="__cluster_metadata", error=errno.ENOSPC))
        voter.ask_vote(2, epoch=5)
        assert voter.answers == []
        assert [type(each.__cause__) for each in voter.failures] == [OSError]
        assert "No space left on device" in str(voter.failures[0])
        voter.ask_vote(3, epoch=5)  # the disk has room again, but this memory is not to be trusted
        assert voter.answers == []
        assert len(voter.failures) == 1
        later = Voter(disk)  # the next life believes the disk
        later.ask_vote(2, epoch=5)
        later.ask_vote(3, epoch=5)
        assert later.granted() == [True, False]

    run(work)


def test_the_rest_of_an_action_list_is_not_performed_after_an_error() -> None:
    async def work() -> None:
        disk = new_disk()
        disk.failures.append(Failure(call="write", where="__cluster_metadata", error=errno.ENOSPC))
        published: list[object] = []
        alone = config_of(
            node_id=1,
            controller_quorum_voters={1: NOBODY},
            listeners={"INTERNAL": NOBODY},
            advertised_listeners={},
            log_dirs=(Path("/alone"),),
        )
        failures: list[QuorumFailedError] = []
        host = MetadataHost(
            config=alone,
            logger=Logger(1),
            journal=Journal(None, broker_id=1, with_appends=False),
            on_image=lambda old, new: published.append(new),
            on_failure=failures.append,
            rng=random.Random(1),
            filesystem=SimFileSystem(disk),
        )
        host.start()  # the only voter leads at once, and writes that it does
        while not failures:
            await asyncio.sleep(0.01)
        assert published == []  # nothing is committed that was not written
        assert not host.controller.is_active

    run(work)


def test_a_failed_append_leaves_the_store_as_the_disk_has_it() -> None:
    disk = new_disk()
    store = MetadataStore(Path("/data"), cluster_id="c", voters=(1,), filesystem=SimFileSystem(disk))
    store.load()
    store.append((LogEntry(offset=0, epoch=1, values=(b"first",), is_control=False),))
    size = store.size_bytes
    for call in ("write", "sync"):
        disk.failures = [Failure(call=call, where=".log", error=errno.EIO)]
        with pytest.raises(OSError, match="Input/output"):
            store.append((LogEntry(offset=1, epoch=1, values=(b"second",), is_control=False),))
        assert store.size_bytes == size
        disk.failures = [Failure(call="truncate", where=".log", error=errno.EIO)]
        with pytest.raises(OSError, match="Input/output"):
            store.truncate(0)
        assert store.size_bytes == size
