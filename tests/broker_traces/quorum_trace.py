"""Commands of a quorum's trace, carried out by real cores. The network delivers only what it is told to.

Every voter has a clock of its own that moves by command only, so nothing happens that the trace does not say.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from broker.quorum.core import Quorum, QuorumConfig
from broker.quorum.types import (
    Action,
    AppendEntries,
    BeginQuorumEpochRequest,
    Committed,
    EndQuorumEpochRequest,
    Event,
    FetchRequest,
    FetchResponse,
    LogEntry,
    PersistedState,
    PersistQuorumState,
    Propose,
    QuorumError,
    Reply,
    Request,
    RequestReceived,
    Response,
    ResponseReceived,
    Send,
    Shutdown,
    Start,
    Tick,
    TruncateEntries,
    VoteRequest,
    VoteResponse,
)

ERRORS = {value: name for name, value in vars(QuorumError).items() if isinstance(value, int)}
STEPS_MAX = 500


@dataclass(frozen=True, slots=True)
class Message:
    sender: int
    receiver: int
    correlation_id: int  # of the sender's request, or of the request that this answers
    body: Request | Response
    is_request: bool

    def __str__(self) -> str:
        return f"{self.sender}->{self.receiver} {describe(self.body)}"


class QuorumTrace:
    def __init__(self) -> None:
        self._voters: tuple[int, ...] = ()
        self._options: dict[str, int] = {}
        self._cores: dict[int, Quorum] = {}
        self._states: dict[int, PersistedState] = {}
        self._logs: dict[int, list[LogEntry]] = {}
        self._clocks: dict[int, int] = {}
        self._in_flight: list[Message] = []
        self._asked: dict[tuple[int, int], Message] = {}  # (voter, token) -> what it was asked
        self._cut: set[tuple[int, int]] = set()
        self._lines: list[str] = []

    def run(self, command: str, words: list[str]) -> list[str]:
        """One command of a trace; returns what is to be written under it."""
        self._lines = []
        match command, words:
            case "voters", _:
                self._voters = tuple(int(word) for word in words if word.isdigit())
                self._options = {name: int(value) for name, _, value in (w.partition("=") for w in words) if value}
            case "start", _:
                for word in words:
                    self._start(int(word))
            case "crash", [node]:
                del self._cores[int(node)]
                self._in_flight = [each for each in self._in_flight if each.receiver != int(node)]
            case "shutdown", [node]:
                self._handle(int(node), Shutdown())
            case "campaign", [node]:
                self._expire(int(node))
            case "elect", [node]:
                self._expire(int(node))
                self._settle()
                assert self._cores[int(node)].is_leader, f"voter {node} was not elected"
                self._lines = [f"  {node} is {self._role(self._cores[int(node)])}"]
            case "pass", [node, duration]:
                self._pass(int(node), int(duration.removesuffix("ms")))
            case "append", [node, payload]:
                core = self._cores[int(node)]
                self._handle(int(node), Propose(epoch=core.epoch, values=tuple(payload.encode().split(b"+"))))
            case "deliver", [link]:
                sender, receiver = map(int, link.split("->"))
                self._deliver(next(e for e in self._in_flight if (e.sender, e.receiver) == (sender, receiver)))
            case "drop", [link]:
                sender, receiver = map(int, link.split("->"))
                gone = [each for each in self._in_flight if (each.sender, each.receiver) == (sender, receiver)]
                self._in_flight = [each for each in self._in_flight if each not in gone]
                self._lines += [f"lost: {each}" for each in gone]
            case "settle", []:
                self._settle()
            case "cut", [one, other]:
                self._cut |= {(int(one), int(other)), (int(other), int(one))}
                self._in_flight = [e for e in self._in_flight if (e.sender, e.receiver) not in self._cut]
            case "heal", []:
                self._cut.clear()
            case "state", []:
                self._lines = [self._state(node) for node in self._voters]
            case _:
                raise ValueError(f"no such command: {command} {' '.join(words)}")
        return self._lines

    # -- voters ------------------------------------------------------------------------------------------------------

    def _start(self, node: int) -> None:
        state, log = self._states.get(node, PersistedState()), self._logs.setdefault(node, [])
        config = QuorumConfig(node_id=node, voters=self._voters, **self._options)
        self._cores[node] = Quorum(config=config, persisted=state, entries=tuple(log), rng=random.Random(node))
        self._clocks[node] = 0
        self._handle(node, Start())

    def _expire(self, node: int) -> None:
        """Its clock moves to where it would stand for election."""
        core = self._cores[node]
        deadline_ms = core._role.deadline_ms(core._voter)
        assert deadline_ms is not None, f"voter {node} waits for nothing"
        self._clocks[node] = deadline_ms
        self._handle(node, Tick())

    def _pass(self, node: int, duration_ms: int) -> None:
        end_ms = self._clocks[node] + duration_ms
        for _ in range(STEPS_MAX):
            deadline_ms = self._cores[node].next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self._clocks[node] = max(self._clocks[node], deadline_ms)
            self._handle(node, Tick())
        self._clocks[node] = end_ms

    def _handle(self, node: int, event: Event) -> None:
        core = self._cores[node]
        before = self._role(core)
        actions = core.handle(event, self._clocks[node])
        core.check_invariants()
        if self._role(core) != before:
            self._lines.append(f"  {node} is {self._role(core)}")
        for action in actions:
            self._perform(node, action)

    def _role(self, core: Quorum) -> str:
        leader = f" of {core.leader_id}" if core.role_name == "follower" else ""
        return f"{core.role_name}{leader} in epoch {core.epoch}"

    def _perform(self, node: int, action: Action) -> None:
        match action:
            case Send(peer_id=peer, correlation_id=correlation_id, request=request):
                self._post(Message(node, peer, correlation_id, request, True))
            case Reply(token=token, response=response):
                asked = self._asked.pop((node, token))
                self._post(Message(node, asked.sender, asked.correlation_id, response, False))
            case PersistQuorumState(state=state):
                if state.voted_id not in (-1, self._states.get(node, PersistedState()).voted_id):
                    self._lines.append(f"  {node} votes for {state.voted_id} in epoch {state.leader_epoch}")
                self._states[node] = state
            case AppendEntries(entries=entries):
                self._logs[node] += entries
                self._lines.append(f"  {node} appends {entries_text(entries)}")
            case TruncateEntries(end_offset=end_offset):
                del self._logs[node][end_offset:]
                self._lines.append(f"  {node} cuts its log at offset {end_offset}")
            case Committed(high_watermark=high_watermark):
                self._lines.append(f"  {node} knows: all below offset {high_watermark} is committed")
            case _:
                pass

    def _state(self, node: int) -> str:
        core = self._cores.get(node)
        log = entries_text(self._logs.get(node, [])) or "empty"
        if core is None:
            return f"{node} down; log: {log}"
        return f"{node} {self._role(core)}; log: {log}; committed below {core.high_watermark}"

    # -- network -----------------------------------------------------------------------------------------------------

    def _post(self, message: Message) -> None:
        if (message.sender, message.receiver) not in self._cut and message.receiver in self._cores:
            self._in_flight.append(message)

    def _deliver(self, message: Message) -> None:
        self._in_flight.remove(message)
        self._lines.append(str(message))
        node = message.receiver
        if message.is_request:
            token = len(self._asked) + 1 + max((token for _, token in self._asked), default=0)
            self._asked[(node, token)] = message
            assert not isinstance(message.body, Response)
            self._handle(node, RequestReceived(token=token, request=message.body))
        else:
            assert isinstance(message.body, Response)
            self._handle(
                node,
                ResponseReceived(
                    sender_id=message.sender, correlation_id=message.correlation_id, response=message.body
                ),
            )

    def _settle(self) -> None:
        """Deliver until nothing is in flight; the messages themselves are not written down."""
        for _ in range(STEPS_MAX):
            if not self._in_flight:
                break
            self._deliver(self._in_flight[0])
        self._lines = [line for line in self._lines if line.startswith("  ")]


def entries_text(entries: tuple[LogEntry, ...] | list[LogEntry]) -> str:
    return ", ".join(
        f"{e.offset}@{e.epoch} {'leader-change' if e.is_control else b'+'.join(e.values).decode()}" for e in entries
    )


def describe(body: Request | Response) -> str:
    match body:
        case VoteRequest():
            kind = "PreVote" if body.pre_vote else "Vote"
            log = f"log ends at {body.last_offset} in epoch {body.last_epoch}" if body.last_offset else "log is empty"
            return f"{kind}: epoch {body.candidate_epoch}, {log}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch: epoch {body.leader_epoch}"
        case EndQuorumEpochRequest():
            return f"EndQuorumEpoch: epoch {body.leader_epoch}, candidates {list(body.preferred_candidates)}"
        case FetchRequest():
            last = f", after epoch {body.last_fetched_epoch}" if body.fetch_offset else ""
            return f"Fetch: from offset {body.fetch_offset}{last}, in epoch {body.current_leader_epoch}"
    return _describe_response(body)


def _describe_response(body: Request | Response) -> str:
    assert isinstance(body, Response)
    if body.error_code:
        return f"answer: {ERRORS[body.error_code]}, epoch {body.leader_epoch}"
    match body:
        case VoteResponse():
            leader = f", leader {body.leader_id}" if body.leader_id >= 0 else ""
            return f"answer: {'granted' if body.vote_granted else 'refused'}, epoch {body.leader_epoch}{leader}"
        case FetchResponse(diverging_epoch=diverging) if diverging is not None:
            return f"answer: diverging, epoch {diverging.epoch} ends at {diverging.end_offset}"
        case FetchResponse():
            entries = entries_text(body.entries) or "nothing new"
            return f"answer: {entries}; committed below {body.high_watermark}"
        case _:
            return "answer: ok"
