"""Whether the rate of a cell was steady, and whether it began with a backlog. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

CONSTANT: Final = "constant"
CLOSED: Final = "closed"
# Kinds of schedule whose rate is not the same all along, and should not be. A poisson load's is, but for chance.
CHANGING_KINDS: Final = frozenset({"ramp", "steps", "spike", "sine", "replay"})
# Of all that was due. A third in which less was due tells by its few records only of their latency.
_DUE_SHARE_MIN: Final = 0.05


def backlog_share(acknowledged: int, due: int) -> float | None:
    """What a window had to work off from before it began, as a share of what was due in it; None if nothing was due.

    Both are counts of the window: acknowledgements that came in it, and records that were due in it. A load that falls
    behind in its warm-up has acknowledgements left over when the window begins. Then the window shows a higher rate
    than was asked for, and latencies that hold a wait for the warm-up's records.
    """
    return max(acknowledged - due, 0) / due if due > 0 else None


def backlog_reason(share: float | None, share_max: float) -> str:
    """Why such a window is not steady; empty if it is."""
    if share is None or share <= share_max:
        return ""
    return (
        f"unsteady: the window began with a backlog of the warm-up; {share:.1%} more records were acknowledged in it "
        f"than were due (limit {share_max:.0%})"
    )


def steady_ratio(per_slot: FloatArray, due_per_slot: FloatArray | None = None) -> float | None:
    """Rate of the slowest third of the time over that of the fastest; 1.0 is calm. None below nine slots.

    `due_per_slot`, of a schedule whose rate changes: then each third counts over what was due in it."""
    if len(per_slot) < 9:
        return None
    thirds = [float(third.sum()) for third in np.array_split(per_slot, 3)]
    lengths = np.array_split(np.ones(len(per_slot)) if due_per_slot is None else due_per_slot, 3)
    due = [float(third.sum()) for third in lengths]
    rates = [done / own for done, own in zip(thirds, due, strict=True) if own > _DUE_SHARE_MIN * sum(due)]
    return round(min(rates) / max(rates), 3) if len(rates) > 1 and max(rates) > 0 else None
