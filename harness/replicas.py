"""Finds settings of a topic and its producers with which no record can be acknowledged. Pure.

Shown by tests/harness/test_harness_careless.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.suite import Suite

_OF_ALL: Final = ("all", "-1")


def check_replicas(suite: Suite, cells: Sequence[PlannedCell]) -> None:
    """UsageError where more replicas must be in sync than a partition has. A scenario may want just that."""
    for cell in cells:
        wanted = str(cell.topic_config.get("min.insync.replicas", "1"))
        replicas = cell.record.topic.replication_factor
        if cell.kind == "chaos" or cell.record.knobs["acks"] not in _OF_ALL or replicas is None:
            continue
        if wanted.isdigit() and int(wanted) > replicas:
            place = f"{suite.source.place_of(('topic',))}: " if suite.source is not None else ""
            raise UsageError(
                f"{place}topic: min.insync.replicas is {wanted}, expected at most replication_factor, which is "
                f"{replicas}: with acks=all no record would ever be acknowledged (cell {cell.cell_id})"
            )
