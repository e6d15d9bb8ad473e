"""Runs seeds, in this process or in several worker processes. Results come in the order of the seeds."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from functools import partial

from broker import mutants
from broker.sim.seed_run import SeedResult, run_seed
from broker.sim.workers import pool_of

SEEDS_AT_ONCE = 2  # given to a worker at once; with more, the first results come late


def results(seeds: Sequence[int], *, mutant: str | None, jobs: int) -> Iterator[SeedResult]:
    """Run seeds with this mutant, or without one if it is None. If the iterator is closed, it does not wait for seeds
    that were not begun."""
    if jobs <= 1:
        gc.freeze()  # loaded modules stay, so the collection after each seed does not have to walk over them
        try:
            with mutants.applied(mutant):
                yield from map(run_seed, seeds)
        finally:
            gc.unfreeze()
        return
    pool = pool_of(jobs, partial(_prepare, mutant))
    try:
        yield from pool.map(run_seed, seeds, chunksize=SEEDS_AT_ONCE)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare(mutant: str | None) -> None:
    gc.freeze()
    if mutant is not None:
        mutants.apply(mutant)
