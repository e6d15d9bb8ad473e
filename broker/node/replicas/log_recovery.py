"""Opens the logs that the previous process left, before the broker joins and outside of the event loop. Also removes
deleted logs.

A scan of large logs takes minutes. On the event loop, this node would lose its place as a voter in the quorum
meanwhile, and a registered broker would lose its session. So a thread opens one log after another. It begins when the
image contains everything that the previous process knew (such as the settings of the logs). The broker registers when
all logs are open.

A topic may have been deleted while this broker was down. Its logs (strays) are deleted when the image contains every
decision of that time. They are recognised by topic id. A directory without a topic id was not made by this broker and
stays.
Shown by tests/broker_node/test_node_log_recovery.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from typing import TypeAlias
from uuid import UUID

from broker.controller.image import MetadataImage
from broker.log.config import LogConfig
from broker.log.directory import LogDirectory
from broker.log.errors import STORAGE_ERRORS, LogError
from broker.log.partition_log import PartitionLog
from broker.node.process.clock import monotonic_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.directories import LogDirectories

DISCARDED_AT_ONCE_MAX = 5  # each needs some system calls, and a sync if the topic is compacted: 0.1 to 10 ms
PROGRESS_MS = 1_000  # the time between two log lines of a long recovery

RunBlocking: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]


async def in_thread(work: Callable[[], None]) -> None:
    """Runs `work` in a thread. The process does not wait for this thread at its end. Raises the exception of `work`."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if done.done():
            return  # the caller was cancelled meanwhile
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:  # passed on to the caller
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, failure)

    threading.Thread(target=run, name="storage", daemon=True).start()
    await done


