"""What a marker in a log says of a transaction: the key of a control record (KIP-98). Pure."""

from __future__ import annotations

import struct
from typing import Final

OPEN, ABORTED, COMMITTED = -1, 0, 1
_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type: 0 abort, 1 commit


def outcome_of(key: bytes | None) -> int:
    """OPEN for a control record that is no end of a transaction."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return OPEN
    _version, kind = _CONTROL_KEY.unpack_from(key)
    return int(kind) if kind in (ABORTED, COMMITTED) else OPEN
