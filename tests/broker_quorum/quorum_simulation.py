"""A seeded world for quorum cores: virtual time, a lossy network, disks that survive crashes.

After every event it checks: at most one leader per epoch, logs match, nothing committed is lost or changed, votes are
persisted before they are given, and each core's own invariants.
"""

from __future__ import annotations

import heapq
import itertools
import random
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from broker.quorum.core import Quorum, QuorumConfig
from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.quorum.types import (
    Action,
    AppendEntries,
    BecameLeader,
    Committed,
    DropPrefix,
    Event,
    InstallSnapshot,
    LeaderChanged,
    LogEntry,
    LostLeadership,
    PersistedState,
    PersistQuorumState,
    Propose,
    Reply,
    Request,
    RequestReceived,
    Response,
    ResponseReceived,
    Send,
    SendFailed,
    Shutdown,
    SnapshotTaken,
    Start,
    Tick,
    TruncateEntries,
    VoteRequest,
    VoteResponse,
    WriteSnapshot,
)


@dataclass(slots=True)
class Disk:
    state: PersistedState = field(default_factory=PersistedState)
    entries: list[LogEntry] = field(default_factory=list)
    snapshot: Snapshot | None = None
    start: SnapshotId | None = None  # where `entries` begin, None for offset 0

    @property
    def start_offset(self) -> int:
        return 0 if self.start is None else self.start.end_offset

    @property
    def end_offset(self) -> int:
        return self.entries[-1].end_offset if self.entries else self.start_offset

    def at(self, offset: int) -> LogEntry | None:
        """The entry that has this offset."""
        position = bisect_right(self.entries, offset, key=lambda entry: entry.offset) - 1
        found = self.entries[position] if position >= 0 else None
        return None if found is None or offset >= found.end_offset else found

    def before(self, offset: int) -> list[LogEntry]:
        """The entries that end at this offset or before it."""
        return [entry for entry in self.entries if entry.end_offset <= offset]


def state_of(entries: list[LogEntry]) -> bytes:
    """What a snapshot of these entries holds: here simply all of them."""
    return b"".join(b"%d@%d:%s;" % (each.offset, each.epoch, b",".join(each.values)) for each in entries)


@dataclass(slots=True)
class Network:
    delay_ms: tuple[int, int] = (1, 5)
    drop_share: float = 0.0
    cut: set[tuple[int, int]] = field(default_factory=set)  # (from, to): messages that way are lost


@dataclass(slots=True)
class Pending:
    """What a node remembers to answer a request: token -> (asker, its correlation id, the asker's life)."""

    asker_id: int
    correlation_id: int
    asker_life: int
    request: Request


