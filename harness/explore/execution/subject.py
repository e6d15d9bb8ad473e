"""The client under test: carries out a program over the client protocol and notes what happens.

A program may have several members of one group, each a process (member.py). They take turns: one command is
under way at a time, and whoever waits for records polls all of them, because many libraries carry out a rebalance only
in a poll. What the cluster does goes on beside the program (cluster_changes.py).

Every wait has a bound; what does not come is noted as stuck, and the program ends there. A client that breaks the
protocol proves nothing, so that is a problem of the trial and no finding. Shown by
tests/harness/test_harness_explore_bench.py.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.explore.execution.copying import Copying, Place
from harness.explore.execution.idleness import SETTLE_S, WATCH_S, look_at
from harness.explore.execution.member import Member
from harness.explore.execution.patience import Patience
from harness.explore.execution.warm_clients import WarmClients
from harness.explore.trial.history import (
    REFUSES,
    Busy,
    Change,
    Commit,
    Connected,
    Ended,
    FlushedEarly,
    Happening,
    Overdue,
    Problem,
    Rebalance,
    Sent,
    Sought,
    Stuck,
    Told,
    TransactionEnd,
)
from harness.explore.trial.model import OWN, SMALL_BYTES, Do, Move, Program, Role
from harness.explore.trial.topics import Topics
from workloads.clients.process.conversation import Unasked
from workloads.clients.process.messages import (
    EARLIEST,
    IN_FLIGHT_MAX,
    PRODUCE_RECORDS_MAX,
    Done,
    ErrorEvent,
    Event,
    OutRecord,
    Polled,
    Ready,
    partitions_of,
    records_per_poll,
)
from workloads.clients.process.peer import GRACE_S, PeerLost, now_us

CALL_S: Final = 15.0
# For a consumer's close, which has no records to wait for. kafka-python 2 takes all the time that it is given for it.
CONSUMER_CLOSE_S: Final = 4.0
CONNECT_S: Final = 30.0
FLUSH_S: Final = 40.0  # beyond delivery.timeout.ms of the programs
# To end a transaction that nothing has disturbed. Else a client that takes half a minute for each of a program's
# transactions would take the place of ten other trials before it is told to make no progress.
UNDISTURBED_S: Final = 20.0
POLL_S: Final = 0.5
LONG_POLL_S: Final = 2.0  # one that other calls are made beside
BESIDE_S: Final = 0.03
POLLED_MAX: Final = 500
COPIED_MAX: Final = 200  # records of one produce command
COPIED_BYTES_MAX: Final = 1 << 19
TURN_S: Final = 0.2  # a poll of one of several members
GLANCE_S: Final = 0.001
SHORT_PAUSE_S: Final = 0.01  # between polls that are shorter than this
IDLE_S: Final = 0.25
ALONE_SETTLE_S: Final = 1.0  # until a client has noticed that no broker is there, and has tried some times
PATIENCE_S: Final = 15.0  # without any progress, from the healing on
HEALED_WITHIN_S: Final = 300.0  # after it was found to last: all that we do has shorter bounds
RETRIES_MAX: Final = 8
AGAIN_MAX: Final = 10  # times a log, in one reading of it
SETTLED_WITHIN_S: Final = 30.0
_SETTLE_POLL_S: Final = 0.1
_SMALLER: Final = 4
_RETRY_S: Final = 0.5
_ROOM_S: Final = 0.05
# A process that such a thing has happened to serves no other trial: after a `connect` that failed, for example, the
# library may go on trying by itself, where nobody can close it.
_TROUBLES: Final = (Busy, Ended, FlushedEarly, Overdue, Problem, Stuck)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a trial takes place. `log_ends` gives the end offset of each partition now; `is_healed` says whether the
    disturbance is over, or there is none."""

    bootstrap_servers: str
    topics: Topics
    group: str
    transactional_id: str
    client_id: str
    log_starts: Callable[[], Mapping[int, int]]
    log_ends: Callable[[], Mapping[int, int]]
    write: Callable[[int, int], None]  # so many records by somebody else, of that size at least, before it returns
    # The same in one transaction, and whether it is committed. It has ended before this returns.
    write_in_transaction: Callable[[int, int, bool], None]
    compact: Callable[[], None]  # returns when what is there is compacted, or that takes too long
    change: Callable[[Move], None]  # begins what the cluster does; it goes on by itself
    is_settled: Callable[[], bool]  # whether all that the cluster was to do is done
    is_healed: Callable[[], bool]
    has_met: Callable[[], bool]  # whether the disturbance has met a request
    failed_codes: Sequence[int]
    # Of copiers: the topic that they copy to, what their group has committed now, and a transactional id for each of
    # them but the first one.
    copies: str = ""
    committed: Callable[[], Mapping[int, int]] = dict
    further_ids: Sequence[str] = ()
    patience_s: float = PATIENCE_S
    healed_within_s: float = HEALED_WITHIN_S
    warm: WarmClients | None = None  # whose processes the trial may use; None: each member starts its own

    @property
    def partitions(self) -> int:
        """Of all topics, before any are added."""
        return self.topics.count


