"""The outcomes of a cell's sends. If none of them succeeded, this is the problem of the cell. Pure.

A cell in which no record was accepted does not show the cluster's speed, and no promise that was kept or broken. It
has failed, and the run is no pass. Shown by tests/harness/test_harness_send_outcomes.py.
"""

from __future__ import annotations

from typing import Final

from broker.door.protocol import FATES, error_name
from runlog.records.load import Progress

_NAMED_MAX: Final = 3  # errors, the most frequent first
_LOCAL: Final = "an error of the client itself"


def nothing_came_of(progress: Progress | None, *, acks: str) -> str:
    """Empty if a send succeeded, as far as `acks` lets anybody know. `progress`: as the load last told it."""
    if progress is None or progress.acked:
        return ""
    sent, failed = progress.sent, progress.failed
    if not sent:
        return "the load sent no record at all"
    if acks == "0":  # without acknowledgements, a record that the client released may have been written
        return f"each of the {sent:,} sends failed{_why(progress)}" if failed >= sent else ""
    unknown = sent - failed
    if not unknown:
        return f"each of the {sent:,} sends failed{_why(progress)}"
    if not failed:
        return f"none of the {sent:,} sends was acknowledged: what became of them is unknown{_why(progress)}"
    return f"none of the {sent:,} sends was acknowledged: {failed:,} failed, {unknown:,} are unknown{_why(progress)}"


def _why(progress: Progress) -> str:
    if not progress.refusals:
        return ""
    most = sorted(progress.refusals.items(), key=lambda item: -item[1])[:_NAMED_MAX]
    return f" ({', '.join(f'{count:,} by {_named(int(code))}' for code, count in most)})"


def _named(code: int) -> str:
    if code < 0:
        return _LOCAL
    fate = next((fate for fate in FATES.values() if int(fate.code) == code), None)
    return error_name(code) if fate is None else f"{error_name(code)}: {fate.reason}"
