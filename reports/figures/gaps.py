"""How the longest time without an acknowledgement is written, and how much it can be wrong by the clocks. Pure.

Shown by tests/reports/test_reports_clock_limits.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from runlog.records.hosts import LoadHostRecord, clock_error_of_gap_us, known_error_us


def gap_error_us(hosts: Sequence[LoadHostRecord]) -> float | None:
    """None: all acknowledgements have one clock. If no bound of the clocks is known, the gap is not shown either."""
    return known_error_us(clock_error_of_gap_us(hosts))


def gap_text(gap_us: float, hosts: Sequence[LoadHostRecord]) -> str:
    """Seconds. If the acknowledgements have the clocks of several load hosts, then with the bound of these clocks,
    rounded up to a millisecond."""
    error_us = gap_error_us(hosts)
    return f"{gap_us / 1e6:,.2f}" + ("" if error_us is None else f" ± {math.ceil(error_us / 1000) / 1000:.3f}")
