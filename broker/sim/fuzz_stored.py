"""Stores odd batches in a broker of the simulation, and then sends every request that reads logs.

The batches are those that a client may send, and those that an earlier version may have accepted. Their lengths and
CRCs are right. Their headers' names, times, counts and compression are odd, or nobody can read their records.

After each request it checks that no replica is offline, that no callback takes longer than the session timeout
(costs.py tells how long work takes), and that another connection is served. At the end of a block every log is
compacted, and the broker is killed and restarted. Shown by tests/broker_sim/test_sim_fuzz_stored.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.log.compaction import compact, find_cleanable
from broker.mutants import Patch
from broker.node.handlers import partition_produce
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.partitions import Partitions
from broker.node.replicas.produce_checks import Rejection, Unpacked
from broker.sim.clients import PRODUCE_VERSION
from broker.sim.cluster import EXTERNAL
from broker.sim.costs import requests_charged
from broker.sim.fuzz_frames import FuzzError, Target
from broker.sim.plan import TOPIC
from broker.sim.seed_run import virtual_clocks
from broker.wire.apis import ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.codec import encode_request
from broker.wire.compression import CodecId, compress
from broker.wire.messages import build, request_type
from broker.wire.record_check import HEADERS_MAX, RECORDS_MAX
from broker.wire.record_filter import with_body
from broker.wire.records import BatchHeader, parse_batch_header
from broker.wire.varints import encode_varint

PARTITIONS = 2
BATCHES_PER_BLOCK = 12
TIMES = (0, 1, 1_000, 1_007, 5_000, 1_700_000_000_000, 2**62)
_BIG_SHARE = 0.15  # batches that unpack to millions of bytes
_TRUSTED_SHARE = 0.4  # batches that are stored without the checks of Produce, as in an old log
_RESTART_US = 3_000_000


@dataclass(slots=True, kw_only=True)
class StoredFuzzResult:
    batches: int = 0
    refused: int = 0
    requests: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def odd_batch(rng: random.Random) -> tuple[str, bytes]:
    """What it is, and the batch. Its lengths and its CRC are right."""
    codec = rng.choice(list(CodecId))
    if rng.random() < _BIG_SHARE:
        kind, records, count = rng.choice(_BIG)(rng)
        codec = CodecId.ZSTD
    else:
        kind, records, count = rng.choice(_SMALL)(rng)
    base = rng.choice(TIMES)
    header = parse_batch_header(encode_batch([b"v"], timestamps_ms=base, codec=codec))
    header = header._replace(
        record_count=count, last_offset_delta=count - 1, max_timestamp=rng.choice((base, base, -1, *TIMES))
    )
    return f"{kind}, {codec.name.lower()}", with_body(header, compress(codec, records))


Records = tuple[str, bytes, int]  # what they are, the bytes, and how many the header claims


def _one(index: int = 0, *, key: bytes | None = b"k", time: int = 0, headers: bytes = b"\x00") -> bytes:
    sized = b"\x01" if key is None else encode_varint(len(key)) + key
    rest = b"\x00" + encode_varint(time) + encode_varint(index) + sized + b"\x02v" + headers
    return encode_varint(len(rest)) + rest


def _plain(rng: random.Random) -> Records:
    count = rng.choice((1, 2, 70))
    return "plain", b"".join(_one(each, key=rng.choice((None, b"", b"k"))) for each in range(count)), count


def _foreign_name(rng: random.Random) -> Records:
    return "a name that is not UTF-8", _one(headers=b"\x02\x06" + rng.randbytes(3) + b"\x01"), 1


def _times(rng: random.Random) -> Records:
    choices = (0, 7, -7, 2**40, -(2**40), 2**63 - 1, -(2**63))
    return "odd times", b"".join(_one(each, time=rng.choice(choices)) for each in range(9)), 9


def _noise(rng: random.Random) -> Records:
    return "no records", rng.randbytes(rng.choice((0, 1, 30))), rng.choice((1, 3, 2**31 - 1))


def _damaged(rng: random.Random) -> Records:
    records = bytearray(b"".join(_one(each, headers=b"\x02\x02h\x02x") for each in range(5)))
    records[rng.randrange(len(records))] = rng.randrange(256)
    return "damaged records", bytes(records), 5


def _wrong_count(rng: random.Random) -> Records:
    return "a wrong count", b"".join(map(_one, range(5))), rng.choice((1, 4, 6, 1_000_000))


def _many_headers(rng: random.Random) -> Records:
    count = rng.choice((HEADERS_MAX, HEADERS_MAX + 1, 4_000_000))
    tail = b"\x00" * (rng.random() < 0.3)
    return "many headers", _one(headers=encode_varint(count) + b"\x00\x00" * count) + tail, 1


def _many_records(rng: random.Random) -> Records:
    count = rng.choice((RECORDS_MAX, RECORDS_MAX + 1))
    return "many records", b"".join(map(_one, range(count))), count


def _bomb(rng: random.Random) -> Records:
    return "zeros", bytes(rng.choice((15 << 20, 17 << 20, 65 << 20))), rng.choice((1, 2**31 - 1))


_Make = Callable[[random.Random], Records]
_SMALL: Sequence[_Make] = (_plain, _foreign_name, _times, _noise, _damaged, _wrong_count)
_BIG: Sequence[_Make] = (_many_headers, _many_records, _bomb)


def _frame(api: ApiKey, version: int, **fields: object) -> bytes:
    return b"".join(encode_request(api, version, 1, "fuzz", build(request_type(api, version), fields)))


def produce(index: int, batch: bytes) -> bytes:
    data = [{"name": TOPIC, "partition_data": [{"index": index, "records": batch}]}]
    return _frame(ApiKey.PRODUCE, PRODUCE_VERSION, transactional_id=None, acks=-1, timeout=300, topic_data=data)


def list_offsets(timestamp: int, *, isolation_level: int = 0) -> bytes:
    """Of all partitions in one request."""
    parts = [
        {"partition_index": each, "timestamp": timestamp, "current_leader_epoch": -1} for each in range(PARTITIONS)
    ]
    topics = [{"name": TOPIC, "partitions": parts}]
    return _frame(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation_level, topics=topics)


def _readers(rng: random.Random, hosted: HostedPartition) -> Iterator[tuple[str, bytes]]:
    """One request of each API that reads logs."""
    index, end = hosted.index, hosted.log.log_end_offset
    for timestamp in (-1, -2, -3, *rng.sample(TIMES, 3)):
        yield f"ListOffsets {timestamp}", list_offsets(timestamp, isolation_level=rng.randrange(2))
    epochs = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": rng.choice((0, 1))}]
    topics = [{"topic": TOPIC, "partitions": epochs}]
    yield "OffsetForLeaderEpoch", _frame(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, replica_id=-2, topics=topics)
    fetched = {
        "partition": index,
        "current_leader_epoch": -1,
        "fetch_offset": rng.randint(hosted.log.log_start_offset, max(hosted.log.log_start_offset, end - 1)),
        "log_start_offset": -1,
        "partition_max_bytes": rng.choice((0, 1 << 20)),
    }
    fields: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
    topics = [{"topic": TOPIC, "partitions": [fetched]}]
    yield (
        "Fetch",
        _frame(
            ApiKey.FETCH, 11, replica_id=-1, isolation_level=rng.randrange(2), topics=topics, forgotten_topics_data=(),
            rack_id="", **fields,
        ),
    )  # fmt: skip
    if rng.random() < 0.2:
        parts = [{"partition_index": index, "offset": rng.randint(hosted.log.log_start_offset, end)}]
        topics = [{"name": TOPIC, "partitions": parts}]
        yield "DeleteRecords", _frame(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=300)


class Trust:
    """While it is set, Produce stores what it does not accept any more, and leaves the header as it is."""

    def __init__(self) -> None:
        self.is_set = False
        self._patch = Patch()
        unpack, rejection_of = (partition_produce.__dict__[name] for name in ("unpack", "rejection_of"))

        def trusting(records: memoryview, header: BatchHeader, config: Any) -> Unpacked | Rejection:
            if self.is_set:
                return Unpacked(b"", header.base_timestamp, header.max_timestamp)
            found: Unpacked | Rejection = unpack(records, header, config)
            return found

        def judging(*arguments: Any) -> Rejection | None:
            found: Rejection | None = None if self.is_set else rejection_of(*arguments)
            return found

        self._patch.set(partition_produce, "unpack", trusting)
        self._patch.set(partition_produce, "rejection_of", judging)

    def undo(self) -> None:
        self._patch.undo()


def fuzz_stored(seed: int, blocks: int) -> StoredFuzzResult:
    """Raises FuzzError with the seed of the block that shows the defect again."""
    result = StoredFuzzResult()
    for number in range(seed, seed + blocks):
        _block(number, result)
    return result


def _block(seed: int, result: StoredFuzzResult) -> None:
    rng, trust, done = random.Random(f"stored {seed}"), Trust(), list[str]()
    try:
        with virtual_clocks(), requests_charged():
            target = Target(seed)
            try:
                for _ in range(BATCHES_PER_BLOCK):
                    _store_and_read(target, rng, trust, result, done)
                done.append("compaction")
                for hosted in _partitions(target).all():
                    _compact(hosted)
                done.append("restart")
                _restart(target)
                for hosted in list(_partitions(target).all()):
                    for name, frame in _readers(rng, hosted):
                        done.append(name)
                        _ask(target, frame)
            finally:
                target.dispose()
    except (AssertionError, FuzzError) as error:
        raise FuzzError(f"{error}\n  block seed {seed}, after: {'; '.join(done[-12:])}") from error
    finally:
        trust.undo()


def _store_and_read(
    target: Target, rng: random.Random, trust: Trust, result: StoredFuzzResult, done: list[str]
) -> None:
    kind, batch = odd_batch(rng)
    index = rng.randrange(PARTITIONS)
    hosted = hosted_of(target, index)
    end = hosted.log.log_end_offset
    trust.is_set = rng.random() < _TRUSTED_SHARE and "no records" not in kind
    done.append(f"{kind} for {index}{', unchecked' if trust.is_set else ''}")
    _ask(target, produce(index, batch))
    trust.is_set = False
    result.batches += 1
    result.kinds[kind.partition(",")[0]] += 1
    result.refused += hosted.log.log_end_offset == end
    for name, frame in _readers(rng, hosted):
        done.append(name)
        _ask(target, frame)
        result.requests += 1


def _ask(target: Target, frame: bytes) -> None:
    if target.send(EXTERNAL, frame) != "answered":
        raise FuzzError("no answer")
    target.check(strict=True)
    target.check_others()
    for index in range(PARTITIONS):
        hosted_of(target, index)


def _partitions(target: Target) -> Partitions:
    (life,) = target.world.cluster.up()
    if life.broker is None:
        raise FuzzError("the broker does not start")
    return life.broker.partitions


def hosted_of(target: Target, index: int) -> HostedPartition:
    partitions = _partitions(target)
    hosted = partitions.get(TOPIC, index)
    if hosted is None or not hosted.replica.is_leader:
        raise FuzzError(f"partition {index} is not led here any more; offline are {partitions.offline()}")
    return hosted


def _compact(hosted: HostedPartition) -> None:
    """All records, as if the topic were compacted."""
    log = hosted.log
    log.roll()
    cleanable = find_cleanable(log, checkpoint=0, high_watermark=log.log_end_offset, now_ms=0)
    for _ in compact(log, cleanable, now_ms=0, map_bytes_max=64 << 20):
        pass
    log.check_invariants()


def _restart(target: Target) -> None:
    target.world.cluster.kill(1)
    target.world.partitions.forget(TOPIC)  # what was compacted is not what was committed
    target.restart(_RESTART_US)
