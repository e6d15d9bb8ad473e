"""A voter whose process has not started it yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.quorum.roles.role import Role
from broker.quorum.transitions import RoleName


@dataclass(slots=True)
class Initial(Role):
    """It has not been started yet."""

    NAME: ClassVar = RoleName.INITIAL
