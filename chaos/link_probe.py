"""What a probe of a link has seen, here or on another host. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbe:
    """`outcome`: answered, refused, reset, closed or silent."""

    outcome: str
    elapsed_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProbe:
    """`size_bytes` were carried in the asked direction before `outcome`: answered (all of it), reset, closed
    or silent."""

    outcome: str
    size_bytes: int
    elapsed_us: int

    @property
    def is_answered(self) -> bool:
        return self.outcome == "answered"