class LogRecovery:
    def __init__(
        self,
        *,
        node_id: int,
        directories: LogDirectories,
        directory_failed: Callable[[LogDirectory, OSError], None],
        log_config: Callable[[MetadataImage, str], LogConfig],
        run_blocking: RunBlocking,
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._node_id, self._directories, self._log_config = node_id, directories, log_config
        self._directory_failed = directory_failed
        self._run_blocking, self._journal, self._logger = run_blocking, journal, logger
        self._left = directories.partitions()  # logs to open before the broker joins
        self._opened: dict[tuple[str, int], PartitionLog] = {}  # open logs whose partitions are not hosted yet
        self._going: dict[tuple[str, int], None] = {}  # no longer served, but their directories still have their names
        self._turn: asyncio.Handle | None = None
        self._has_discarded = asyncio.Event()

    @property
    def has_work(self) -> bool:
        return bool(self._left)

    async def run(self, image: MetadataImage) -> None:
        """Opens every log whose partition is on this broker according to the image. If a log cannot be opened, it is
        skipped. The code that hosts the partition gets the error again and handles it."""
        keys = [key for key in self._left if not self._is_stray(image, *key)]
        began_ms = told_ms = monotonic_ms()
        clean = self._directories.was_clean_shutdown
        self._logger.info("recovery_started", logs=len(keys), clean=clean)
        for number, key in enumerate(keys, start=1):
            try:
                await self._run_blocking(partial(self._open, *key, image))
            except (*STORAGE_ERRORS, LogError, ValueError) as error:
                self._logger.error("log_not_recovered", topic=key[0], partition=key[1], cause=repr(str(error)))
            now_ms = monotonic_ms()
            if now_ms - told_ms >= PROGRESS_MS:
                told_ms = now_ms
                self._logger.info("recovery_goes_on", logs=number, of=len(keys), ms=now_ms - began_ms)
        self._left = []
        scanned = sum(log.recovery.scanned_segments for log in self._opened.values())
        cut_bytes = sum(log.recovery.cut_bytes for log in self._opened.values())
        facts = {"scanned_segments": scanned, "cut_bytes": cut_bytes, "ms": monotonic_ms() - began_ms}
        self._logger.info("recovery_done", logs=len(self._opened), **facts)

    def _open(self, topic: str, partition: int, image: MetadataImage) -> None:
        state = image.topics[topic]
        config = self._log_config(image, topic)
        wanted = state.partitions[partition].directory_of(self._node_id)
        key = (topic, partition)
        self._opened[key] = self._directories.open_log(key, topic_id=str(state.topic_id), config=config, wanted=wanted)

    def _is_stray(self, image: MetadataImage, topic: str, partition: int) -> bool:
        try:
            stored = self._directories.topic_id_of(topic, partition)
        # nothing shows that it is a stray; the code that hosts the partition will find it unreadable
        except OSError as error:
            self._logger.error("topic_id_unreadable", topic=topic, partition=partition, cause=repr(str(error)))
            return False
        try:
            known = None if stored is None else image.topic_by_id(UUID(stored))
        except ValueError:
            known = None
        if known is None or known.name != topic or partition >= len(known.partitions):
            return True
        return self._node_id not in known.partitions[partition].replicas

    def take(self, topic: str, partition: int, topic_id: str, config: LogConfig) -> PartitionLog | None:
        """The log, if it was opened for a topic with this id. It gets the present settings, which may have changed
        since."""
        log = self._opened.get((topic, partition))
        if log is None or log.topic_id != topic_id:
            return None
        del self._opened[(topic, partition)]
        log.config = config
        log.sync_what_is_counted_on()
        return log

    def forget(self, topic: str, partition: int) -> None:
        """Closes the log if it is open, because its directory will be removed."""
        log = self._opened.pop((topic, partition), None)
        if log is not None:
            log.abandon()

    def untaken(self) -> list[PartitionLog]:
        """The open logs that are not hosted. A clean stop has to close them too."""
        return list(self._opened.values())

    # -- deleted logs ------------------------------------------------------------------------------------------------

    def discard_strays(self, image: MetadataImage) -> None:
        """Discards all strays. `image` must contain every decision from before this process started. Otherwise a topic
        that this broker does not know yet would be removed."""
        for topic, partition in self._directories.partitions():
            if not self._is_stray(image, topic, partition):
                continue
            names: dict[str, object] = {"topic": topic, "partition": partition}
            try:
                names["topic_id"] = topic_id = self._directories.topic_id_of(topic, partition)
            except OSError as error:
                self._logger.error("stray_log_left", **names, cause=repr(str(error)))
                continue
            if topic_id is None:
                self._logger.warning("directory_left", **names, cause=repr("no topic id: nothing says that it is ours"))
                continue
            self.forget(topic, partition)
            try:
                self.discard(topic, partition)
            except OSError as error:  # the log is not served: the next start tries again
                self._logger.error("stray_log_left", **names, cause=repr(str(error)))
                continue
            self._journal.write("stray_log_removed", **names)
            self._logger.warning("stray_log_removed", **names, cause=repr("its topic was deleted while we were down"))

    def discard(self, topic: str, partition: int) -> None:
        """Removes the log at once by renaming it. The files are deleted in the background."""
        self._directories.discard_log(topic, partition)
        self.remove_soon()

    def remove_soon(self) -> None:
        """The files of a log that was discarded are deleted in the background."""
        self._has_discarded.set()

    def discard_soon(self, topic: str, partition: int) -> None:
        """Discards the log in a later turn of the event loop, a few logs in each turn. So ten thousand partitions do
        not block other work. If the process is killed before the end, the rest are strays, which the next process
        discards."""
        self._going[(topic, partition)] = None
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._discard_some)

    def discard_now(self, topic: str, partition: int) -> None:
        """Discards the log at once, before a partition of the same name begins."""
        if (topic, partition) in self._going:
            del self._going[(topic, partition)]
            try:
                self.discard(topic, partition)
            except OSError as error:  # the topic no longer exists, so the log is not served
                self._logger.error("log_not_removed", topic=topic, partition=partition, cause=repr(str(error)))

    def finish_discards(self) -> None:
        """Discards all remaining logs, before a clean stop."""
        for key in list(self._going):
            self.discard_now(*key)

    def _discard_some(self) -> None:
        self._turn = None
        for key in list(islice(self._going, DISCARDED_AT_ONCE_MAX)):
            self.discard_now(*key)
        if self._going:
            self._turn = asyncio.get_running_loop().call_soon(self._discard_some)

    async def run_removals(self) -> None:
        """Deletes the files of discarded logs until cancelled. It begins with files that an earlier process left."""
        if any(each.has_discarded() for each in self._directories.working):
            self._has_discarded.set()
        while True:
            await self._has_discarded.wait()
            self._has_discarded.clear()
            for directory in list(self._directories.working):
                try:
                    await self._run_blocking(directory.remove_discarded)
                except OSError as error:
                    self._directory_failed(directory, error)
