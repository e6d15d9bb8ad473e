"""A SASL mechanism that no cell of a suite would ever speak. Pure.

Shown by tests/harness/test_harness_careless.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.suite import Suite
from harness.sweep_plan import MECHANISM


def check_mechanism(suite: Suite, cells: Sequence[PlannedCell]) -> None:
    """UsageError where a mechanism is set or varied, and all cells speak plain text or TLS alone. A scenario may bring
    SASL, and its cell then speaks the suite's mechanism."""
    if not cells or any(cell.security.is_sasl for cell in cells):
        return
    is_varied = suite.sweep is not None and MECHANISM in suite.sweep.vary
    if not is_varied and "mechanism" not in suite.cluster.sasl.model_fields_set:
        return
    location = ("sweep", "vary", MECHANISM) if is_varied else ("cluster", "sasl", "mechanism")
    place = "" if suite.source is None else f"{suite.source.place_of(location)}: "
    raise UsageError(
        f"{place}{'sweep.vary.' if is_varied else ''}{MECHANISM}: has no effect, because no cell speaks SASL: set "
        "cluster.security to sasl_plaintext or sasl_ssl"
    )
