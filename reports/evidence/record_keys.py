"""The keys of a cell's records, if they are known to the record. Pure.

A compaction keeps the last record of each key. Which key a record had that is gone, nobody wrote down. The load's plan
says it, and the final read has found that every record that is left has the key of the plan. Without that the keys are
not known. Shown by tests/reports/test_reports_removals.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reports.read.cell import Cell
from runlog.streams.record_keys import NO_KEYS, fingerprint, key_numbers

_COUNT_MAX = 1_000_000  # as in workloads.model: what is more is no plan of ours


def record_keys(cell: Cell) -> NDArray[np.int64] | None:
    """The key's number of record `seq`, by `seq % TURNS`. None if it is not known."""
    record, load = cell.record, cell.record.workload
    found = record.outcome.final_read.keys_crc
    if found is None or record.seed is None or load.keys in (None, NO_KEYS):
        return None
    if load.key_count is None or not 0 < load.key_count <= _COUNT_MAX:
        return None
    try:
        numbers = key_numbers(
            load.keys or NO_KEYS,
            count=load.key_count,
            zipf_exponent=1.0 if load.key_zipf_exponent is None else load.key_zipf_exponent,
            hot_share=0.5 if load.key_hot_share is None else load.key_hot_share,
            seed=record.draw_seed,
        )
    except ValueError:  # shares and exponents that no plan has
        return None
    return numbers if numbers is not None and fingerprint(numbers) == found else None


def key_rows(cell_id: str, keys: NDArray[np.int64] | None) -> Iterator[tuple[str, int, int]]:
    """Rows of the small table `record_keys`: cell id, turn, key."""
    for turn, key in enumerate(() if keys is None else keys.tolist()):
        yield cell_id, turn, key
