"""`python -m broker.sim.fuzz_peers --requests 1000000`: valid requests at extremes against real broker processes.

It checks that:

- the process does not end,
- no request takes more than STALL_MS of its processor time, because meanwhile the broker serves nobody else (a busy
  host changes this figure little),
- its memory stays within MEMORY_MAX_BYTES,
- nothing in its log says that a handler raised,
- other connections are answered,
- it stops cleanly, and starts again with what was written.

A block starts a new broker and sends it requests. Every fourth block has a cluster of three, so that there are
forwarded requests too. A block depends only on its number. --block N runs it again. --state FILE continues where the
last call stopped. --jobs N runs N blocks at a time. If a broker dies, requests are left out as long as new brokers die
too, until few are left. Shown by tests/broker_sim/test_sim_fuzz_peers.py.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from broker.sim.fuzz_brokers import MEMORY_MAX_BYTES, Brokers, PeerFuzzError, Sent
from broker.sim.fuzz_extremes import extreme_frame
from broker.sim.minimise import fewest
from broker.sim.workers import end_with_parent

REQUESTS_PER_BLOCK = 10_000  # then new brokers are used, because what requests create adds up
CLUSTER_EVERY = 4  # every such block has a cluster of three
STALL_MS = 250  # The broker's processor time counts.
PROBE_EVERY = 200  # requests between two checks
SHOWN_BYTES = 300  # So much of a frame is shown.


@dataclass(slots=True)
class Found:
    requests: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0
    stall_ms_max: float = 0.0
    stall_kind: str = ""
    # Measured by the clock, so it says something about the broker only if the host has nothing else to do.
    answer_ms_max: float = 0.0
    memory_growth_max: int = 0
    defects: Counter[str] = field(default_factory=Counter)
    kinds: set[str] = field(default_factory=set)

    def add(self, other: Found) -> None:
        self.requests += other.requests
        self.answered, self.closed, self.silent = (
            self.answered + other.answered,
            self.closed + other.closed,
            self.silent + other.silent,
        )
        if other.stall_ms_max > self.stall_ms_max:
            self.stall_ms_max, self.stall_kind = other.stall_ms_max, other.stall_kind
        self.answer_ms_max = max(self.answer_ms_max, other.answer_ms_max)
        self.memory_growth_max = max(self.memory_growth_max, other.memory_growth_max)
        self.defects += other.defects
        self.kinds |= other.kinds


def run_block(block: int, count: int) -> Found:
    """Raises PeerFuzzError with the requests that reproduce the defect."""
    rng, found = random.Random(f"peers {block}"), Found()
    is_cluster = block % CLUSTER_EVERY == 0
    all_sent: list[Sent] = []
    with tempfile.TemporaryDirectory(prefix="fuzz-peers-") as directory:
        brokers = Brokers(Path(directory), 3 if is_cluster else 1)
        try:
            brokers.start()
            world = brokers.set_up()
            for number in range(count):
                kind, listener, frame, is_big = extreme_frame(world, rng)
                sent = Sent(kind, rng.choice(brokers.ids), listener, frame, is_big)
                all_sent.append(sent)
                _send_and_look(brokers, sent, found, number)
            brokers.check_alive()
            brokers.stop()
            brokers.start()  # checks that it can read what was written
            brokers.stop()
            for line in brokers.defects():
                found.defects[_short(line)] += 1
        except PeerFuzzError as error:
            brokers.kill()
            shown = fewest(all_sent, lambda some: _ends(some, len(brokers.ids)))
            text = f"block {block}, request {found.requests}: {error}\n" + "\n".join(map(_shown, shown))
            raise PeerFuzzError(text) from error
        finally:
            brokers.kill()
    return found


def _send_and_look(brokers: Brokers, sent: Sent, found: Found, number: int) -> None:
    before_ns, began_s = brokers.cpu_ns(sent.broker), time.monotonic()
    after_ns: list[int] = []

    def others_are_served() -> None:  # while the request is handled, if its work is done in turns
        brokers.probe(sent.broker)
        after_ns.append(brokers.cpu_ns(sent.broker))

    outcome = brokers.send(sent, probes=others_are_served if sent.is_big else None)
    if outcome == "answered":
        found.answer_ms_max = max(found.answer_ms_max, (time.monotonic() - began_s) * 1_000)
    busy_ms = ((after_ns or [brokers.cpu_ns(sent.broker)])[0] - before_ns) / 1e6
    look_at(found, sent, outcome, busy_ms=busy_ms)
    if outcome == "closed" or number % PROBE_EVERY == 0:
        brokers.check_alive()
    if number % PROBE_EVERY == 0 or sent.is_big:
        growth = brokers.memory_growth()
        if growth > max(MEMORY_MAX_BYTES, found.memory_growth_max):
            found.defects[f"memory: {growth >> 20} MiB at {sent.kind}"] += 1
        found.memory_growth_max = max(found.memory_growth_max, growth)
    if number % PROBE_EVERY == 0:
        for each in brokers.ids:
            brokers.probe(each)
        for line in brokers.defects():
            found.defects[_short(line)] += 1


def look_at(found: Found, sent: Sent, outcome: str, *, busy_ms: float) -> None:
    found.requests += 1
    found.kinds.add(sent.kind)
    setattr(found, outcome, getattr(found, outcome) + 1)
    if outcome != "silent" or sent.is_big:
        if busy_ms > found.stall_ms_max:
            found.stall_ms_max, found.stall_kind = busy_ms, sent.kind
        if busy_ms > STALL_MS:
            found.defects[f"stall: {len(sent.frame)} bytes, {busy_ms:.0f} ms:{_shown(sent)}"] += 1


def _shown(sent: Sent) -> str:
    return f"  {sent.kind} to {sent.listener.value}: {sent.frame[:SHOWN_BYTES].hex()}"


def _short(line: str) -> str:
    """The text of a defect without the parts that differ from one time to the next."""
    names = re.findall(r"(api_key=\S+|topic=\S+)", line)
    causes = re.findall(r"(\w+(?:Error|Exception): .{0,160})", line)
    places = re.findall(r"broker/(\S+?)\\?\", line (\d+)", line)
    where = f" at {places[-1][0]}:{places[-1][1]}" if places else ""
    return f"{names[0] if names else ''} {causes[-1] if causes else line[-200:]}{where}"


def _ends(requests: Sequence[Sent], count: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="fuzz-peers-") as directory:
        brokers = Brokers(Path(directory), count)
        try:
            brokers.start()
            brokers.set_up()
            for each in requests:
                brokers.send(each)
                if each.is_big:
                    brokers.probe(each.broker)
            brokers.stop()
            brokers.start()
        except PeerFuzzError:
            return True
        finally:
            brokers.kill()
    return False


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m broker.sim.fuzz_peers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--first-block", type=int, default=1)
    parser.add_argument("--block", type=int, help="only this one")
    parser.add_argument("--per-block", type=int, default=REQUESTS_PER_BLOCK)
    parser.add_argument("--state", type=Path, help="remember here which blocks are done, and go on from there")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no block after this time")
    parser.add_argument("--jobs", type=int, default=1, help="blocks at a time, each with brokers of its own")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    blocks = max(1, -(-options.requests // options.per_block))
    numbers = [options.block] if options.block else list(range(options.first_block, options.first_block + blocks))
    done: dict[str, dict[str, Any]] = {}
    if options.state is not None and options.state.exists():
        done = json.loads(options.state.read_text())
    left = [number for number in numbers if str(number) not in done]
    total, failed = Found(), 0
    with closing(_outcomes(left, options.per_block, options.jobs, time.monotonic() + options.budget_s)) as outcomes:
        for number, outcome in outcomes:
            if isinstance(outcome, str):
                print(outcome, flush=True)
                failed += 1
                continue
            total.add(outcome)
            for what, times in outcome.defects.most_common():
                print(f"block {number}: {times} x {what}", flush=True)
            done[str(number)] = _summary_of_block(outcome)
            if options.state is not None:
                temporary = options.state.with_suffix(".tmp")
                temporary.write_text(json.dumps(done))
                os.replace(temporary, options.state)
            print(_summary(total, failed), flush=True)
    return 1 if failed or total.defects else 0


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # the `finally` of a block then ends its brokers


def _begin_worker() -> None:
    signal.signal(signal.SIGTERM, _stop)
    end_with_parent()


def _outcomes(
    numbers: list[int], per_block: int, jobs: int, until_s: float
) -> Generator[tuple[int, Found | str], None, None]:
    """(block, its results or why it ended), in the order in which blocks end. Blocks that would begin too late are left
    out."""
    run = partial(_outcome, per_block=per_block, until_s=until_s)
    if jobs == 1:
        yield from (outcome for number in numbers if (outcome := run(number)) is not None)
        return
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(jobs, initializer=_begin_worker) as pool:
        yield from (outcome for outcome in pool.imap_unordered(run, numbers) if outcome is not None)
        pool.close()  # workers end by themselves, because a signal while they wait for work can get lost
        pool.join()


def _outcome(number: int, *, per_block: int, until_s: float) -> tuple[int, Found | str] | None:
    if time.monotonic() > until_s:
        return None
    try:
        return number, run_block(number, per_block)
    except PeerFuzzError as error:
        return number, str(error)


def _summary_of_block(found: Found) -> dict[str, object]:
    return {
        "requests": found.requests,
        "answered": found.answered,
        "closed": found.closed,
        "silent": found.silent,
        "stall_ms": round(found.stall_ms_max),
        "stall_kind": found.stall_kind,
        "answer_ms": round(found.answer_ms_max),
        "memory_mib": found.memory_growth_max >> 20,
        "defects": sum(found.defects.values()),
    }


def _summary(found: Found, failed: int) -> str:
    return (
        f"{found.requests} requests of {len(found.kinds)} APIs and versions: {found.answered} answered, {found.closed} "
        f"closed, {found.silent} without an answer; {failed} blocks did not end, {sum(found.defects.values())} "
        f"defects; {found.stall_ms_max:.0f} ms of the processor at most ({found.stall_kind}), the slowest answer after "
        f"{found.answer_ms_max:.0f} ms, memory grew by {found.memory_growth_max >> 20} MiB at most"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
