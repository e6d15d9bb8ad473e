"""A voter whose host is stopping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.quorum.roles.role import Role
from broker.quorum.transitions import RoleName


@dataclass(slots=True)
class Resigned(Role):
    """Its host is stopping. It starts no election and does not fetch any more. It still votes, because this helps the
    others."""

    NAME: ClassVar = RoleName.RESIGNED
