"""A transaction as its checker sees it: what its producer sent and asked for, and what lies in the logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.sim.partition_truth import Key


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One transaction of one incarnation of a producer."""

    name: str
    number: int  # of its producer, ascending over incarnations
    bumps_epoch: bool  # transaction version 2
    is_torn: bool = False  # ended by a late marker: it is not checked any more
    sent: dict[bytes, Key] = field(default_factory=dict)  # identity of each record -> where it was sent
    acked: set[bytes] = field(default_factory=set)
    offset: int | None = None  # committed for the group of its producer, as part of it
    asked: set[bool] = field(default_factory=set)  # ends that were asked for: True is commit
    answered: bool | None = None  # the end that its producer was told
    outcomes: dict[Key, bool] = field(default_factory=dict)  # by the marker in each partition
    in_log: dict[Key, set[bytes]] = field(default_factory=dict)

    @property
    def is_committed(self) -> bool | None:
        """None: there is no marker yet."""
        return next(iter(self.outcomes.values()), None)


def end_text(is_commit: bool) -> str:
    return "committed" if is_commit else "aborted"
