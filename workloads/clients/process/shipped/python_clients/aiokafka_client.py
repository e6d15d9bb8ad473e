"""A client of the harness over aiokafka. It speaks docs/reference/client-protocol.md.

Its event loop runs between commands too, so heartbeats and retries go on. Calls that wait are tasks: other commands are
heard meanwhile, and `cancel` ends them. It takes the properties for which its version of the library has an argument.
"""

import asyncio
import inspect
import json
import logging
import sys
import time

import aiokafka
import aiokafka.errors
import lines
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from lines import Outcomes, Refused, of_sides, position, say

OTHER = {"batch.size": "max_batch_size"}
IN_FLIGHT = "max.in.flight.requests.per.connection"
LINE_BYTES_MAX = 8 << 20
# IllegalOperation is no KafkaError: a call that the library's state does not allow, as after a transaction's error.
OF_LIBRARY = (aiokafka.errors.KafkaError, aiokafka.errors.IllegalOperation)
ERRORS = (*OF_LIBRARY, TimeoutError, ValueError, TypeError, OSError)


def arguments(of):
    return inspect.signature(of.__init__).parameters


class Client(aiokafka.ConsumerRebalanceListener):
    def __init__(self):
        self.properties = {
            "producer": {**lines.known(lines.PRODUCER, arguments(aiokafka.AIOKafkaProducer), OTHER), IN_FLIGHT: int},
            "consumer": lines.known(lines.CONSUMER, arguments(aiokafka.AIOKafkaConsumer), OTHER),
        }
        self.producer = self.consumer = None

    async def connect(self, id, role, properties, timeout_ms, failed_codes=(), one_by_one=False, **_):
        sides = {"producer": ["producer"], "consumer": ["consumer"], "copier": ["consumer", "producer"]}[role]
        if properties.get(IN_FLIGHT, "1") != "1":
            raise Refused("aiokafka always has one request in flight per broker; set it to 1", property=IN_FLIGHT)
        made = dict(zip(sides, of_sides(properties, [self.properties[side] for side in sides]), strict=True))
        self.outcomes, self.is_one_by_one = Outcomes(failed_codes, properties.get("acks") != "0"), one_by_one
        async with asyncio.timeout(timeout_ms / 1000):
            if "consumer" in made:
                self.consumer = aiokafka.AIOKafkaConsumer(**made["consumer"])
                await self.consumer.start()
            if "producer" in made:
                keywords = made["producer"]
                keywords.pop(IN_FLIGHT.replace(".", "_"), None)
                if "batch_size" in keywords:
                    keywords["max_batch_size"] = keywords.pop("batch_size")
                self.producer = aiokafka.AIOKafkaProducer(**keywords)
                await self.producer.start()
        say("done", id=id, effective=in_force(made.get("producer")))
        return lines.ANSWERED

    async def produce(self, topic, records, callers=1, **_):
        await asyncio.gather(*(self.give(topic, records[caller::callers]) for caller in range(callers)))

    async def give(self, topic, records):
        for record in records:
            seq = record["seq"]
            headers = [(each["key"], lines.decoded(each["value"])) for each in record.get("headers", [])]
            self.outcomes.begin(seq)
            try:
                future = await self.producer.send(
                    topic, lines.decoded(record["value"]), lines.decoded(record["key"]), record.get("partition"),
                    headers=headers or None,
                )  # fmt: skip
            except (*ERRORS, AssertionError) as error:
                self.outcomes.not_taken(seq, error)
                continue
            future.add_done_callback(lambda done, seq=seq: self.outcome(seq, done))

    def outcome(self, seq, done):
        error = Refused("cancelled") if done.cancelled() else done.exception()
        if error is not None:
            self.outcomes.lost(seq, error)
        else:
            metadata = done.result()
            self.outcomes.acknowledged(seq, metadata.partition, metadata.offset, metadata.timestamp)

    async def flush(self, timeout_ms, **_):
        async with asyncio.timeout(timeout_ms / 1000):
            await self.producer.flush()
            await asyncio.sleep(0)  # the last callbacks
        if self.outcomes.open:
            raise Refused(f"{len(self.outcomes.open)} records have no outcome yet")

    async def begin(self, **_):
        await self.producer.begin_transaction()

    async def send_offsets(self, partitions, timeout_ms, **_):
        group = self.consumer._group_id
        await self.of_transaction(timeout_ms, self.producer.send_offsets_to_transaction(offsets(partitions), group))

    async def commit_transaction(self, timeout_ms, **_):
        await self.of_transaction(timeout_ms, self.producer.commit_transaction())

    async def abort_transaction(self, timeout_ms, **_):
        await self.of_transaction(timeout_ms, self.producer.abort_transaction())

    async def of_transaction(self, timeout_ms, work):
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await work
        except (*OF_LIBRARY, TimeoutError) as error:
            is_over = isinstance(error, aiokafka.errors.ProducerFenced)
            wish = "close" if is_over else "retry" if isinstance(error, TimeoutError) else "abort"
            raise Refused(repr(error), code=lines.code_of(error), next=wish) from error

    async def subscribe(self, topics, **_):
        self.consumer.subscribe(topics, listener=self)

    def on_partitions_assigned(self, assigned):
        self.told("assigned", assigned)

    def on_partitions_revoked(self, revoked):
        self.told("revoked", revoked)

    def told(self, event, partitions):
        if partitions:
            say(event, partitions=[position(each.topic, each.partition) for each in sorted(partitions)])

    async def assign(self, partitions, timeout_ms, **_):
        self.consumer.assign(places(partitions))
        async with asyncio.timeout(timeout_ms / 1000):
            for each, place in zip(partitions, places(partitions), strict=True):
                if each["offset"] == -2:
                    await self.consumer.seek_to_beginning(place)
                elif each["offset"] == -1:
                    await self.consumer.seek_to_end(place)
                else:
                    self.consumer.seek(place, each["offset"])

    async def poll(self, id, timeout_ms, max_records):
        if self.is_one_by_one:
            records = await self.next_one(timeout_ms)
        else:
            found = await self.consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)
            records = [each for some in found.values() for each in some]
        say("polled", id=id, records=lines.polled(records))
        return lines.ANSWERED

    async def next_one(self, timeout_ms):
        """As `async for` gives it. Without any time it would not even look."""
        try:
            async with asyncio.timeout(max(timeout_ms, 1) / 1000):
                return [await self.consumer.getone()]
        except TimeoutError:
            return []

    async def pause(self, partitions, **_):
        self.consumer.pause(*places(partitions))

    async def resume(self, partitions, **_):
        self.consumer.resume(*places(partitions))

    async def seek(self, partitions, **_):
        for each, place in zip(partitions, places(partitions), strict=True):
            self.consumer.seek(place, each["offset"])

    async def commit(self, id, partitions, timeout_ms):
        async with asyncio.timeout(timeout_ms / 1000):
            await self.consumer.commit(offsets(partitions))
        say("committed", id=id, partitions=partitions)
        return lines.ANSWERED

    async def close(self, timeout_ms, **_):
        deadline_s = time.monotonic() + timeout_ms / 1000  # of both sides together
        for side in (self.consumer, self.producer):
            if side is not None:
                stopping = asyncio.ensure_future(side.stop())
                await asyncio.wait([stopping], timeout=max(deadline_s - time.monotonic(), 0))
                if not stopping.done():
                    stopping.cancel()
                elif not stopping.cancelled():
                    stopping.exception()  # asyncio warns of one that is never read
        await asyncio.sleep(0)
        self.outcomes.give_up("the producer is closed")
        self.producer = self.consumer = None


