"""Finds a SASL mechanism that no cell of a suite would use. Pure.

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
    SASL, and its cell then speaks the suite's mechanism. Who also says cluster.security knows what it is: so
    `--set cluster.security=plaintext` measures a secured suite without security. A suite that nobody wrote (of a run's
    record, with every default in it) is not asked."""
    if suite.source is None or not cells or any(cell.security.is_sasl for cell in cells):
        return
    is_varied = suite.sweep is not None and MECHANISM in suite.sweep.vary
    is_set = "mechanism" in suite.cluster.sasl.model_fields_set and "security" not in suite.cluster.model_fields_set
    if not is_varied and not is_set:
        return
    location = ("sweep", "vary", MECHANISM) if is_varied else ("cluster", "sasl", "mechanism")
    name = f"sweep.vary.{MECHANISM}" if is_varied else MECHANISM
    raise UsageError(
        f"{suite.source.place_of(location)}: {name}: has no effect, because no cell speaks SASL: set cluster.security "
        "to sasl_plaintext or sasl_ssl"
    )
