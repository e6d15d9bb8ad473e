"""How the longest time without an acknowledgement is written, wherever it is shown. Pure.

Shown by tests/reports/test_reports_clock_limits.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from runlog.records.hosts import LoadHostRecord, clock_error_of_gap_us, known_error_us


def gap_text(gap_us: float, hosts: Sequence[LoadHostRecord]) -> str:
    """Seconds. If the acknowledgements have the clocks of several load hosts, then with the bound of these clocks,
    rounded up to a millisecond."""
    error_us = known_error_us(clock_error_of_gap_us(hosts))
    return f"{gap_us / 1e6:,.2f}" + ("" if error_us is None else f" ± {math.ceil(error_us / 1000) / 1000:.3f}")
