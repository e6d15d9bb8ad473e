"""`python -m broker.sim.fuzz --frames 1000000 --files 100000 --stored 100`: bad input, in blocks that can be run again
one by one. Stored are odd records, which every API that reads logs meets then.

At the first defect it ends with exit code 1 and the seed of the block.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from broker.sim.fuzz_files import fuzz_files
from broker.sim.fuzz_frames import FRAMES_PER_BROKER, FuzzError, fuzz_frames
from broker.sim.fuzz_stored import fuzz_stored

FILES_PER_BLOCK = 2_000


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m broker.sim.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--stored", type=int, default=20, help="blocks of odd records, each of some seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strict", action="store_true", help="a handler that raises is a defect too")
    options = parser.parse_args(arguments)
    try:
        _frames(options.seed, options.frames, strict=options.strict)
        _files(options.seed, options.files)
        _stored(options.seed, options.stored)
    except FuzzError as error:
        print(error)
        return 1
    return 0


def _frames(seed: int, count: int, *, strict: bool) -> None:
    answered = closed = silent = growth = raised = 0
    for first in range(0, count, FRAMES_PER_BROKER):
        found = fuzz_frames(seed + first // FRAMES_PER_BROKER, min(FRAMES_PER_BROKER, count - first), strict=strict)
        raised += found.handler_failures
        answered, closed, silent = answered + found.answered, closed + found.closed, silent + found.silent
        growth = max(growth, found.memory_growth_bytes)
        print(
            f"{first + found.frames} frames: {answered} answered, {closed} closed the connection, {silent} without an "
            f"answer; handlers raised {raised} times; memory grew by {growth >> 20} MiB at most",
            flush=True,
        )


def _files(seed: int, count: int) -> None:
    opened = refused = 0
    for first in range(0, count, FILES_PER_BLOCK):
        found = fuzz_files(seed + first, min(FILES_PER_BLOCK, count - first))
        opened, refused = opened + found.opened, refused + found.refused
        print(f"{first + found.files} damaged directories: {opened} opened, {refused} refused", flush=True)


def _stored(seed: int, blocks: int) -> None:
    for block in range(seed, seed + blocks):
        found = fuzz_stored(block, 1)
        print(
            f"block {block}: {found.batches} odd batches, {found.refused} refused, {found.requests} requests",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
