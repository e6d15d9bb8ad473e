"""What a run records of load hosts: how far their clocks were off, who ran what where, and how it went.

A *load host* is a machine on which `harness worker` sends and reads for a run that is driven from another machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRecord:
    """How far the clock of a load host was from the harness's while a cell ran.

    Times of the cell were converted with `offset_us`. The true offset was at every moment of the cell within
    `error_us` of it.
    """

    offset_us: float  # clock of the load host minus that of the harness
    error_us: float
    samples: int
    round_trip_us_min: float
    rate_ppm: float = 0.0  # how fast the offset grew, on average
    rate_error_ppm: float = 0.0
    problem: str = ""  # why there is no bound: the clock stepped, or nobody answered


# The reason of a share whose harness ended before it heard what became of it. `harness gather` brings its run log.
NOT_HEARD: Final = "the harness ended before it was known what became of this share"


class HostState(StrEnum):
    DONE = "done"  # did its share of the cell to the end
    DEAD = "dead"  # ended, or was not heard of any more
    CUT = "cut"  # the link was lost for a while; the share was done to the end
    BEHIND = "behind"  # did not keep to its schedule
    FAILED = "failed"  # could not do its share, and said why


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadHostRecord:
    """One load host's part in a cell."""

    name: str
    state: HostState
    reason: str = ""  # Any state but `done` has it.
    version: str = ""  # The harness there has this version.
    cores: int | None = None
    processes: int | None = None  # load processes there
    producers: tuple[int, ...] = ()  # numbers of those that ran there
    consumers: tuple[int, ...] = ()
    clock: ClockRecord | None = None
    schedule_lag_us_p99: float | None = None
    late_sends: int | None = None
    files: int | None = None  # So many files of its run log were gathered and verified.
    files_stored: int | None = None  # how many of them came by way of the store
    bytes: int | None = None
    is_gathered: bool = False  # all of them


def clock_error_between_us(hosts: Sequence[LoadHostRecord]) -> float:
    """How much a latency can be wrong that begins on one load host and ends on another: what both clocks may be off.
    0 if no record can be read on another host than the one that sent it; infinite if no bound is known."""
    return max(
        (
            _error_us(sender) + _error_us(reader)
            for sender in hosts
            for reader in hosts
            if sender.name != reader.name and sender.producers and reader.consumers
        ),
        default=0.0,
    )


def clock_error_of_sends_us(hosts: Sequence[LoadHostRecord]) -> float:
    """How much the time of a send or of its acknowledgement can be wrong beside one of the harness, such as that of a
    fault. 0 if all producers ran with the harness; infinite if no bound is known."""
    return max((_error_us(host) for host in hosts if host.producers), default=0.0)


def clock_error_of_gap_us(hosts: Sequence[LoadHostRecord]) -> float:
    """How much the time between two acknowledgements can be wrong. They may be of two load hosts, or the first or the
    last is the end of the measured window, which is the harness's."""
    return sum(sorted((_error_us(host) for host in hosts if host.producers), reverse=True)[:2])


def known_error_us(error_us: float) -> float | None:
    """An error of clocks as a document and a table have it. None: there is one clock only, or no bound is known. In the
    second case no figure is shown either."""
    return error_us if error_us and math.isfinite(error_us) else None


def _error_us(host: LoadHostRecord) -> float:
    """Infinite: nobody knows a bound of its clock."""
    return math.inf if host.clock is None or host.clock.problem else host.clock.error_us