class World:
    def __init__(self, *, nodes: int, seed: int, **config: int) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.network = Network()
        self.voters = tuple(range(1, nodes + 1))
        self.config = config
        self.disks = {node: Disk() for node in self.voters}
        self.lives = dict.fromkeys(self.voters, 0)
        self.cores: dict[int, Quorum] = {}
        self.deadlines: dict[int, int] = {}  # of each core, as of its last event
        self.queue: list[tuple[int, int, int, int, Event]] = []  # (when, tie, node, life, event)
        self.tie = itertools.count()
        self.tokens = itertools.count(1)
        self.pending: dict[int, Pending] = {}
        self.leaders: dict[int, int] = {}  # epoch -> who led it
        self.votes: dict[tuple[int, int], int] = {}  # (voter, epoch) -> candidate that it was granted to
        self.committed: list[LogEntry] = []
        self.applied = dict.fromkeys(self.voters, 0)
        self.proposals = itertools.count()
        self.events = 0
        self.elections: list[tuple[int, int]] = []  # (when, epoch)
        self.installed = 0  # snapshots that came from a leader
        for node in self.voters:
            self.start(node)

    # -- what a test does ---------------------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        self.lives[node] += 1
        config = QuorumConfig(node_id=node, voters=self.voters, **self.config)
        rng = random.Random(self.rng.random())
        disk = self.disks[node]
        self.applied[node] = 0 if disk.snapshot is None else disk.snapshot.snapshot_id.end_offset
        self.cores[node] = Quorum(
            config=config,
            persisted=disk.state,
            entries=tuple(disk.entries),
            rng=rng,
            snapshot=disk.snapshot,
            log_start=disk.start,
        )
        self.deliver(node, Start())

    def kill(self, node: int) -> None:
        del self.cores[node]
        self.deadlines.pop(node, None)
        self.lives[node] += 1

    def shut_down(self, node: int) -> None:
        self.deliver(node, Shutdown())

    def propose(self) -> None:
        for node in list(self.cores):
            if node in self.cores and self.cores[node].is_leader:
                number = next(self.proposals)
                values = tuple(f"record {number}.{part}".encode() for part in range(1 + number % 4))
                self.deliver(node, Propose(epoch=self.cores[node].epoch, values=values))

    def take_snapshot(self, node: int, *, drops_prefix: bool = True) -> None:
        """Of what this node knows to be committed."""
        end_offset = self.applied[node]
        if node in self.cores and end_offset:
            snapshot_id = SnapshotId(end_offset=end_offset, epoch=self.cores[node].epoch_before(end_offset))
            snapshot = Snapshot(snapshot_id=snapshot_id, data=state_of(self.committed_before(end_offset)))
            self.deliver(node, SnapshotTaken(snapshot=snapshot, drops_prefix=drops_prefix))

    def isolate(self, nodes: set[int]) -> None:
        others = set(self.voters) - nodes
        self.network.cut = {pair for a in nodes for b in others for pair in ((a, b), (b, a))}

    def heal(self) -> None:
        self.network.cut = set()
        self.network.drop_share = 0.0

    def leader(self) -> int | None:
        """The live leader of the newest epoch."""
        leading = [node for node, core in self.cores.items() if core.is_leader]
        return max(leading, key=lambda node: self.cores[node].epoch, default=None)

    def run_for(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.step(end_ms):
            pass
        self.now_ms = end_ms

    def run_until_leader(self, limit_ms: int) -> int:
        """Milliseconds until some live leader has committed an entry of its own epoch."""
        start_ms = self.now_ms
        while not self.has_working_leader():
            if not self.step(start_ms + limit_ms):
                raise AssertionError(f"no working leader after {limit_ms} ms at {self.now_ms}: {self.describe()}")
        return self.now_ms - start_ms

    def has_working_leader(self) -> bool:
        leader = self.leader()
        if leader is None or not self.committed:
            return False
        return any(entry.epoch == self.cores[leader].epoch for entry in self.committed[-8:])

    def describe(self) -> dict[int, tuple[str, int, int, int]]:
        return {
            node: (core.role_name, core.epoch, core.leader_id, core.log_end_offset) for node, core in self.cores.items()
        }

    # -- the machine --------------------------------------------------------------------------------------------------

    def step(self, end_ms: int) -> bool:
        """One event or timer; False when nothing is left before `end_ms`."""
        timer = min(((deadline, node) for node, deadline in self.deadlines.items()), default=None)
        queued_ms = self.queue[0][0] if self.queue else None
        if timer is not None and (queued_ms is None or timer[0] < queued_ms):
            if timer[0] > end_ms:
                return False
            self.now_ms = max(self.now_ms, timer[0])
            self.deliver(timer[1], Tick())
            return True
        if queued_ms is None or queued_ms > end_ms:
            return False
        when_ms, _, node, life, event = heapq.heappop(self.queue)
        self.now_ms = max(self.now_ms, when_ms)
        if node in self.cores and self.lives[node] == life:
            self.deliver(node, event)
        return True

    def post(self, sender: int, node: int, event: Event, *, failure: tuple[int, Event] | None = None) -> None:
        """Send `event` over the network; when it is lost, the asker gets `failure` instead, later."""
        low, high = self.network.delay_ms
        when_ms = self.now_ms + self.rng.randint(low, high)
        life = self.lives[node]
        if (sender, node) in self.network.cut or self.rng.random() < self.network.drop_share or node not in self.cores:
            if failure is None or self.rng.random() < 0.3:
                return  # not even an error: the core's own request timeout must do
            node, event = failure
            life = self.lives[node]
        heapq.heappush(self.queue, (when_ms, next(self.tie), node, life, event))

    def deliver(self, node: int, event: Event) -> None:
        self.events += 1
        assert self.events < 400_000, "the world does not come to rest"
        core = self.cores[node]
        for action in core.handle(event, self.now_ms):
            self.perform(node, action)
        core.check_invariants()
        deadline_ms = core.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms, f"node {node} is late as {core.role_name}"
        self.deadlines.pop(node, None)
        if deadline_ms is not None:
            self.deadlines[node] = deadline_ms
        self.check(node)

    def perform(self, node: int, action: Action) -> None:
        disk = self.disks[node]
        match action:
            case Send(peer_id=peer, correlation_id=correlation_id, request=request):
                token = next(self.tokens)
                self.pending[token] = Pending(node, correlation_id, self.lives[node], request)
                failed = SendFailed(peer_id=peer, correlation_id=correlation_id)
                self.post(node, peer, RequestReceived(token=token, request=request), failure=(node, failed))
            case Reply(token=token, response=response):
                self.answer(node, self.pending.pop(token), response)
            case PersistQuorumState(state=state):
                disk.state = state
            case AppendEntries(entries=entries):
                assert entries[0].offset == disk.end_offset
                disk.entries += entries
            case TruncateEntries(end_offset=end_offset):
                disk.entries = disk.before(end_offset)
                assert disk.end_offset == end_offset, "an entry was cut in two"
            case WriteSnapshot(snapshot=snapshot):
                self.check_snapshot(snapshot)
                disk.snapshot = snapshot
            case DropPrefix(start_offset=start_offset):
                assert disk.snapshot is not None
                assert disk.snapshot.snapshot_id.end_offset == start_offset
                del disk.entries[: len(disk.before(start_offset))]
                disk.start = disk.snapshot.snapshot_id
            case InstallSnapshot(snapshot=snapshot):
                self.check_snapshot(snapshot)
                disk.snapshot, disk.start, disk.entries = snapshot, snapshot.snapshot_id, []
                assert self.applied[node] < snapshot.snapshot_id.end_offset
                self.applied[node] = snapshot.snapshot_id.end_offset
                self.installed += 1
            case Committed(high_watermark=high_watermark, entries=entries):
                self.commit(node, high_watermark, entries)
            case BecameLeader(epoch=epoch):
                assert self.leaders.setdefault(epoch, node) == node, f"epoch {epoch} has two leaders"
                self.elections.append((self.now_ms, epoch))
            case LostLeadership(epoch=epoch):
                assert self.leaders[epoch] == node
            case LeaderChanged(leader_id=leader_id, epoch=epoch):
                assert leader_id == -1 or epoch not in self.leaders or self.leaders[epoch] == leader_id

    @property
    def committed_end(self) -> int:
        return self.committed[-1].end_offset if self.committed else 0

    def committed_before(self, offset: int) -> list[LogEntry]:
        return self.committed[: bisect_left(self.committed, offset, key=lambda entry: entry.offset)]

    def check_snapshot(self, snapshot: Snapshot) -> None:
        """It holds committed entries only, and all of them up to its end."""
        end_offset = snapshot.snapshot_id.end_offset
        committed = self.committed_before(end_offset)
        assert committed[-1].end_offset == end_offset
        assert snapshot.data == state_of(committed)
        assert snapshot.snapshot_id.epoch == committed[-1].epoch

    def answer(self, node: int, pending: Pending, response: Response) -> None:
        request = pending.request
        is_vote = isinstance(request, VoteRequest) and not request.pre_vote
        if is_vote and isinstance(response, VoteResponse) and response.vote_granted:
            assert isinstance(request, VoteRequest)
            epoch, candidate = request.candidate_epoch, request.candidate_id
            assert self.votes.setdefault((node, epoch), candidate) == candidate, "voted twice in an epoch"
            assert self.disks[node].state.voted_id == candidate, "answered before the vote was on disk"
        if self.lives[pending.asker_id] != pending.asker_life:
            return
        event = ResponseReceived(sender_id=node, correlation_id=pending.correlation_id, response=response)
        failed = SendFailed(peer_id=node, correlation_id=pending.correlation_id)
        self.post(node, pending.asker_id, event, failure=(pending.asker_id, failed))

    def commit(self, node: int, high_watermark: int, entries: tuple[LogEntry, ...]) -> None:
        assert entries[0].offset == self.applied[node], "an entry was skipped or committed twice"
        assert entries[-1].end_offset == high_watermark, "the high watermark is in the middle of an entry"
        self.applied[node] = high_watermark
        for entry in entries:
            if entry.offset < self.committed_end:
                before = len(self.committed_before(entry.offset))
                assert self.committed[before] == entry, f"committed entry {entry.offset} changed"
            else:
                assert entry.offset == self.committed_end
                holders = sum(disk.at(entry.offset) == entry for disk in self.disks.values())
                assert holders > len(self.voters) // 2, f"entry {entry.offset} committed by a minority"
                self.committed.append(entry)

    def check(self, node: int) -> None:
        core, disk = self.cores[node], self.disks[node]
        assert list(core.read_log()[-3:]) == disk.entries[-3:]
        assert core.log_start_offset == disk.start_offset
        assert core.log_end_offset == disk.end_offset
        if core.is_leader and core.epoch == max(self.leaders):
            assert core.log_end_offset >= self.committed_end, "the newest leader lacks a committed entry"
        for other in self.disks.values():
            self.check_log_matching(disk, other)

    @staticmethod
    def check_log_matching(left: Disk, right: Disk) -> None:
        """Same offset and epoch: same entry, and the same before it (checked by induction on the last common one)."""
        start = max(left.start_offset, right.start_offset)
        for offset in range(min(left.end_offset, right.end_offset) - 1, start - 1, -1):
            one, other = left.at(offset), right.at(offset)
            assert one is not None
            assert other is not None
            if one.epoch == other.epoch:
                assert one == other
                assert offset == start or left.at(offset - 1) == right.at(offset - 1)
                return