class _Over(Exception):
    """The program cannot go on. Why is noted."""


def size_of(move: Move, caller: int) -> int:
    """Of the records of one of its callers. Each has smaller ones than the one before: who waits for room beside others
    that wait for more, or for less, is what several callers are for."""
    return move.size_bytes // int(_SMALLER**caller)


def _least_bytes(move: Move) -> int:
    """Of what others write, and of copies."""
    return move.size_bytes if move.size_bytes > SMALL_BYTES else 0


class Subject:
    """One run of one program. `happened` grows while it runs. `refused`: a property that the client cannot set so;
    `effective`: settings in force that were not asked for."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], program: Program, site: Site) -> None:
        self._command, self._environment, self._program, self._site = command, environment, program, site
        self.happened: list[Happening] = []
        self.refused = ""
        self.effective: dict[str, str] = {}
        self._problem = ""
        self._seen: dict[int, int] = {}  # The whole trial counts: the offset behind the furthest record.
        self._is_copier = program.role is Role.COPIER
        self._sent_to: dict[int, int] = {}  # sequence -> the topic's index, of records that do not go to the first one
        self._members = [
            Member(
                number,
                self.happened,
                self._seen,
                topics=site.topics,
                sent_to=self._sent_to,
                copying=Copying() if self._is_copier else None,
            )
            for number in range(program.members)
        ]
        self._committed: set[int] = set()  # partitions of which the group has an offset for certain
        self._seq = self._transaction = self._commands = 0
        self._disturbed_since_s: float | None = None
        self._is_given_up = False
        self._is_over = threading.Event()  # for whoever looks at a client meanwhile
        self._has_begun_to_read = False  # It could subscribe, or take an assignment.

    @property
    def problem(self) -> str:
        return next(filter(None, (self._problem, *(member.problem for member in self._members))), "")

    def run(self) -> None:
        """Returns when the program is carried out, or cannot be. Nothing of it is left running."""
        try:
            if self._program.role is Role.PRODUCER:
                self._start(self._members[0])
            for move in self._program.moves:
                if self._is_given_up:
                    raise _Over
                self._do(move, self._members[move.member])
            if not self._is_given_up:
                self._finish()
        except _Over:
            pass
        except PeerLost as error:
            for member in [member for member in self._members if member.is_lost] or self._members[:1]:
                member.note_loss(str(error))
        except Unasked as error:  # a trial of another client, tried again with this one
            self._problem = f"the client cannot do this program: {error}"
        finally:
            self._is_over.set()
            self._leave_warm()
            for member in self._members:
                member.end()

    def give_up(self) -> None:
        """From another thread. The commands that are under way have no answer then."""
        self._is_given_up = True
        for member in self._members:
            member.stop_at_once()

    def _leave_warm(self) -> None:
        """For later trials, what has done this one without any trouble."""
        if (
            self._site.warm is None
            or self._is_given_up
            or self.problem
            or any(isinstance(one, _TROUBLES) for one in self.happened)
        ):
            return
        for member in self._members:
            member.leave_to(self._site.warm, f"{self._site.client_id} ({self._program.name})")

    # --- beginning and end --------------------------------------------------------------------------------------------

    def _start(self, member: Member, *, is_killed_before: bool = False) -> None:
        if not member.is_started:
            member.start(self._command, self._environment, self._site.warm)
        self._connect(member, is_killed_before=is_killed_before)

    def _connect(self, member: Member, *, is_killed_before: bool = False) -> None:
        """As an application does that can do nothing without it: it tries again after any error, until all is healed
        and its patience is over."""
        ready = member.peer.conversation.ready
        assert ready is not None
        self.refused = self._lacks(ready)
        if self.refused:
            self._problem = f"the client cannot set {self.refused}"
            raise _Over
        member.begin()
        self.happened.append(Connected(at_us=now_us(), is_killed_before=is_killed_before, member=member.number))
        role = self._program.role
        fields: dict[str, Any] = {"one_by_one": True} if self._program.is_one_by_one else {}
        if role is not Role.CONSUMER:
            fields["failed_codes"] = list(self._site.failed_codes)
        properties = self._properties(member)
        patience = self._patience(member)
        while True:
            answer = member.peer.call("connect", timeout_s=CONNECT_S, role=str(role), properties=properties, **fields)
            if not isinstance(answer, ErrorEvent):
                member.is_connected = True
                self.effective |= answer.effective if isinstance(answer, Done) else {}
                return
            if answer.property:
                self.refused = answer.property
                self._problem = f"the client cannot set {answer.property}: {answer.reason}"
                raise _Over
            if not self._site.has_met():
                self._problem = f"{REFUSES}: {answer.reason}"
                raise _Over
            if not self._is_healed():
                patience.renew()
            is_last = patience.is_over
            self.happened.append(
                Problem(at_us=answer.at_us, reason=answer.reason, code=answer.code, command="connect", is_fatal=is_last)
            )
            if is_last:
                raise _Over
            member.peer.pump(_RETRY_S)

    def _lacks(self, ready: Ready) -> str:
        """A setting without which it would do another thing than the program asks, and be judged for this one."""
        properties = self._program.properties
        is_known = "isolation.level" in properties and ready.takes("consumer", "isolation.level")
        if (self._program.has_transactions_of_others or self._is_copier) and not is_known:
            # What it is given of them is the library's default then, and libraries differ. A copier must also wait for
            # offsets that are not stable yet, which clients do where they read what is committed (KIP-447).
            return "isolation.level"
        is_idempotent = properties.get("enable.idempotence") == "true" and not self._program.is_transactional
        return "enable.idempotence" if is_idempotent and not ready.takes("producer", "enable.idempotence") else ""

    def _properties(self, member: Member) -> dict[str, str]:
        """Those that the client declares. The rest is left out, as for every client. The client id is the same for all
        members, so a disturbance meets the next request, whoever sends it."""
        site, program = self._site, self._program
        wanted = {**program.properties, "bootstrap.servers": site.bootstrap_servers, "client.id": site.client_id}
        if program.is_transactional or program.role is Role.COPIER:
            wanted["transactional.id"] = (site.transactional_id, *site.further_ids)[member.number]
        if program.role is not Role.PRODUCER:
            wanted["group.id"] = site.group
        if wanted.get("group.instance.id") == OWN:
            wanted["group.instance.id"] = f"{site.group}-{member.number}"
        ready = member.peer.conversation.ready
        assert ready is not None
        sides = {Role.PRODUCER: ("producer",), Role.CONSUMER: ("consumer",), Role.COPIER: ("producer", "consumer")}
        return {
            name: value
            for name, value in wanted.items()
            if any(ready.takes(side, name) for side in sides[program.role])  # type: ignore[arg-type]
            # Its values are names of classes in Java: only a client that knows it by this name is asked.
            and (name != "partition.assignment.strategy" or name in ready.properties.consumer)
        }

    def _finish(self) -> None:
        """What every application does at last: read what is unread, wait for its records, close."""
        if self._program.role is Role.PRODUCER:
            self._flush()
        elif self._is_copier:
            self._copy_rest()
        elif readers := self._readers:
            for member in readers:
                for partition in sorted(member.paused & member.owned):
                    self._do(Move(do=Do.RESUME, partition=partition), member)
            self._read_records(0)
            if self._program.properties.get("enable.auto.commit") == "false":
                for member in readers:
                    self._commit(Move(do=Do.COMMIT), member)
        self._rest()
        for member in self._members:
            self._close(member)

    def _rest(self) -> None:
        """Nothing is left to be done, and nobody asks for anything. What it was disturbed by is over: a client that
        looks for a broker that is away may do so with all its might."""
        members = [member for member in self._members if member.is_connected and not member.is_lost]
        if not members or not self._site.is_healed():
            return
        self._wait(SETTLE_S)
        for member in members:
            if (found := look_at(member.peer.pid, self._wait)) is not None:
                self.happened.append(
                    Busy(at_us=now_us(), share=found.share, looked_ms=found.looked_ms, member=member.number)
                )

    def _look_meanwhile(self) -> None:
        """No broker is there for some seconds. To look for one is the client's business, and it has to wait between two
        tries. The program goes on beside this."""

        def wait(seconds: float) -> None:
            self._is_over.wait(seconds)

        def look(member: Member, pid: int) -> None:
            if self._is_over.wait(ALONE_SETTLE_S):
                return
            found = look_at(pid, wait, seconds_max=WATCH_S)
            if found is not None and not self._is_over.is_set() and not self._site.is_settled():
                at_us, share = now_us(), found.share
                self.happened.append(
                    Busy(at_us=at_us, share=share, looked_ms=found.looked_ms, member=member.number, is_alone=True)
                )

        for member in self._members:
            if member.is_connected and not member.is_lost:
                threading.Thread(target=look, args=(member, member.peer.pid), name="look", daemon=True).start()

    def _is_healed(self) -> bool:
        """Whether the client has no excuse any more. A disturbance of ours that does not end proves nothing."""
        if self._site.is_healed():
            self._disturbed_since_s = None
            return True
        now_s = time.monotonic()
        self._disturbed_since_s = now_s if self._disturbed_since_s is None else self._disturbed_since_s
        if now_s - self._disturbed_since_s > self._site.healed_within_s:
            self._problem = f"the disturbance was not over after {self._site.healed_within_s:g} s"
            raise _Over
        return False

    def _close(self, member: Member) -> None:
        self._leave_open(member)
        if member.is_connected:
            member.is_connected = member.is_reading = False
            is_consumer = self._program.role is Role.CONSUMER
            self._call(member, "close", timeout_s=CONSUMER_CLOSE_S if is_consumer else CALL_S)

    @property
    def _readers(self) -> list[Member]:
        return [member for member in self._members if member.is_reading]

    @property
    def _only(self) -> Member:
        """The producer."""
        return self._members[0]

    # --- moves --------------------------------------------------------------------------------------------------------

    def _do(self, move: Move, member: Member) -> None:
        if move.do.is_of_cluster:
            self._site.change(move)
            if move.do in (Do.CUT_ALL, Do.FREEZE_ALL, Do.DIE_ALL):
                self._look_meanwhile()
            return
        match move.do:
            case Do.SEND:
                self._send(move)
            case Do.FLUSH:
                self._flush()
            case Do.CANCEL_FLUSH:
                self._cancel(self._only, move.count, "flush", FLUSH_S)
            case Do.CANCEL_POLL:
                self._cancel(member, move.count, "poll", POLL_S, max_records=POLLED_MAX)
            case Do.COMMIT_HALVES:
                self._commit_halves(member)
            case Do.COMMIT_IN_POLL:
                self._beside_a_poll(member, lambda: self._commit(move, member))
            case Do.RESTART_IN_POLL:
                self._beside_a_poll(member, lambda: self._close(member))
                self._start(member)
            case Do.COMPACT:
                self._site.compact()
            case Do.WAIT:
                self._wait(move.count / 1_000)
            case Do.SETTLE:
                self._settle()
            case Do.ARRIVE:
                self._site.write(move.count, _least_bytes(move))
            case Do.ARRIVE_COMMITTED | Do.ARRIVE_ABORTED:
                self._site.write_in_transaction(move.count, _least_bytes(move), move.do is Do.ARRIVE_COMMITTED)
            case Do.SUBSCRIBE:
                self._subscribe(member, move.topic)
            case Do.ASSIGN:
                self._assign(member)
            case Do.POLL | Do.GLANCE:
                self._poll(member, move.count, POLL_S if move.do is Do.POLL else GLANCE_S)
            case Do.READ:
                self._read_records(move.count)
            case Do.READ_SHORT:
                self._read_records(move.count, poll_s=GLANCE_S)
            case Do.READ_NOW:
                self._read_records(move.count, poll_s=0.0)
            case Do.COMMIT:
                self._commit(move, member)
            case Do.SEEK:
                self._seek(move, member)
            case Do.PAUSE | Do.RESUME:
                self._pause(move, member)
            case Do.BEGIN:
                self._begin(member)
            case Do.COMMIT_TRANSACTION | Do.ABORT_TRANSACTION:
                self._end_transaction(member, is_commit=move.do is Do.COMMIT_TRANSACTION)
            case Do.COPY:
                self._copy(move, member)
            case Do.SEND_OFFSETS:
                self._send_offsets(member)
            case Do.CLOSE:
                self._close(member)
            case Do.RESTART:
                self._close(member)
                self._start(member)
            case Do.KILL:
                if member.is_started:
                    member.kill()
                self._leave_open(member)
                self._start(member, is_killed_before=True)
            case Do.SLEEP:
                self._sleep(move, member)
            case Do.WORK:
                self._work(move, member)

    def _wait(self, seconds: float) -> None:
        """Meanwhile what was given to a producer goes on to it."""
        if self._program.role is not Role.PRODUCER:
            time.sleep(seconds)
        else:
            self._only.peer.pump(seconds)

    def _settle(self) -> None:
        """What does not get done is the cluster's affair: the program goes on."""
        until_s = time.monotonic() + SETTLED_WITHIN_S
        while not self._site.is_settled() and time.monotonic() < until_s:
            self._wait(_SETTLE_POLL_S)

    def _answer(self, member: Member, do: str, *, timeout_s: float, **fields: object) -> Event:
        """Meanwhile other members are asked for records, if it takes long. Some libraries carry out nothing of a group
        while it rebalances, and others take part in a rebalance only when they are polled: here the program of each
        member would wait for the other one."""
        others = [each for each in self._readers if each is not member and not each.is_asleep]
        if do == "poll" or not others:
            return member.peer.call(do, timeout_s=timeout_s, **fields)
        peer = member.peer
        number = peer.ask(do, timeout_s=timeout_s, **fields)
        until_s = time.monotonic() + timeout_s
        while not peer.is_answered(number, TURN_S) and time.monotonic() < until_s:
            for each in others:
                self._poll(each, 0, TURN_S)
        return peer.answer(number)

    def _call(self, member: Member, do: str, *, timeout_s: float = CALL_S, **fields: object) -> Event | None:
        """The answer. None if it is an error, which is noted. Where the client says that the same command may be tried
        again, it is, unless the first try has used up its time."""
        until_s = time.monotonic() + timeout_s
        for _ in range(RETRIES_MAX):
            answer = self._answer(member, do, timeout_s=timeout_s, **fields)
            if not isinstance(answer, ErrorEvent):
                return answer
            self.happened.append(Problem(at_us=answer.at_us, reason=answer.reason, code=answer.code, command=do))
            if answer.next != "retry" or time.monotonic() > until_s:
                return None
            member.peer.pump(_RETRY_S)
        return None

    def _insist(self, member: Member, do: str, **fields: object) -> None:
        """As an application does that can do nothing without it: after any error it tries again, with a new client. One
        that has never been able to, on a cluster where nothing happens, cannot do the program."""
        patience = self._patience(member)
        while self._call(member, do, timeout_s=CALL_S, **fields) is None:
            if patience.is_over and not self._has_begun_to_read and not self._site.has_met():
                told = next(one for one in reversed(self.happened) if isinstance(one, Problem))
                self._problem = f"{REFUSES}: {told.reason}"
                raise _Over
            if not self._is_healed():
                patience.renew()
            elif patience.is_over:
                expected = sum(self._site.log_ends().values())
                self._note_stuck("records unread", self._unread(), expected, patience.since_s)
                raise _Over
            member.peer.pump(_RETRY_S)
            self._close(member)
            self._connect(member)
            member.is_reading = True
        self._has_begun_to_read = True

    def _by_name(self, positions: Mapping[int, int]) -> dict[tuple[str, int], int]:
        return {self._site.topics.place(number): offset for number, offset in positions.items()}

    def _one(self, number: int, **fields: int) -> list[dict[str, object]]:
        topic, partition = self._site.topics.place(number)
        return [{"topic": topic, "partition": partition, **fields}]

    # --- calls at once ------------------------------------------------------------------------------------------------

    def _cancel(self, member: Member, after_ms: int, do: str, timeout_s: float, **fields: object) -> None:
        """What a call that is given up answers, an error too, is right. What it was about is not lost by that."""
        peer = member.peer
        number = peer.ask(do, timeout_s=timeout_s, **fields)
        peer.pump(after_ms / 1_000)
        cancelling = peer.ask("cancel", timeout_s=CALL_S, command=number)
        peer.answer(number)
        peer.answer(cancelling)

    def _beside_a_poll(self, member: Member, call: Callable[[], None]) -> None:
        """The poll has nothing to wait for if records are there: then the call comes after it."""
        number = member.peer.ask("poll", timeout_s=LONG_POLL_S, max_records=POLLED_MAX)
        member.peer.pump(BESIDE_S)
        call()
        member.peer.answer(number)

    def _commit_halves(self, member: Member) -> None:
        """Two commits that do not speak of the same partition: whichever is last, both hold."""
        positions = [each for each in sorted(member.positions.items()) if each[0] in member.owned]
        halves = [dict(positions[::2]), dict(positions[1::2])]
        member.asked, member.asked_besides = halves
        peer = member.peer
        asked = [
            (half, peer.ask("commit", timeout_s=CALL_S, partitions=partitions_of(self._by_name(half))))
            for half in halves
            if half
        ]
        for half, number in asked:
            self._note_commit(member, half, peer.answer(number))
        member.asked_besides = {}

    # --- producing ----------------------------------------------------------------------------------------------------

    def _send(self, move: Move) -> None:
        if self._program.is_transactional and not self._only.transaction:
            return  # it could not begin one, and has told so
        left, topics = move.count, self._site.topics
        number = move.partition if move.partition < topics.count else 0
        while left > 0:
            self._commands += 1
            lot = min(left, PRODUCE_RECORDS_MAX, max(1, (1 << 20) // max(1, move.size_bytes)))
            self._wait_for_room(self._only)
            topic = topics.topic_of(number) if number >= 0 else self._commands % len(topics.names)
            records = [
                self._record(size_of(move, place % move.callers), topic, number, place % move.callers)
                for place in range(lot)
            ]
            self._only.peer.produce(topics.names[topic], records, callers=move.callers)
            left -= lot

    def _record(self, size_bytes: int, topic: int, number: int, caller: int) -> OutRecord:
        """`number`: of the partition; -1: the client chooses one of the topic's."""
        seq = self._seq
        self._seq += 1
        if topic:
            self._sent_to[seq] = topic
        name = f"{self._site.client_id}/{seq}/".encode()
        is_empty = size_bytes == 0
        value = name + b"." * max(0, size_bytes - len(name))
        self.happened.append(
            Sent(
                at_us=now_us(),
                seq=seq,
                value=value,
                partition=number,
                transaction=self._only.transaction,
                command=self._commands,
                caller=caller,
            )
        )
        return OutRecord(
            seq=seq,
            key=name if is_empty else None,
            value=b"" if is_empty else value,
            partition=self._site.topics.place(number)[1] if number >= 0 else None,
        )

    def _wait_for_room(self, member: Member) -> None:
        peer = member.peer
        conversation = peer.conversation
        most = conversation.ready.in_flight_max if conversation.ready else IN_FLIGHT_MAX
        open_before, patience = conversation.open_count, self._patience(member)
        while not peer.has_room or conversation.open_count >= most:
            peer.pump(_ROOM_S)
            if peer.is_lost:
                raise PeerLost("the client is gone")
            still_open = conversation.open_count
            if still_open < open_before or not self._is_healed():
                open_before = still_open
                patience.renew()
            elif patience.is_over:
                self._note_stuck("records without an outcome", still_open, self._seq, patience.since_s)
                raise _Over

    def _flush(self) -> None:
        since_s, peer = time.monotonic(), self._only.peer
        self._call(self._only, "flush", timeout_s=FLUSH_S)
        while peer.conversation.open_count:
            if time.monotonic() - since_s > FLUSH_S + GRACE_S:
                self._note_stuck("records without an outcome", peer.conversation.open_count, self._seq, since_s)
                raise _Over
            peer.pump(_ROOM_S)
            if peer.is_lost:
                raise PeerLost("the client is gone")

    # --- transactions -------------------------------------------------------------------------------------------------

    def _begin(self, member: Member) -> None:
        """An application that cannot begin tries again: without a transaction it sends nothing. A copier does so with a
        new client, because all that it is for is in transactions."""
        self._transaction += 1
        number = self._transaction
        for _ in range(RETRIES_MAX):
            if self._call(member, "begin") is not None:
                member.transaction, member.must_abort = number, False
                return
            member.peer.pump(_RETRY_S)
            if self._is_copier:
                self._renew(member)

    def _end_transaction(self, member: Member, *, is_commit: bool) -> None:
        if not member.transaction:
            return
        offered: Mapping[int, int] = {}
        if self._is_copier:
            offered = member.copying.positions
            is_commit = is_commit and not member.must_abort and not member.copying.is_void
            if is_commit and self._program.members > 1:
                # Who gets a partition next may be heard before the answer, and may begin behind these offsets.
                self._note_offsets(member, offered, Told.UNANSWERED)
        was_to_commit, is_after_commit = is_commit, False
        answer = self._ended(member, is_commit=is_commit)
        if is_commit and answer is not None and answer.next == "abort":
            is_commit, answer = False, self._ended(member, is_commit=False)
        elif is_commit and not self._is_copier and answer is not None and answer.next is None:
            # Nobody knows whether it was committed. Kafka's documentation: give it up, and go on with this producer.
            given_up = self._ended(member, is_commit=False)
            is_commit, answer = (False, None) if given_up is None else (True, answer)
            is_after_commit = given_up is None
        is_failed = answer is not None
        self.happened.append(
            TransactionEnd(
                at_us=now_us(),
                transaction=member.transaction,
                is_commit=is_commit,
                told=Told.FAILED if is_failed else Told.DONE,
                code=0 if answer is None else answer.code,
                is_after_commit=is_after_commit,
            )
        )
        member.transaction = 0
        if self._is_copier:
            if was_to_commit and (is_commit or is_failed):
                self._note_offsets(member, offered, Told.FAILED if is_failed else Told.DONE)
            self._go_on_copying(member, is_commit=is_commit, is_failed=is_failed)
        elif is_failed:  # the application's next step is a new producer with the same id
            self._close(member)
            self._connect(member)

    def _ended(self, member: Member, *, is_commit: bool) -> ErrorEvent | None:
        """Ends a transaction, and tries again as long as the client says so. None if it has ended."""
        patience = self._patience(member)
        command = "commit-transaction" if is_commit else "abort-transaction"
        failed: ErrorEvent | None = None
        for _ in range(RETRIES_MAX):
            timeout_s = FLUSH_S if self._site.has_met() else UNDISTURBED_S
            answer = self._answer(member, command, timeout_s=timeout_s)
            if not isinstance(answer, ErrorEvent):
                return None
            failed = answer
            self.happened.append(Problem(at_us=failed.at_us, reason=failed.reason, code=failed.code, command=command))
            if failed.next != "retry" and (is_commit or failed.next != "abort"):
                break
            # Else a client that never ends a transaction would be asked for many minutes, and told as nothing.
            if not self._is_healed():
                patience.renew()
            elif patience.is_over:
                self._note_stuck("transactions not ended", 1, self._transaction, patience.since_s)
                raise _Over
            member.peer.pump(_RETRY_S)
        return failed

    def _leave_open(self, member: Member) -> None:
        """It ends without an end of its transaction. The next client with this id gives it up."""
        if member.transaction:
            self.happened.append(
                TransactionEnd(at_us=now_us(), transaction=member.transaction, is_commit=False, told=Told.UNANSWERED)
            )
            member.transaction = 0

    # --- copying ------------------------------------------------------------------------------------------------------

    def _copy(self, move: Move, member: Member) -> None:
        """Into the open transaction: records of this member, as many as the move says. All members are
        asked for records meanwhile, because many libraries carry out a rebalance only in a poll; what others get so
        waits for their own transactions. Less, if there are no more or a rebalance has made the transaction void."""
        if not member.transaction:
            return  # it could not begin one, and has told so
        count, size_bytes = move.count, _least_bytes(move)
        lot_max = min(COPIED_MAX, max(1, COPIED_BYTES_MAX // max(1, size_bytes)))
        copied, handed_out, patience = 0, 0, self._patience(*self._members)
        most = AGAIN_MAX * max(10, sum(self._site.log_ends().values()))
        while (count == 0 or copied < count) and not member.copying.is_void:
            if lot := member.copying.take(min(count - copied, lot_max) if count else lot_max):
                self._give_copies(lot, size_bytes, member)
                copied += len(lot)
                continue
            if (unread := self._not_handed_out()) == 0:
                return
            came = self._poll_all(0, POLL_S)
            handed_out += came
            if (came and handed_out <= most) or not self._is_healed():
                patience.renew()
            elif patience.is_over:
                self._note_stuck("records unread", unread, sum(self._site.log_ends().values()), patience.since_s)
                raise _Over

    def _give_copies(self, lot: Sequence[Place], size_bytes: int, member: Member) -> None:
        self._commands += 1
        self._wait_for_room(member)
        records = []
        for partition, offset in lot:
            name = f"{self._site.client_id}/{self._seq}/{partition}-{offset}/".encode()
            value = name + b"." * max(0, size_bytes - len(name))
            records.append(OutRecord(seq=self._seq, key=None, value=value))
            self.happened.append(
                Sent(
                    at_us=now_us(),
                    seq=self._seq,
                    value=value,
                    transaction=member.transaction,
                    command=self._commands,
                    source=(partition, offset),
                    member=member.number,
                )
            )
            self._seq += 1
        member.peer.produce(self._site.copies, records)

    def _send_offsets(self, member: Member) -> None:
        """If it cannot, the transaction must be given up: it would be committed without them."""
        positions = member.copying.positions
        if not member.transaction or not positions or member.copying.is_void:
            return
        if self._call(member, "send-offsets", partitions=partitions_of(self._by_name(positions))) is None:
            member.must_abort = True

    def _note_offsets(self, member: Member, offsets: Mapping[int, int], told: Told) -> None:
        if offsets:
            self.happened.append(Commit(at_us=now_us(), offsets=offsets, told=told, member=member.number))

    def _go_on_copying(self, member: Member, *, is_commit: bool, is_failed: bool) -> None:
        """After an end that failed with a new client, which begins where the group stands. After one that gave the
        transaction up at the records that it had."""
        if is_failed:
            self._renew(member)
        elif is_commit:
            member.copying.end_committed()
        else:
            back = {each: at for each, at in member.copying.end_aborted().items() if each in member.owned}
            if not back:
                return
            if self._call(member, "seek", partitions=partitions_of(self._by_name(back))) is None:
                self._renew(member)
                return
            member.positions.update(back)
            self.happened += [
                Sought(at_us=now_us(), partition=partition, offset=offset, member=member.number)
                for partition, offset in back.items()
            ]

    def _renew(self, member: Member) -> None:
        self._close(member)
        self._connect(member)
        self._subscribe(member)

    def _not_handed_out(self) -> int:
        """Records that no member has got since the group's offset. A partition that nobody has begins there."""
        at = dict(self._site.committed())
        for member in self._readers:
            for partition, offset in list(member.positions.items()):  # the reading thread may add to them
                if partition in member.owned:
                    at[partition] = max(at.get(partition, 0), offset)
        return self._behind(at)

    def _behind(self, at: Mapping[int, int]) -> int:
        return sum(
            max(0, end - at.get(partition, 0))
            for partition, end in self._site.log_ends().items()
            if partition < self._site.partitions
        )

    def _copy_rest(self) -> None:
        """In transactions of all that there are, until the group's offset is behind the last record. A coordinator
        answers before it has written the markers, so the offset may follow a moment later. Meanwhile all are asked for
        records: who is not asked is not told either that its partitions were taken away."""
        if not self._readers:
            return
        before, patience = self._behind(self._site.committed()), self._patience(*self._members)
        while before:
            for member in self._readers:
                self._begin(member)
                self._copy(Move(do=Do.COPY), member)
                self._send_offsets(member)
                self._end_transaction(member, is_commit=True)
            self._poll_all(0, _SETTLE_POLL_S)
            left = self._behind(self._site.committed())
            if left < before or not self._is_healed():
                patience.renew()
            elif patience.is_over:
                expected = sum(self._site.log_ends().values())
                self._note_stuck("records not copied", left, expected, patience.since_s)
                raise _Over
            before = left

    # --- consuming ----------------------------------------------------------------------------------------------------

    def _subscribe(self, member: Member, topic: int = -1) -> None:
        """To the topic with this index, or to all."""
        if not member.is_connected:
            self._start(member)
        member.is_reading = True
        names = self._site.topics.names if topic < 0 else (self._site.topics.names[topic],)
        member.subscribed = range(len(self._site.topics.names)) if topic < 0 else range(topic, topic + 1)
        self._insist(member, "subscribe", topics=list(names))

    def _assign(self, member: Member) -> None:
        if not member.is_connected:
            self._start(member)
        partitions = range(self._site.partitions)
        member.is_reading, member.subscribed = True, range(len(self._site.topics.names))
        positions = self._by_name(dict.fromkeys(partitions, EARLIEST))
        self._insist(member, "assign", partitions=partitions_of(positions))
        at_us = now_us()
        member.owned.update(partitions)
        self.happened.append(
            Rebalance(at_us=at_us, change=Change.ASSIGNED, partitions=frozenset(partitions), member=member.number)
        )
        self.happened += [
            Sought(at_us=at_us, partition=partition, offset=0, member=member.number) for partition in partitions
        ]

    def _poll(self, member: Member, count: int, timeout_s: float) -> int:
        """How many records came."""
        most = max(1, min(count or POLLED_MAX, records_per_poll(max(1_000, self._program.record_bytes_max))))
        answer = self._call(member, "poll", timeout_s=timeout_s, max_records=most)
        return len(answer.records) if isinstance(answer, Polled) else 0

    def _poll_all(self, count: int, timeout_s: float) -> int:
        """One after the other. `timeout_s` if there is only one."""
        readers = [member for member in self._readers if not member.is_asleep]
        turn_s = timeout_s if len(readers) < 2 else min(TURN_S, timeout_s)
        return sum(self._poll(member, count, turn_s) for member in readers)

    def _read_records(self, count: int, *, poll_s: float = POLL_S) -> None:
        """Until `count` records have come, or all that are there and not paused. Patience begins anew with each record,
        and begins when the disturbance is healed. Who hands out the log again and again makes no progress."""
        got, patience = 0, self._patience(*self._members)
        most = AGAIN_MAX * max(10, sum(self._site.log_ends().values()))
        while count == 0 or got < count:
            if (unread := self._unread()) == 0:
                if count == 0:
                    self._poll_all(0, IDLE_S)  # as applications do: at the end they go on asking
                return
            came = self._poll_all(count - got if count else 0, poll_s)
            if poll_s < SHORT_PAUSE_S:  # whoever polls so briefly has other things to do
                time.sleep(SHORT_PAUSE_S)
            got += came
            if (came and got <= most) or not self._is_healed():
                patience.renew()
            elif patience.is_over:
                expected = sum(self._site.log_ends().values())
                self._note_stuck("records unread", unread, expected, patience.since_s)
                raise _Over

    def _unread(self) -> int:
        """Records of the log, or markers of transactions, that nobody has got. With a paused partition there may be
        nothing to wait for. Of partitions that were added a client need not know for minutes."""
        starts, paused = self._site.log_starts(), set().union(*(member.paused for member in self._members))
        return sum(
            max(0, end - max(self._seen.get(partition, 0), starts.get(partition, 0)))
            for partition, end in self._site.log_ends().items()
            if partition < self._site.partitions and partition not in paused and self._is_due(partition)
        )

    def _is_due(self, partition: int) -> bool:
        """Whether somebody must get what comes there: who reads its topic, and knows from where on. Who begins at the
        end of the log knows that when it has got a record, or committed one."""
        topic = self._site.topics.topic_of(partition)
        readers = [member for member in self._readers if topic in member.subscribed]
        if not self._program.begins_at_end or partition in self._committed:
            return bool(readers)
        return any(partition in member.positions for member in readers)

    def _commit(self, move: Move, member: Member) -> None:
        """`move.count`: so many records before the position. Applications commit what they have finished."""
        positions = {
            partition: max(0, offset - move.count)
            for partition, offset in list(member.positions.items())  # a poll that waits adds to them
            if partition in member.owned
        }
        if not positions:
            return
        member.asked = positions
        answer = self._answer(member, "commit", timeout_s=CALL_S, partitions=partitions_of(self._by_name(positions)))
        self._note_commit(member, positions, answer)

    def _note_commit(self, member: Member, positions: Mapping[int, int], answer: Event) -> None:
        """One that was done is noted when it is heard."""
        if not isinstance(answer, ErrorEvent):
            self._committed |= positions.keys()
        else:
            self.happened.append(
                Commit(at_us=answer.at_us, offsets=positions, told=Told.FAILED, code=answer.code, member=member.number)
            )

    def _seek(self, move: Move, member: Member) -> None:
        partition = move.partition
        if partition not in member.owned:
            return
        target = 0 if move.count < 0 else max(0, member.positions.get(partition, 0) - move.count)
        if self._call(member, "seek", partitions=self._one(partition, offset=target)) is not None:
            self.happened.append(Sought(at_us=now_us(), partition=partition, offset=target, member=member.number))
            member.positions[partition] = target

    def _pause(self, move: Move, member: Member) -> None:
        if move.partition not in member.owned:
            return
        do = "pause" if move.do is Do.PAUSE else "resume"
        if self._call(member, do, partitions=self._one(move.partition)) is None:
            return
        if move.do is Do.PAUSE:
            member.paused.add(move.partition)
        else:
            member.paused.discard(move.partition)

    def _sleep(self, move: Move, member: Member) -> None:
        member.signal(signal.SIGSTOP)
        try:
            self._work(move, member)
        finally:
            member.signal(signal.SIGCONT)

    def _work(self, move: Move, member: Member) -> None:
        """Nobody asks this member for anything. Other members go on reading."""
        member.is_asleep = True
        until_s = time.monotonic() + move.count / 1_000
        try:
            while (left_s := until_s - time.monotonic()) > 0:
                if not any(reader for reader in self._readers if not reader.is_asleep):
                    time.sleep(left_s)
                else:
                    self._poll_all(0, TURN_S)
        finally:
            member.is_asleep = False

    def _patience(self, *members: Member) -> Patience:
        """With these members, as long as each has a process."""
        return Patience(
            self._site.patience_s,
            lambda: [member.peer.pid for member in members if member.is_started and not member.is_lost],
        )

    def _note_stuck(self, what: str, missing: int, expected: int, since_s: float) -> None:
        waited_ms = int((time.monotonic() - since_s) * 1_000)
        self.happened.append(Stuck(at_us=now_us(), what=what, missing=missing, expected=expected, waited_ms=waited_ms))
