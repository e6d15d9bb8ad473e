"""The client under test: carries out a program over the client protocol and notes what happens.

What the client tells is noted in the reading thread, so the order of the notes is the order of its lines. Every wait
has a bound; what does not come is noted as stuck, and the program ends there. A client that breaks the protocol proves
nothing, so that is a problem of the trial and no finding. Shown by tests/harness/test_harness_explore_bench.py.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.explore.history import (
    Change,
    Commit,
    Connected,
    Delivered,
    Ended,
    Fate,
    Happening,
    Outcome,
    Overdue,
    Problem,
    Rebalance,
    Sent,
    Sought,
    Stuck,
    Told,
    TransactionEnd,
)
from harness.explore.model import Do, Move, Program, Role
from workloads.clients.process.conversation import Mistake, Rule, Unasked
from workloads.clients.process.messages import (
    EARLIEST,
    IN_FLIGHT_MAX,
    PRODUCE_RECORDS_MAX,
    Acknowledged,
    Committed,
    ErrorEvent,
    Event,
    Fatal,
    NotAcknowledged,
    OutRecord,
    Polled,
    Rebalanced,
    partitions_of,
    records_per_poll,
)
from workloads.clients.process.peer import GRACE_S, Peer, PeerLost, now_us

CALL_S: Final = 15.0
CONNECT_S: Final = 30.0
FLUSH_S: Final = 40.0  # beyond delivery.timeout.ms of the programs
POLL_S: Final = 0.5
IDLE_S: Final = 0.25
PATIENCE_S: Final = 15.0  # without any progress, from the healing on
RETRIES_MAX: Final = 8
HAPPENED_MAX: Final = 1_000_000  # the largest program has 16,000 records
_RETRY_S: Final = 0.5
_ROOM_S: Final = 0.05
_EXIT = re.compile(r"the program ended: (?:exit code (?P<code>\d+)|by (?P<signal>SIG\w+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a trial takes place. `log_ends` gives the end offset of each partition now; `is_healed` says whether the
    disturbance is over, or there is none."""

    bootstrap_servers: str
    topic: str
    group: str
    transactional_id: str
    client_id: str
    partitions: int
    log_ends: Callable[[], Mapping[int, int]]
    write: Callable[[int], None]  # so many records by somebody else, before it returns
    is_healed: Callable[[], bool]
    has_met: Callable[[], bool]  # whether the disturbance has met a request
    failed_codes: Sequence[int]


class _Over(Exception):
    """The program cannot go on. Why is noted."""


