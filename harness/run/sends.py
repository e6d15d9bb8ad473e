"""What became of a cell's sends. If none of them succeeded, this is the problem of the cell. Pure.

A cell in which no record was accepted says nothing about the cluster's speed and shows no promise kept or broken. It
has failed, and the run is no pass. Shown by tests/harness/test_harness_sends.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.wire.errors import error_name
from broker.wire.fates import FATES

_NAMED_MAX: Final = 3  # errors, the most frequent first
_LOCAL: Final = "an error of the client itself"


def nothing_came_of(counters: Mapping[str, Any], *, acks: str) -> str:
    """Empty if a send succeeded, as far as `acks` lets anybody know. `counters` is the load's last progress."""
    sent, acked, failed = (int(counters.get(name, 0)) for name in ("sent", "acked", "failed"))
    if not counters or acked:
        return ""
    if not sent:
        return "the load sent no record at all"
    if acks == "0":  # nobody acknowledges; the client may have written a record that it let go of
        return f"each of the {sent:,} sends failed{_why(counters)}" if failed >= sent else ""
    unknown = sent - failed
    if not unknown:
        return f"each of the {sent:,} sends failed{_why(counters)}"
    if not failed:
        return f"none of the {sent:,} sends was acknowledged: what became of them is unknown{_why(counters)}"
    return f"none of the {sent:,} sends was acknowledged: {failed:,} failed, {unknown:,} are unknown{_why(counters)}"


def _why(counters: Mapping[str, Any]) -> str:
    refusals = counters.get("refusals")
    if not isinstance(refusals, dict) or not refusals:
        return ""
    most = sorted(refusals.items(), key=lambda item: -int(item[1]))[:_NAMED_MAX]
    return f" ({', '.join(f'{int(count):,} by {_named(int(code))}' for code, count in most)})"


def _named(code: int) -> str:
    if code < 0:
        return _LOCAL
    fate = next((fate for fate in FATES.values() if int(fate.code) == code), None)
    return error_name(code) if fate is None else f"{error_name(code)}: {fate.reason}"
