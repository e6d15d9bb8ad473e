"""Was the rate of a cell the same all along? Pure."""

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