class Subject:
    """One run of one program. `happened` grows while it runs."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], program: Program, site: Site) -> None:
        self._command, self._environment, self._program, self._site = command, environment, program, site
        self.happened: list[Happening] = []
        self.problem = ""
        self._peer: Peer | None = None
        self._seq = self._transaction = 0
        self._is_in_transaction = False
        self._is_connected = False
        self._owned: set[int] = set()
        self._positions: dict[int, int] = {}  # of this connection: behind the last record
        self._seen: dict[int, int] = {}  # of the whole trial: behind the furthest record
        self._paused: set[int] = set()
        self._is_reading = False
        self._asked: Mapping[int, int] = {}  # the positions of the last commit

    def run(self) -> None:
        """Returns when the program is carried out, or cannot be. Nothing of it is left running."""
        try:
            self._start(is_killed_before=False)
            for move in self._program.moves:
                self._do(move)
            self._finish()
        except _Over:
            pass
        except PeerLost as error:
            self._note_loss(str(error))
        except Unasked as error:  # a trial of another client, tried again with this one
            self.problem = f"the client cannot do this program: {error}"
        finally:
            if self._peer is not None:
                if self._peer.is_lost:
                    self._peer.kill()
                else:
                    self._peer.end()
                self._note_mistakes()

    # --- beginning and end --------------------------------------------------------------------------------------------

    def _start(self, *, is_killed_before: bool) -> None:
        self._peer = Peer(self._command, environment=self._environment, on_line=self._hear)
        self._peer.wait_ready()
        self._connect(is_killed_before=is_killed_before)

    def _connect(self, *, is_killed_before: bool = False) -> None:
        self._owned.clear()
        self._positions.clear()
        self._paused.clear()
        self._is_reading = False
        self.happened.append(Connected(at_us=now_us(), is_killed_before=is_killed_before))
        role = self._program.role
        fields = {"failed_codes": list(self._site.failed_codes)} if role is not Role.CONSUMER else {}
        properties = self._properties()
        for _ in range(RETRIES_MAX):
            answer = self._here.call("connect", timeout_s=CONNECT_S, role=str(role), properties=properties, **fields)
            if not isinstance(answer, ErrorEvent):
                self._is_connected = True
                return
            if answer.property:
                self.problem = f"the client cannot set {answer.property}: {answer.reason}"
                raise _Over
            if not self._site.has_met():
                self.problem = f"the client refuses the settings: {answer.reason}"
                raise _Over
            is_last = answer.next != "retry"
            self.happened.append(
                Problem(at_us=answer.at_us, reason=answer.reason, code=answer.code, command="connect", is_fatal=is_last)
            )
            if is_last:
                break
            self._here.pump(_RETRY_S)
        raise _Over

    def _properties(self) -> dict[str, str]:
        """Those that the client declares. The rest is left out, as for every client."""
        site, program = self._site, self._program
        wanted = {**program.properties, "bootstrap.servers": site.bootstrap_servers, "client.id": site.client_id}
        if program.is_transactional or program.role is Role.COPIER:
            wanted["transactional.id"] = site.transactional_id
        if program.role is not Role.PRODUCER:
            wanted["group.id"] = site.group
        ready = self._here.conversation.ready
        assert ready is not None
        sides = {Role.PRODUCER: ("producer",), Role.CONSUMER: ("consumer",), Role.COPIER: ("producer", "consumer")}
        return {
            name: value
            for name, value in wanted.items()
            if any(ready.takes(side, name) for side in sides[program.role])  # type: ignore[arg-type]
        }

    def _finish(self) -> None:
        """What every application does at last: read what is unread, wait for its records, close."""
        if self._program.role is Role.PRODUCER:
            self._flush()
        elif self._is_reading:
            for partition in sorted(self._paused & self._owned):
                self._do(Move(do=Do.RESUME, partition=partition))
            self._read_records(0)
            if self._program.properties.get("enable.auto.commit") == "false":
                self._commit()
        self._close()

    def _close(self) -> None:
        if self._is_connected:
            self._is_connected = False
            self._call("close")

    @property
    def _here(self) -> Peer:
        assert self._peer is not None
        return self._peer

    # --- moves --------------------------------------------------------------------------------------------------------

    def _do(self, move: Move) -> None:
        match move.do:
            case Do.SEND:
                self._send(move)
            case Do.FLUSH:
                self._flush()
            case Do.WAIT:
                self._here.pump(move.count / 1_000)
            case Do.ARRIVE:
                self._site.write(move.count)
            case Do.SUBSCRIBE:
                self._is_reading = True
                self._call("subscribe", topics=[self._site.topic])
            case Do.ASSIGN:
                self._assign()
            case Do.POLL:
                self._poll(move.count, POLL_S)
            case Do.READ:
                self._read_records(move.count)
            case Do.COMMIT:
                self._commit()
            case Do.SEEK:
                self._seek(move)
            case Do.PAUSE | Do.RESUME:
                self._pause(move)
            case Do.BEGIN:
                self._begin()
            case Do.COMMIT_TRANSACTION | Do.ABORT_TRANSACTION:
                self._end_transaction(is_commit=move.do is Do.COMMIT_TRANSACTION)
            case Do.SEND_OFFSETS:
                self._call("send-offsets", partitions=partitions_of(self._by_name(self._positions)))
            case Do.CLOSE:
                self._close()
            case Do.RESTART:
                self._close()
                self._connect()
            case Do.KILL:
                self._here.kill()
                self._note_mistakes()
                self._is_in_transaction = self._is_connected = False
                self._start(is_killed_before=True)

    def _call(self, do: str, *, timeout_s: float = CALL_S, **fields: object) -> Event | None:
        """The answer. None if it is an error, which is noted. Where the client says that the same command may be tried
        again, it is."""
        for _ in range(RETRIES_MAX):
            answer = self._here.call(do, timeout_s=timeout_s, **fields)
            if not isinstance(answer, ErrorEvent):
                return answer
            self.happened.append(Problem(at_us=answer.at_us, reason=answer.reason, code=answer.code, command=do))
            if answer.next != "retry":
                return None
            self._here.pump(_RETRY_S)
        return None

    def _by_name(self, positions: Mapping[int, int]) -> dict[tuple[str, int], int]:
        return {(self._site.topic, partition): offset for partition, offset in positions.items()}

    def _one(self, partition: int, **fields: int) -> list[dict[str, object]]:
        return [{"topic": self._site.topic, "partition": partition, **fields}]

    # --- producing ----------------------------------------------------------------------------------------------------

    def _send(self, move: Move) -> None:
        left = move.count
        while left > 0:
            lot = min(left, PRODUCE_RECORDS_MAX, max(1, (1 << 20) // max(1, move.size_bytes)))
            self._wait_for_room()
            partition = move.partition if move.partition < self._site.partitions else 0
            records = [self._record(move.size_bytes, partition) for _ in range(lot)]
            self._here.produce(self._site.topic, records)
            left -= lot

    def _record(self, size_bytes: int, partition: int) -> OutRecord:
        seq = self._seq
        self._seq += 1
        name = f"{self._site.client_id}/{seq}/".encode()
        value = name + b"." * max(0, size_bytes - len(name))
        transaction = self._transaction if self._is_in_transaction else 0
        self.happened.append(Sent(at_us=now_us(), seq=seq, value=value, partition=partition, transaction=transaction))
        return OutRecord(seq=seq, value=value, partition=partition if partition >= 0 else None)

    def _wait_for_room(self) -> None:
        conversation = self._here.conversation
        most = conversation.ready.in_flight_max if conversation.ready else IN_FLIGHT_MAX
        open_before, since_s = len(conversation.open_records), time.monotonic()
        while not self._here.has_room or len(conversation.open_records) >= most:
            self._here.pump(_ROOM_S)
            if self._here.is_lost:
                raise PeerLost("the client is gone")
            still_open = len(conversation.open_records)
            if still_open < open_before or not self._site.is_healed():
                open_before, since_s = still_open, time.monotonic()
            elif time.monotonic() - since_s > PATIENCE_S:
                self._note_stuck("records without an outcome", still_open, self._seq, since_s)
                raise _Over

    def _flush(self) -> None:
        since_s = time.monotonic()
        self._call("flush", timeout_s=FLUSH_S)
        while self._here.conversation.open_records:
            if time.monotonic() - since_s > FLUSH_S + GRACE_S:
                self._note_stuck(
                    "records without an outcome", len(self._here.conversation.open_records), self._seq, since_s
                )
                raise _Over
            self._here.pump(_ROOM_S)
            if self._here.is_lost:
                raise PeerLost("the client is gone")

    def _begin(self) -> None:
        self._transaction += 1
        self._is_in_transaction = self._call("begin") is not None

    def _end_transaction(self, *, is_commit: bool) -> None:
        if not self._is_in_transaction:
            return
        for _ in range(RETRIES_MAX):
            command = "commit-transaction" if is_commit else "abort-transaction"
            answer = self._here.call(command, timeout_s=FLUSH_S)
            if not isinstance(answer, ErrorEvent):
                break
            self.happened.append(Problem(at_us=answer.at_us, reason=answer.reason, code=answer.code, command=command))
            if answer.next not in ("abort", "retry"):
                break
            is_commit = is_commit and answer.next == "retry"
            self._here.pump(_RETRY_S)
        is_failed = isinstance(answer, ErrorEvent)
        self.happened.append(
            TransactionEnd(
                at_us=now_us(),
                transaction=self._transaction,
                is_commit=is_commit,
                told=Told.FAILED if is_failed else Told.DONE,
                code=answer.code if isinstance(answer, ErrorEvent) else 0,
            )
        )
        self._is_in_transaction = False
        if is_failed:  # the application's next step is a new producer with the same id
            self._close()
            self._connect()

    # --- consuming ----------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        partitions = range(self._site.partitions)
        self._is_reading = True
        positions = self._by_name(dict.fromkeys(partitions, EARLIEST))
        if self._call("assign", partitions=partitions_of(positions)) is None:
            return
        at_us = now_us()
        self._owned.update(partitions)
        self.happened.append(Rebalance(at_us=at_us, change=Change.ASSIGNED, partitions=frozenset(partitions)))
        self.happened += [Sought(at_us=at_us, partition=partition, offset=0) for partition in partitions]

    def _poll(self, count: int, timeout_s: float) -> int:
        """How many records came."""
        most = max(1, min(count or 500, records_per_poll(1_000)))
        answer = self._call("poll", timeout_s=timeout_s, max_records=most)
        return len(answer.records) if isinstance(answer, Polled) else 0

    def _read_records(self, count: int) -> None:
        """Until `count` records have come, or all that are there and not paused. Patience begins anew with each record,
        and begins when the disturbance is healed."""
        got, since_s = 0, time.monotonic()
        while count == 0 or got < count:
            if (unread := self._unread()) == 0:
                if count == 0:
                    self._poll(0, IDLE_S)  # as applications do: at the end they go on asking
                return
            came = self._poll(count - got if count else 0, POLL_S)
            got += came
            if came or not self._site.is_healed():
                since_s = time.monotonic()
            elif time.monotonic() - since_s > PATIENCE_S:
                self._note_stuck("records unread", unread, sum(self._site.log_ends().values()), since_s)
                raise _Over

    def _unread(self) -> int:
        """Records of the log, or markers of transactions, that nobody has got. With a paused partition there may be
        nothing to wait for."""
        return sum(
            max(0, end - self._seen.get(partition, 0))
            for partition, end in self._site.log_ends().items()
            if partition not in self._paused
        )

    def _commit(self) -> None:
        positions = {partition: offset for partition, offset in self._positions.items() if partition in self._owned}
        if not positions:
            return
        self._asked = positions
        answer = self._here.call("commit", timeout_s=CALL_S, partitions=partitions_of(self._by_name(positions)))
        if isinstance(answer, ErrorEvent):
            self.happened.append(Commit(at_us=answer.at_us, offsets=positions, told=Told.FAILED, code=answer.code))

    def _seek(self, move: Move) -> None:
        partition = move.partition
        if partition not in self._owned:
            return
        target = 0 if move.count < 0 else max(0, self._positions.get(partition, 0) - move.count)
        if self._call("seek", partitions=self._one(partition, offset=target)) is not None:
            self.happened.append(Sought(at_us=now_us(), partition=partition, offset=target))
            self._positions[partition] = target

    def _pause(self, move: Move) -> None:
        if move.partition not in self._owned:
            return
        do = "pause" if move.do is Do.PAUSE else "resume"
        if self._call(do, partitions=self._one(move.partition)) is None:
            return
        if move.do is Do.PAUSE:
            self._paused.add(move.partition)
        else:
            self._paused.discard(move.partition)

    # --- what it tells ------------------------------------------------------------------------------------------------

    def _hear(self, event: Event, _number: int, _line: bytes) -> None:
        """In the reading thread."""
        if len(self.happened) > HAPPENED_MAX:
            self.problem = self.problem or f"the client tells more than {HAPPENED_MAX:,} things"
            return
        match event:
            case Acknowledged():
                self.happened += [
                    Outcome(
                        at_us=event.at_us,
                        seq=record.seq,
                        fate=Fate.ACKNOWLEDGED,
                        partition=record.partition,
                        offset=record.offset,
                    )
                    for record in event.records
                ]
            case NotAcknowledged():
                fate = Fate(event.event)
                self.happened += [
                    Outcome(at_us=event.at_us, seq=record.seq, fate=fate, code=event.code, reason=event.reason)
                    for record in event.records
                ]
            case Polled():
                self._hear_records(event)
            case Rebalanced():
                self._hear_rebalance(event)
            case Committed():
                told = {position.partition: position.offset for position in event.partitions}
                offsets = told if event.id is None else self._asked  # what was asked for is what must hold
                self.happened.append(
                    Commit(at_us=event.at_us, offsets=offsets, told=Told.DONE, is_automatic=event.id is None)
                )
            case ErrorEvent() if event.id is None:
                self.happened.append(Problem(at_us=event.at_us, reason=event.reason, code=event.code))
            case Fatal():
                self.happened.append(Problem(at_us=event.at_us, reason=event.reason, code=event.code, is_fatal=True))
            case _:
                pass

    def _hear_records(self, event: Polled) -> None:
        for record in event.records:
            partition, offset = record.partition, record.offset
            self.happened.append(Delivered(at_us=event.at_us, partition=partition, offset=offset, value=record.value))
            self._positions[partition] = offset + 1
            self._seen[partition] = max(self._seen.get(partition, 0), offset + 1)

    def _hear_rebalance(self, event: Rebalanced) -> None:
        partitions = frozenset(each.partition for each in event.partitions)
        change = Change(event.event)
        if change is Change.ASSIGNED:
            self._owned |= partitions
        else:
            self._owned -= partitions
            self._paused -= partitions
            for partition in partitions:
                self._positions.pop(partition, None)
        self.happened.append(Rebalance(at_us=event.at_us, change=change, partitions=partitions))

    # --- what went wrong ----------------------------------------------------------------------------------------------

    def _note_stuck(self, what: str, missing: int, expected: int, since_s: float) -> None:
        waited_ms = int((time.monotonic() - since_s) * 1_000)
        self.happened.append(Stuck(at_us=now_us(), what=what, missing=missing, expected=expected, waited_ms=waited_ms))

    def _note_loss(self, message: str) -> None:
        """The client is gone. Which way is among the mistakes, if the protocol's half has noted one."""
        if not any(mistake.rule in (Rule.HANG, Rule.ENDED) for mistake in self._mistakes()) and not any(
            isinstance(one, Problem) and one.is_fatal for one in self.happened
        ):
            self.problem = message

    def _mistakes(self) -> Sequence[Mistake]:
        return () if self._peer is None else self._peer.mistakes

    def _note_mistakes(self) -> None:
        assert self._peer is not None
        for mistake in self._peer.mistakes:
            if mistake.rule == Rule.HANG:
                command = mistake.message.removeprefix("no answer in time: ")
                self.happened.append(Overdue(at_us=now_us(), command=command, allowed_ms=int(GRACE_S * 1_000)))
            elif mistake.rule == Rule.ENDED:
                self.happened.append(_ended(mistake.message, self._peer.last_words()))
            else:
                self.problem = self.problem or f"the client breaks the protocol: {mistake}"


def _ended(message: str, last_words: str) -> Ended:
    found = _EXIT.match(message)
    number = int(signal.Signals[found["signal"]]) if found and found["signal"] else 0
    code = int(found["code"]) if found and found["code"] else -number if number else -1
    return Ended(at_us=now_us(), code=code, signal=number, last_words=last_words or message)
