"""aiokafka. Its event loop runs inside poll(), in the producer's own thread: no second thread, no lock.

Its send() is a coroutine that waits while the open batch of the partition is full. The library has no other buffer. So
sends are collected here, at most _GATHERED_MAX, and poll() feeds them to the library in order. The library has one
request in flight per broker, and gives up a record after request.timeout.ms. Other values are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import aiokafka
import aiokafka.abc
import aiokafka.codec
import aiokafka.errors

from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients.fates import code_of, status_of
from workloads.clients.keyword_library import CONSUMER, KeywordLibrary
from workloads.clients.keywords import Keyword, acks, boolean, compression, number, same, text
from workloads.clients.protocol import (
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    TransactionAborted,
    TransactionUnknown,
    polled_of,
)

NAME = "aiokafka"
_GATHERED_MAX = 1_000  # far less than a millisecond at the highest rate of this library
_RETRY_S = 0.05
_CLOSE_CONSUMER_S = 2.0
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_COMMON_NUMBERS = "connections.max.idle.ms metadata.max.age.ms request.timeout.ms retry.backoff.ms"
# The library checks the state of a transaction by assertions too.
_REFUSED = (aiokafka.errors.KafkaError, aiokafka.errors.IllegalOperation, AssertionError)
_T = TypeVar("_T")


def _only_one(value: str) -> int:
    if value != "1":
        raise ValueError("aiokafka always has one request in flight per broker; set it to 1")
    return 1


_PRODUCER: dict[str, Keyword] = {
    **same("client.id security.protocol", text),
    **same(_COMMON_NUMBERS, number),
    **same("linger.ms max.request.size transaction.timeout.ms", number),
    **same("enable.idempotence", boolean),
    **same("acks", acks),
    **same("compression.type", compression),
    "batch.size": Keyword(argument="max_batch_size", convert=number),
    _IN_FLIGHT: Keyword(argument=None, convert=_only_one),
}
_PRODUCER_REFUSED = {
    "buffer.memory": "aiokafka buffers one open batch a partition; batch.size is that limit",
    "delivery.timeout.ms": "aiokafka gives a record up after request.timeout.ms; set that",
    "max.block.ms": "the load generator itself waits for space in the buffer",
    "retries": "aiokafka retries until request.timeout.ms is over; set that",
}


def _package_for_codec(codec: str) -> str | None:
    return None if getattr(aiokafka.codec, f"has_{codec}")() else "cramjam"


class _Tokens(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """Tokens for aiokafka, which asks at each login. It does not authenticate again on a connection (KIP-368): when its
    session ends, the broker closes the connection, and aiokafka opens another one."""

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    async def token(self) -> str:
        """Blocks the loop while the endpoint answers, for ten seconds at most."""
        return self._fetch()


LIBRARY = KeywordLibrary(
    name=NAME,
    producer=_PRODUCER,
    refused=_PRODUCER_REFUSED,
    consumer={**CONSUMER, **same(_COMMON_NUMBERS, number)},
    package_for_codec=_package_for_codec,
    token_provider=_Tokens,
)
check_properties = LIBRARY.check_properties
check_consumer_properties = LIBRARY.check_consumer_properties

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it reports each lost connection


def nearest_properties(
    properties: Mapping[str, str], *, as_they_are: Collection[str]
) -> tuple[Mapping[str, str], Sequence[str]]:
    """Fewer requests in flight keep every guarantee that more of them keep. Without delivery.timeout.ms a record is
    given up after request.timeout.ms; with idempotence never."""
    nearest, changes = dict(properties), list[str]()
    in_flight = nearest.get(_IN_FLIGHT, "1")
    if in_flight != "1" and _IN_FLIGHT not in as_they_are:
        nearest[_IN_FLIGHT] = "1"
        changes.append(f"{_IN_FLIGHT} is 1 instead of {in_flight}")
    if "delivery.timeout.ms" in nearest and "delivery.timeout.ms" not in as_they_are:
        del nearest["delivery.timeout.ms"]
        idempotent = nearest.get("enable.idempotence", "false").lower() == "true"
        until = "it never gives up" if idempotent else "it gives up after request.timeout.ms"
        changes.append(f"no delivery.timeout.ms, {until}")
    return nearest, changes


class Loop:
    """An event loop that runs only while a caller waits in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(work)

    def run_within(self, timeout_s: float, connecting: Coroutine[Any, Any, None]) -> None:
        """ClientError if it does not end in time."""
        try:
            self.run(_within(timeout_s, connecting))
        except (aiokafka.errors.KafkaError, TimeoutError, OSError) as error:
            raise ClientError(f"client {NAME}: not connected within {timeout_s:g} s: {error!r}") from error
        except (ValueError, RuntimeError) as error:
            raise ClientError(f"client {NAME}: {error}") from error

    def stop(self, client: Any, timeout_s: float) -> None:
        """A producer or consumer of the library; what it does not finish in time is cancelled."""
        self.run(_stop(client, timeout_s))

    def close(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self.run(asyncio.sleep(0))
        self._loop.close()


class AiokafkaProducer:
    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        self._topics = setup.topics
        self._sink = sink.one
        self._arguments = LIBRARY.producer_arguments(setup.properties)
        if setup.transactional_id is not None:
            self._arguments["transactional_id"] = setup.transactional_id
        self._bootstrap_servers = setup.bootstrap_servers
        self._acks_zero = self._arguments.get("acks") == 0
        self._gathered: deque[tuple[str, bytes, bytes | None, int]] = deque()
        self._loop = Loop()
        self._producer: Any = None  # the library has no usable types
        self._feeder: asyncio.Task[None] | None = None
        self._sends = self._waits = 0

    def connect(self, timeout_s: float) -> None:
        self._loop.run_within(timeout_s, self._start())

    async def _start(self) -> None:
        self._producer = aiokafka.AIOKafkaProducer(bootstrap_servers=self._bootstrap_servers, **self._arguments)
        await self._producer.start()
        for topic in self._topics:
            while not await self._producer.partitions_for(topic):
                await asyncio.sleep(_RETRY_S)

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        if len(self._gathered) >= _GATHERED_MAX:
            return False
        self._gathered.append((topic, value, key, seq))
        return True

    def poll(self, timeout_s: float) -> None:
        self._loop.run(self._poll(timeout_s))

    async def _poll(self, timeout_s: float) -> None:
        if self._gathered and (self._feeder is None or self._feeder.done()):
            self._feeder = asyncio.create_task(self._feed())
        await asyncio.sleep(timeout_s)

    async def _feed(self) -> None:
        gathered, send = self._gathered, self._producer.send
        while gathered:
            topic, value, key, seq = gathered[0]
            try:
                future = await send(topic, value, key)
            except aiokafka.errors.KafkaTimeoutError:
                self._waits += 1
                continue  # no space for request.timeout.ms: nothing was taken, so the same record is tried again
            except aiokafka.errors.KafkaError as error:
                gathered.popleft()
                self._sink(seq, SendStatus.FAILED, code_of(error), ABSENT, ABSENT)
                continue
            gathered.popleft()
            self._sends += 1
            future.add_done_callback(lambda done, seq=seq: self._delivered(seq, done))

    def _delivered(self, seq: int, done: asyncio.Future[Any]) -> None:
        error = ClientError("cancelled") if done.cancelled() else done.exception()
        if error is not None:
            code = code_of(error)
            self._sink(seq, status_of(code, retries_possible=True), code, ABSENT, ABSENT)
        elif self._acks_zero:
            self._sink(seq, SendStatus.UNKNOWN, 0, ABSENT, ABSENT)
        else:
            metadata = done.result()
            append_ms = metadata.timestamp if metadata.timestamp_type == 1 else ABSENT
            self._sink(seq, SendStatus.ACKED, 0, metadata.partition, metadata.offset, append_ms)

    def close(self, timeout_s: float) -> None:
        if self._feeder is not None:
            self._feeder.cancel()
        if self._producer is not None:
            self._loop.stop(self._producer, timeout_s)
        self._loop.close()

    def metrics(self) -> dict[str, float]:
        """The library has no metrics. These are the adapter's counts."""
        return {"records_handed": float(self._sends), "sends_refused_full": float(self._waits)}

    def effective(self) -> dict[str, str]:
        shown = LIBRARY.shown(self._arguments)
        return {**shown, _IN_FLIGHT: "1", "client.library": f"aiokafka {aiokafka.__version__}"}


class AiokafkaTransactionalProducer(AiokafkaProducer):
    """Its start() ends what an earlier producer left open."""

    def begin(self) -> None:
        try:
            self._loop.run(self._producer.begin_transaction())
        except _REFUSED as error:
            raise TransactionUnknown(repr(error), code_of(error)) from error

    def commit(self, timeout_s: float) -> None:
        try:
            self._loop.run(_within(timeout_s, self._commit()))
        except (*_REFUSED, TimeoutError) as error:
            # A commit that was cancelled may have been carried out, and a producer that was fenced can abort nothing.
            if isinstance(error, TimeoutError) or not self._is_abort_needed():
                raise TransactionUnknown(repr(error), code_of(error)) from error
            self.abort(timeout_s)
            raise TransactionAborted(repr(error), code_of(error)) from error

    def abort(self, timeout_s: float) -> None:
        try:
            self._loop.run(_within(timeout_s, self._abort()))
        except (*_REFUSED, TimeoutError) as error:
            raise TransactionUnknown(repr(error), code_of(error)) from error

    def _is_abort_needed(self) -> bool:
        state = self._producer._txn_manager.state  # the library offers no other way to ask
        return bool(state.name == "ABORTABLE_ERROR")

    async def _commit(self) -> None:
        await self._write_gathered()
        await self._producer.commit_transaction()
        await asyncio.sleep(0)  # callbacks of the records

    async def _abort(self) -> None:
        await self._write_gathered()
        await self._producer.flush()
        await self._producer.abort_transaction()
        await asyncio.sleep(0)

    async def _write_gathered(self) -> None:
        while self._gathered or (self._feeder is not None and not self._feeder.done()):
            if self._feeder is None or self._feeder.done():
                self._feeder = asyncio.create_task(self._feed())
            await asyncio.wait([self._feeder])


class AiokafkaConsumer:
    def __init__(self, setup: ClientSetup) -> None:
        self._topics = setup.topics
        self._is_member = setup.group_id is not None
        self._start = setup.start
        self._arguments = LIBRARY.reader_arguments(setup)
        self._loop = Loop()
        self._consumer: Any = None

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        self._loop.run_within(timeout_s, self._begin(partitions))

    async def _begin(self, partitions: Sequence[tuple[str, int]]) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(**self._arguments)
        await self._consumer.start()
        if self._is_member:
            self._consumer.subscribe(list(self._topics))
            return
        chosen = [aiokafka.TopicPartition(topic, partition) for topic, partition in partitions]
        self._consumer.assign(chosen)
        if self._start == "earliest":
            await self._consumer.seek_to_beginning(*chosen)
        else:
            await self._consumer.seek_to_end(*chosen)

    def poll(self, timeout_s: float) -> Polled:
        return self._loop.run(polled_from(self._consumer, timeout_s))

    def close(self) -> None:
        if self._consumer is not None:
            self._loop.stop(self._consumer, _CLOSE_CONSUMER_S)
        self._loop.close()


async def polled_from(consumer: Any, timeout_s: float) -> Polled:
    """One poll. During a fault it may fail. Then it returns nothing, and the next one tries again."""
    try:
        found = await consumer.getmany(timeout_ms=int(timeout_s * 1_000))
    except aiokafka.errors.KafkaError:
        await asyncio.sleep(_RETRY_S)
        found = {}
    return polled_of(found)


async def _within(timeout_s: float, work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(timeout_s):
        await work


async def _stop(client: Any, timeout_s: float) -> None:
    stopping = asyncio.ensure_future(client.stop())
    await asyncio.wait([stopping], timeout=timeout_s)
    if not stopping.done():
        stopping.cancel()
    elif not stopping.cancelled():
        stopping.exception()  # read, because asyncio warns of an exception that is never read
    await asyncio.sleep(0)
