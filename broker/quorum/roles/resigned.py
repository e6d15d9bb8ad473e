"""A voter whose host stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.quorum.roles.role import Role
from broker.quorum.transitions import RoleName


@dataclass(slots=True)
class Resigned(Role):
    """Its host stops. It starts no election and fetches no more, but it still votes, which helps the others."""

    NAME: ClassVar = RoleName.RESIGNED
