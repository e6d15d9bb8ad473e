"""A client process as a producer and a reader of the load.

Records that are due together go over in one line, or in one frame if the client declares frames. The times of a send,
of its outcome and of a poll are taken in the client, so they do not include the pipe. A mistake that the conversation
notes ends the client: from then on nobody knows what became of its records. Shown by
tests/workloads/test_workloads_process_load.py.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from runlog.streams.schema import SendStatus
from workloads.clients.fates import failed_codes
from workloads.clients.process.build import Built
from workloads.clients.process.frames import FRAME_RECORDS_MAX, Outcomes
from workloads.clients.process.messages import (
    EARLIEST,
    LATEST,
    POLL_RECORDS_MAX,
    PRODUCE_BYTES_MAX,
    PRODUCE_RECORDS_MAX,
    Ability,
    Acknowledged,
    Done,
    ErrorEvent,
    Event,
    NotAcknowledged,
    OutRecord,
    Polled,
    Ready,
    partitions_of,
    records_per_poll,
)
from workloads.clients.process.peer import OnEvent, Peer, PeerLost
from workloads.clients.protocol import (
    START_TIMEOUT_S,
    TIMED_OUTCOME,
    ClientError,
    ClientSetup,
    OutcomeSink,
    PropertyError,
    RecordBatch,
    no_such_property,
)
from workloads.clients.protocol import Polled as PolledRecords

Side = Literal["producer", "consumer"]
_CLOSE_READER_S: Final = 5.0
_EXPECTED_BYTES: Final = 16 << 10  # A record is taken for so large until larger ones were seen.
_ADDRESS: Final = "bootstrap.servers"
_OF_THE_RUN: Final = frozenset({_ADDRESS, "group.id", "auto.offset.reset", "enable.auto.commit"})
_STATUS: Final = {"failed": SendStatus.FAILED, "unknown": SendStatus.UNKNOWN}


class ProcessProducer:
    def __init__(self, name: str, built: Built, setup: ClientSetup, sink: OutcomeSink) -> None:
        if _ADDRESS in setup.properties:
            raise PropertyError(name, _ADDRESS, "the cluster of the run is set by the harness")
        self._name, self._sink = name, sink
        self._properties = {**setup.properties, _ADDRESS: setup.bootstrap_servers}
        self._topics = list(setup.topics)
        self._heard: deque[Acknowledged | NotAcknowledged | Outcomes] = deque()
        self._gathered: dict[str, list[OutRecord]] = {}
        self._gathered_records = self._gathered_bytes = 0
        self._effective: dict[str, str] = {}
        self._metrics: dict[str, float] = {}
        self._peer = start(name, built, self._hear)
        try:
            check_names(name, self._ready, "producer", setup.properties)
            if not self._ready.is_able(Ability.PRODUCE):
                raise ClientError(f"client {name} cannot produce")
        except (ClientError, PropertyError):
            self._peer.kill()
            raise

    @property
    def _ready(self) -> Ready:
        assert self._peer.conversation.ready is not None
        return self._peer.conversation.ready

    def connect(self, timeout_s: float) -> None:
        is_once = self._ready.exact_retries and self._properties.get("retries") == "0"
        codes = failed_codes(retries_possible=not is_once)
        topics = {"topics": self._topics} if self.takes_batches else {}
        done = connected(
            self._name, self._peer, timeout_s, role="producer", properties=self._properties, failed_codes=list(codes),
            **topics,
        )  # fmt: skip
        self._effective = {**done.effective, "client.library": f"{self._ready.client} {self._ready.version}".rstrip()}

    @property
    def takes_batches(self) -> bool:
        return self._ready.is_able(Ability.FRAMES)

    def room(self) -> int:
        if not self._peer.has_room:
            return 0
        under_way = self._gathered_records + self._peer.conversation.open_count
        return min(FRAME_RECORDS_MAX, self._ready.in_flight_max - under_way)

    def send_batch(self, batch: RecordBatch) -> None:
        try:
            self._peer.produce_frame(batch)
        except PeerLost as error:
            raise ClientError(str(error)) from error

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        if self.room() <= 0 or self._gathered_bytes > PRODUCE_BYTES_MAX:
            return False
        record = OutRecord(seq=seq, value=value, key=key)
        self._gathered.setdefault(topic, []).append(record)
        self._gathered_records += 1
        self._gathered_bytes += record.size_bytes
        return True

    def poll(self, timeout_s: float) -> None:
        try:
            self._hand_over()
            self._peer.pump_or_lost(timeout_s)
        except PeerLost as error:
            raise ClientError(str(error)) from error
        finally:
            self._tell()
        self._check_mistakes()

    def _check_mistakes(self) -> None:
        if problem := self._peer.mistakes:
            self._peer.kill()
            raise ClientError(f"client {self._name} breaks the client protocol: {problem[0]}")

    def close(self, timeout_s: float) -> None:
        if self._peer.is_closed:
            return  # something was wrong, which was told then
        try:
            self._peer.pump_or_lost(0)  # One that died owes an answer, so it may not be asked for another one.
            self._hand_over()
            event = self._peer.call("close", timeout_s=timeout_s)
            if isinstance(event, Done):
                self._metrics = dict(event.metrics)
        except PeerLost as error:
            raise ClientError(str(error)) from error
        finally:
            self._peer.end()
            self._tell()

    def metrics(self) -> dict[str, float]:
        return dict(self._metrics)

    def effective(self) -> dict[str, str]:
        return dict(self._effective)

    def _hand_over(self) -> None:
        for topic, records in self._gathered.items():
            for first in range(0, len(records), PRODUCE_RECORDS_MAX):
                self._peer.produce(topic, records[first : first + PRODUCE_RECORDS_MAX])
        self._gathered.clear()
        self._gathered_records = self._gathered_bytes = 0

    def _hear(self, event: Event | Outcomes) -> None:
        """In the thread that reads. What it heard is told by `poll`, many at once."""
        if isinstance(event, Acknowledged | NotAcknowledged | Outcomes):
            self._heard.append(event)

    def _tell(self) -> None:
        told = [self._heard.popleft() for _ in range(len(self._heard))]
        of_lines = [row for each in told if not isinstance(each, Outcomes) for row in _rows(each)]
        rows = [each.timed() for each in told if isinstance(each, Outcomes)]
        if of_lines:
            rows.append(np.array(of_lines, dtype=TIMED_OUTCOME))
        if rows:
            self._sink.timed(np.concatenate(rows))


def _rows(event: Acknowledged | NotAcknowledged) -> list[tuple[int, ...]]:
    """Of TIMED_OUTCOME: seq, sent_ns, acked_ns, offset, append_ms, partition, error, status."""
    at_ns = event.at_us * 1_000
    if isinstance(event, Acknowledged):
        acked = int(SendStatus.ACKED)
        return [
            (each.seq, each.sent_us * 1_000, at_ns, each.offset, each.timestamp_ms, each.partition, 0, acked)
            for each in event.records
        ]
    status = int(_STATUS[event.event])
    return [(each.seq, each.sent_us * 1_000, at_ns, -1, -1, -1, event.code, status) for each in event.records]


class ProcessReader:
    """What a reader of the load and a member of a group have in common: a client process that polls."""

    def __init__(
        self,
        name: str,
        built: Built,
        properties: Mapping[str, str],
        own: Mapping[str, str],
        *,
        shares_fate: bool = False,
    ) -> None:
        """`own`: properties that the run sets."""
        for each in properties:
            if each in _OF_THE_RUN:
                raise PropertyError(name, each, "it follows from the run and from the reader's entry in the workload")
        self.name = name
        self.properties = {**properties, **own}
        self.largest_bytes = _EXPECTED_BYTES
        self.heard: deque[Event | Outcomes] = deque()
        self.peer = start(name, built, self.heard.append, shares_fate=shares_fate)
        try:
            check_names(name, self.ready, "consumer", properties)
        except PropertyError:
            self.peer.kill()
            raise

    @property
    def ready(self) -> Ready:
        assert self.peer.conversation.ready is not None
        return self.peer.conversation.ready

    def connect(self, timeout_s: float) -> None:
        taken = {name: value for name, value in self.properties.items() if name != "max.poll.records"}
        connected(self.name, self.peer, timeout_s, role="consumer", properties=taken)

    def ask(self, do: str, timeout_s: float, **fields: Any) -> Event:
        """ClientError if the client is gone, or has broken the protocol."""
        try:
            event = self.peer.call(do, timeout_s=timeout_s, **fields)
        except PeerLost as error:
            raise ClientError(str(error)) from error
        if problem := self.peer.mistakes:
            self.peer.kill()
            raise ClientError(f"client {self.name} breaks the client protocol: {problem[0]}")
        return event

    def poll(self, timeout_s: float) -> PolledRecords:
        """A poll that fails gave nothing; the next one tries again."""
        bound = int(self.properties.get("max.poll.records", POLL_RECORDS_MAX))
        asked = min(bound, records_per_poll(self.largest_bytes))
        event = self.ask("poll", timeout_s, max_records=asked)
        if not isinstance(event, Polled):
            time.sleep(timeout_s)
            return PolledRecords((), time.monotonic_ns())
        records = []
        for each in event.records:
            value = each.value or b""
            self.largest_bytes = max(self.largest_bytes, len(value))
            records.append((each.topic, each.partition, each.offset, value, each.timestamp_ms))
        return PolledRecords(records, event.at_us * 1_000)

    def close(self) -> None:
        try:
            if not self.peer.is_lost and not self.peer.is_closed:
                self.peer.call("close", timeout_s=_CLOSE_READER_S)
        except PeerLost:
            pass  # it is gone, which is what was wanted
        finally:
            self.peer.end()


class ProcessConsumer:
    def __init__(self, name: str, built: Built, setup: ClientSetup) -> None:
        self._topics, self._group_id, self._start = setup.topics, setup.group_id, setup.start
        self._group_instead = setup.own_group_id
        own = {_ADDRESS: setup.bootstrap_servers, "auto.offset.reset": setup.start}
        self._reader = ProcessReader(name, built, setup.properties, own)

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        reader = self._reader
        is_alone = self._group_id is None and reader.ready.is_able(Ability.ASSIGN)
        group_id = self._group_id or self._group_instead
        if not is_alone and group_id is None:
            raise ClientError(f"client {reader.name} has no readers without a group")
        reader.properties["enable.auto.commit"] = "false" if is_alone else "true"
        if not is_alone and group_id is not None:
            reader.properties["group.id"] = group_id
        reader.connect(timeout_s)
        if is_alone:
            begin = EARLIEST if self._start == "earliest" else LATEST
            event = reader.ask("assign", timeout_s, partitions=partitions_of(dict.fromkeys(partitions, begin)))
        else:
            event = reader.ask("subscribe", timeout_s, topics=list(self._topics))
        if isinstance(event, ErrorEvent):
            raise ClientError(f"client {reader.name}: {event.reason}")

    def poll(self, timeout_s: float) -> PolledRecords:
        polled = self._reader.poll(timeout_s)
        self._reader.heard.clear()  # The run log of a reader has nothing of rebalances.
        return polled

    def close(self) -> None:
        self._reader.close()


def check_names(client: str, ready: Ready, side: Side, properties: Mapping[str, str]) -> None:
    """PropertyError for the first property that the client does not declare."""
    for name in properties:
        if not ready.takes(side, name) and name != "max.poll.records":
            known = getattr(ready.properties, side)
            raise no_such_property(client, name, known, f"the program does not declare it for a {side}")


def connected(client: str, peer: Peer, timeout_s: float, **fields: Any) -> Done:
    """The answer to `connect`. PropertyError or ClientError says what came instead."""
    try:
        event = peer.call("connect", timeout_s=timeout_s, **fields)
    except PeerLost as error:
        raise ClientError(str(error)) from error
    if isinstance(event, ErrorEvent):
        peer.kill()
        if event.property is not None:
            raise PropertyError(client, event.property, event.reason)
        raise ClientError(f"client {client}: not connected within {timeout_s:g} s: {event.reason}")
    assert isinstance(event, Done)
    return event


def start(name: str, built: Built, on_event: OnEvent | None = None, *, shares_fate: bool = False) -> Peer:
    """A client that is ready. ClientError if it does not come so far."""
    try:
        peer = Peer(built.command, environment=built.environment, on_event=on_event, shares_fate=shares_fate, name=name)
        peer.wait_ready(START_TIMEOUT_S)
    except PeerLost as error:
        raise ClientError(str(error) if str(error).startswith("client ") else f"client {name}: {error}") from error
    if peer.mistakes:
        peer.kill()
        raise ClientError(f"client {name} breaks the client protocol: {peer.mistakes[0]}")
    return peer