def places(partitions):
    return [TopicPartition(each["topic"], each["partition"]) for each in partitions]


def offsets(partitions):
    return {
        place: OffsetAndMetadata(each["offset"], "") for each, place in zip(partitions, places(partitions), strict=True)
    }


def in_force(producing):
    """aiokafka has no delivery.timeout.ms: without idempotence a batch is given up after the time of a request."""
    if producing is None or producing.get("enable_idempotence") or producing.get("transactional_id"):
        return {}
    return {"delivery.timeout.ms": str(producing.get("request_timeout_ms", 40_000))}


WAITS = ("poll", "commit", "flush")


async def carry_out(client, do, command):
    try:
        if await lines.method_of(client, do)(**command) is not lines.ANSWERED:
            say("done", id=command["id"])
    except asyncio.CancelledError:
        if do == "poll":
            say("polled", id=command["id"], records=[])
        else:
            lines.refuse(command["id"], Refused("cancelled"))
    except (Refused, AssertionError, *ERRORS) as error:
        lines.refuse(command["id"], error)


async def cancel(task, number):
    """What it ends is answered first."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
    say("done", id=number)


async def main():
    client, tasks = Client(), {}
    can = "produce partition headers callers assign subscribe seek pause commit transactions send-offsets".split()  # noqa: SIM905
    can, lacks = [*can, "one-by-one", "overlap", "cancel"], {"share": "aiokafka has no share groups"}
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    lines.ready(client, client="aiokafka", version=aiokafka.__version__, can=can, lacks=lacks)
    while line := await reader.readline():
        command = json.loads(line)
        do = command.pop("do")
        if do == "produce":
            await client.produce(**command)
        elif do == "cancel":
            await cancel(tasks.get(command["command"]), command["id"])
        elif do in WAITS:
            task = tasks[command["id"]] = asyncio.create_task(carry_out(client, do, command))
            task.add_done_callback(lambda _, number=command["id"]: tasks.pop(number))
            await asyncio.sleep(0)  # it has begun
        else:
            await carry_out(client, do, command)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
