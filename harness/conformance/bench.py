"""One client process in one trial: what it was told, every line that it said, and the mistakes found so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from harness.conformance.judge import Heard, Rule, Sent
from harness.conformance.world import World
from workloads.clients.fates import failed_codes
from workloads.clients.process.build import Built
from workloads.clients.process.conversation import Mistake, shown
from workloads.clients.process.frames import FRAME_RECORDS_MAX
from workloads.clients.process.messages import (
    PRODUCE_BYTES_MAX,
    PRODUCE_RECORDS_MAX,
    Ability,
    ErrorEvent,
    Event,
    OutRecord,
    Polled,
    PolledRecord,
    Ready,
    Rebalanced,
    Role,
    partitions_of,
)
from workloads.clients.process.peer import Peer
from workloads.clients.protocol import RecordBatch

CONNECT_S: Final = 20.0
CALL_S: Final = 10.0
READ_S: Final = 20.0  # until a reader must have given what is there
POLL_S: Final = 0.5
_BETWEEN_POLLS_S: Final = 0.01
CLOSE_S: Final = 10.0
MAX_POLL: Final = 100


class TrialOver(Exception):
    """The trial cannot go on; what is wrong is noted."""


class Bench:
    """A client process. A context manager: the process ends with the block, and how it ends is judged."""

    def __init__(self, client: Built, world: World) -> None:
        self.world = world
        self.heard: list[Heard] = []
        self.sent: dict[int, Sent] = {}
        self.failed_codes: tuple[int, ...] = ()
        self.positions: dict[tuple[str, int], int] = {}  # after what was polled
        self.is_one_by_one = False  # what the next connect asks for
        self._topics: list[str] = []
        self._own: list[Mistake] = []
        self._peer = Peer(client.command, environment=client.environment, on_line=self._note_line)

    def __enter__(self) -> Bench:
        self._peer.wait_ready()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None or issubclass(kind, TrialOver):
            self._peer.end()

    def kill(self) -> None:
        """In any case, after the trial."""
        self._peer.kill()

    @property
    def ready(self) -> Ready:
        assert self._peer.conversation.ready is not None
        return self._peer.conversation.ready

    @property
    def mistakes(self) -> list[Mistake]:
        return [*self._peer.mistakes, *self._own]

    def can(self, ability: Ability) -> bool:
        return self.ready.is_able(ability)

    def note(self, *mistakes: Mistake) -> None:
        self._own += mistakes

    def wrong(self, rule: str, message: str, event: Event | None = None) -> None:
        """Note a mistake, with the line of the event that shows it."""
        found = next((each for each in reversed(self.heard) if each.event is event), None) if event else None
        self.note(found.mistake(rule, message) if found else Mistake(rule=rule, message=message))

    # --- what the client is told --------------------------------------------------------------------------------------

    def connect(
        self,
        role: Role,
        *,
        properties: Mapping[str, str] | None = None,
        wished: Mapping[str, str] | None = None,
        topics: Sequence[str] = (),
    ) -> None:
        """`properties` must be taken. Those of `wished` are left out if the client does not declare them. `topics`:
        those that records of frames go to."""
        side: Literal["producer", "consumer"] = "producer" if role in ("producer", "copier") else "consumer"
        given = {"bootstrap.servers": self.world.bootstrap_servers, **(properties or {})}
        given |= {name: value for name, value in (wished or {}).items() if self.ready.takes(side, name)}
        fields: dict[str, Any] = {"role": role, "properties": given}
        if side == "producer":
            is_once = self.ready.exact_retries and given.get("retries") == "0"
            self.failed_codes = failed_codes(retries_possible=not is_once)
            fields["failed_codes"] = list(self.failed_codes)
        if topics:
            fields["topics"] = self._topics = list(topics)
        if self.is_one_by_one:
            fields["one_by_one"] = True
        while True:
            event = self._peer.call("connect", timeout_s=CONNECT_S, **fields)
            if not isinstance(event, ErrorEvent):
                return
            if (
                event.property is None
                or given.pop(event.property, None) is None
                or event.property not in (wished or {})
            ):
                self.wrong(Rule.LIE, f"connect is answered by an error: {event.reason}", event)
                raise TrialOver

    def do(self, do: str, *, timeout_s: float = CALL_S, **fields: Any) -> Event:
        """TrialOver if it is answered by an error: the client has declared that it can."""
        event = self._peer.call(do, timeout_s=timeout_s, **fields)
        if isinstance(event, ErrorEvent):
            self.wrong(Rule.LIE, f"{do} is declared, and answered by an error: {event.reason}", event)
            raise TrialOver
        return event

    def try_to(self, do: str, *, timeout_s: float = CALL_S, **fields: Any) -> Event:
        """The same, where an error is a right answer too."""
        return self._peer.call(do, timeout_s=timeout_s, **fields)

    def ask(self, do: str, *, timeout_s: float = CALL_S, **fields: Any) -> int:
        return self._peer.ask(do, timeout_s=timeout_s, **fields)

    def answer(self, number: int) -> Event:
        return self._peer.answer(number)

    def send(self, topic: str, records: Sequence[Sent], *, callers: int = 1) -> None:
        """Seqs go on from those before. Waits while as many are under way as the client wants at most."""
        batch: list[OutRecord] = []
        size_bytes = 0
        count_max = min(PRODUCE_RECORDS_MAX, self.ready.in_flight_max)
        for record in records:
            seq = len(self.sent)
            self.sent[seq] = record
            out = OutRecord(
                seq=seq, value=record.value, key=record.key, partition=record.partition, headers=record.headers
            )
            if batch and (len(batch) == count_max or size_bytes + out.size_bytes > PRODUCE_BYTES_MAX):
                self._hand_over(topic, batch, callers)
                batch, size_bytes = [], 0
            batch.append(out)
            size_bytes += out.size_bytes
        if batch:
            self._hand_over(topic, batch, callers)

    def _hand_over(self, topic: str, batch: Sequence[OutRecord], callers: int) -> None:
        self._wait_room(len(batch))
        self._peer.produce(topic, batch, callers=callers)

    def send_framed(self, topic: str, records: Sequence[Sent]) -> None:
        """As `send`, in frames."""
        count_max = min(FRAME_RECORDS_MAX, self.ready.in_flight_max)
        for first in range(0, len(records), count_max):
            part = records[first : first + count_max]
            seqs = np.arange(len(self.sent), len(self.sent) + len(part))
            self.sent.update(zip(seqs.tolist(), part, strict=True))
            self._wait_room(len(part))
            self._peer.produce_frame(
                RecordBatch(
                    seqs=seqs,
                    topics=np.full(len(part), self._topics.index(topic), dtype=np.int32),
                    partitions=_column(-1 if each.partition is None else each.partition for each in part),
                    key_sizes=_column(-1 if each.key is None else len(each.key) for each in part),
                    keys=_bytes(each.key for each in part),
                    value_sizes=_column(-1 if each.value is None else len(each.value) for each in part),
                    values=_bytes(each.value for each in part),
                )
            )

    def _wait_room(self, count: int) -> None:
        room = self.ready.in_flight_max - count
        self.wait(lambda: self._peer.conversation.open_count <= room, CALL_S)

    def poll(self, *, timeout_s: float = POLL_S, max_records: int = MAX_POLL) -> Sequence[PolledRecord]:
        event = self.do("poll", timeout_s=timeout_s, max_records=max_records)
        assert isinstance(event, Polled)
        for record in event.records:
            self.positions[record.topic, record.partition] = record.offset + 1
        return event.records

    def poll_until(
        self,
        is_enough: Callable[[], bool],
        *,
        limit_s: float | None = None,
        max_records: int = MAX_POLL,
        timeout_s: float = POLL_S,
    ) -> bool:
        """Whether it was enough in time: READ_S, if nothing else is said. With a `timeout_s` of 0 polls do not wait."""
        deadline_s = time.monotonic() + (READ_S if limit_s is None else limit_s)
        while not is_enough():
            if time.monotonic() > deadline_s:
                return False
            self.poll(max_records=max_records, timeout_s=timeout_s)
            if not timeout_s:  # whoever polls so does other things in between
                time.sleep(_BETWEEN_POLLS_S)
        return True

    def commit(self, positions: Mapping[tuple[str, int], int]) -> None:
        self.do("commit", partitions=partitions_of(positions))

    def wait(self, is_so: Callable[[], bool], limit_s: float) -> bool:
        """Until events have made it so; the client is asked nothing meanwhile."""
        deadline_s = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > deadline_s or self._peer.is_lost:
                return False
            self._peer.pump(0.02)
        return True

    def close(self, timeout_s: float = CLOSE_S) -> None:
        self.do("close", timeout_s=timeout_s)

    # --- what it has said ---------------------------------------------------------------------------------------------

    @property
    def are_all_told(self) -> bool:
        return not self._peer.conversation.open_count

    def polled(self, *, since: int = 0) -> list[tuple[Heard, Polled]]:
        """The answers to polls, from this place in `heard` on."""
        return [(each, each.event) for each in self.heard[since:] if isinstance(each.event, Polled)]

    def given(self, topic: str, *, since: int = 0) -> list[tuple[int, int]]:
        """(partition, offset) of what was polled."""
        return [
            (record.partition, record.offset)
            for _, polled in self.polled(since=since)
            for record in polled.records
            if record.topic == topic
        ]

    def holds(self, topic: str) -> set[int]:
        """The partitions that this member was given, and not taken again."""
        held: set[int] = set()
        for each in self.heard:
            if isinstance(each.event, Rebalanced):
                told = {where.partition for where in each.event.partitions if where.topic == topic}
                held = held | told if each.event.event == "assigned" else held - told
        return held

    def _note_line(self, event: Event, number: int, line: bytes) -> None:
        self.heard.append(Heard(event=event, number=number, line=shown(line)))


def _column(numbers: Iterable[int]) -> NDArray[np.int32]:
    return np.fromiter(numbers, dtype=np.int32)


def _bytes(parts: Iterable[bytes | None]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(part or b"" for part in parts), dtype=np.uint8)
