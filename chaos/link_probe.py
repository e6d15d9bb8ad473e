"""The results of probes of a link, from this host or another one. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbe:
    """The result of one round trip. `outcome`: answered, refused, reset, closed or silent."""

    outcome: str
    elapsed_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProbe:
    """The result of a load. `size_bytes` were sent in the wanted direction before `outcome`: answered (everything was
    sent), refused, reset, closed or silent."""

    outcome: str
    size_bytes: int
    elapsed_us: int

    @property
    def is_answered(self) -> bool:
        return self.outcome == "answered"
