"""Which trials a client is put through, and what came of each. Shown by tests/harness/test_harness_client_check.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.conformance import committing, consuming, producing
from harness.conformance.bench import Bench, TrialOver
from harness.conformance.world import World
from workloads.clients.process.build import Built
from workloads.clients.process.conversation import Mistake, Unasked
from workloads.clients.process.messages import Ability, Ready
from workloads.clients.process.peer import Peer, PeerLost


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`needs`: all of these words of `can`."""

    name: str
    needs: tuple[Ability, ...]
    shows: str
    act: Callable[[Bench], None] | None = None
    act_with_two: Callable[[Bench, Bench], None] | None = None


TRIALS: Final = (
    Trial(name="manners", needs=(), shows="refuses what it does not know, ends with its input", act=producing.manners),
    Trial(
        name="outcomes", needs=(Ability.PRODUCE,), shows="one outcome a record, as the log has it",
        act=producing.outcomes,
    ),
    Trial(
        name="partitions", needs=(Ability.PRODUCE, Ability.PARTITION), shows="records go to the partition they name",
        act=producing.partitions,
    ),
    Trial(
        name="callers", needs=(Ability.PRODUCE, Ability.CALLERS), shows="several give records at once",
        act=producing.callers,
    ),
    Trial(
        name="headers", needs=(Ability.PRODUCE, Ability.HEADERS), shows="headers arrive, those of one name in order",
        act=producing.headers,
    ),
    Trial(
        name="refusals", needs=(Ability.PRODUCE,), shows="what a broker refuses is not acknowledged",
        act=producing.refusals,
    ),
    Trial(name="freeze", needs=(Ability.PRODUCE,), shows="what is late is unknown, not failed", act=producing.freeze),
    Trial(name="hasty close", needs=(Ability.PRODUCE,), shows="a close loses no outcome", act=producing.hasty_close),
    Trial(
        name="frames", needs=(Ability.PRODUCE, Ability.FRAMES), shows="one outcome a record, as the log has it",
        act=producing.frames,
    ),
    Trial(
        name="late frames", needs=(Ability.PRODUCE, Ability.FRAMES), shows="what is late is unknown in frames too",
        act=producing.frames_late,
    ),
    Trial(
        name="transactions", needs=(Ability.PRODUCE, Ability.TRANSACTIONS), shows="commits and aborts are in the log",
        act=producing.transactions,
    ),
    Trial(name="assign", needs=(Ability.ASSIGN,), shows="reads from the offsets asked for", act=consuming.assigned),
    Trial(
        name="small polls", needs=(Ability.ASSIGN,), shows="keeps to max_records, and gives what is there at once",
        act=consuming.small_polls,
    ),
    Trial(name="odd bytes", needs=(Ability.ASSIGN,), shows="any bytes, and 900 kB", act=consuming.odd_bytes),
    Trial(name="seek", needs=(Ability.SEEK,), shows="goes on where it was sent", act=consuming.seeks),
    Trial(
        name="pause", needs=(Ability.PAUSE,), shows="gives nothing that is paused, loses nothing", act=consuming.pauses
    ),
    Trial(
        name="deleted records", needs=(Ability.SUBSCRIBE,), shows="goes on where the log does", act=consuming.deletes,
    ),
    Trial(
        name="one by one", needs=(Ability.ONE_BY_ONE,), shows="gives each record alone, also after seeks and pauses",
        act=consuming.one_by_one,
    ),
    Trial(name="overlap", needs=(Ability.OVERLAP,), shows="answers while a poll waits", act=consuming.overlaps),
    Trial(
        name="member", needs=(Ability.SUBSCRIBE,), shows="reads all, commits, begins there again",
        act=committing.member,
    ),
    Trial(
        name="rebalance", needs=(Ability.SUBSCRIBE,), shows="shares partitions with a second member",
        act_with_two=committing.rebalance,
    ),
    Trial(
        name="copies", needs=(Ability.SUBSCRIBE, Ability.SEND_OFFSETS), shows="offsets and records in one transaction",
        act=committing.copies,
    ),
    Trial(name="share", needs=(Ability.SHARE,), shows="accepts, releases, rejects", act=committing.share),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    trial: Trial
    left_out: str = ""  # why, if it is
    mistakes: Sequence[Mistake] = ()
    seconds: float = 0.0

    @property
    def word(self) -> str:
        if self.left_out:
            return "left out"
        return "ok" if not self.mistakes else f"{len(self.mistakes)} wrong"


def first_line(client: Built) -> tuple[Ready | None, Sequence[Mistake]]:
    """Start the client and read `ready`. None if it does not come; the mistakes say why."""
    try:
        peer = Peer(client.command, environment=client.environment)
    except PeerLost as error:
        return None, (Mistake(rule="start", message=str(error)),)
    try:
        ready = peer.wait_ready()
    except PeerLost:
        ready = None
    peer.end()
    return ready, peer.mistakes


def trial_results(client: Built, world: World, ready: Ready, *, only: Collection[str] = ()) -> Iterator[TrialResult]:
    """One result after the other, in the order of the table."""
    for trial in TRIALS:
        if only and trial.name not in only:
            continue
        if missing := [word for word in trial.needs if not ready.is_able(word)]:
            reasons = [f"cannot {word}" + (f": {ready.lacks[word]}" if word in ready.lacks else "") for word in missing]
            yield TrialResult(trial=trial, left_out="; ".join(reasons))
            continue
        began_s = time.monotonic()
        mistakes = carry_out(trial, client, world)
        yield TrialResult(trial=trial, mistakes=mistakes, seconds=time.monotonic() - began_s)


def carry_out(trial: Trial, client: Built, world: World) -> list[Mistake]:
    """All that is wrong with the client in this trial."""
    benches = [Bench(client, world) for _ in range(1 if trial.act is not None else 2)]
    problem = ""
    try:
        try:
            if trial.act is not None:
                with benches[0]:
                    trial.act(benches[0])
            else:
                assert trial.act_with_two is not None
                with benches[0], benches[1]:
                    trial.act_with_two(*benches)
        except TrialOver:
            pass  # noted
        except (PeerLost, Unasked) as error:
            problem = str(error)
    finally:
        for bench in benches:
            bench.kill()
    found = [mistake for bench in benches for mistake in bench.mistakes]
    return found if found or not problem else [Mistake(rule="trial", message=problem)]
