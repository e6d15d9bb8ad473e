"""What the checker knows about a transaction: what its producer sent and asked for, and what is in the logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.sim.partition_truth import Key


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One transaction of one incarnation of a producer."""

    name: str
    number: int  # number within its producer, ascending over incarnations
    bumps_epoch: bool  # transaction version 2
    is_torn: bool = False  # a late marker ended it, so it is not checked any more
    sent: dict[bytes, Key] = field(default_factory=dict)  # identity of each record -> where it was sent
    acked: set[bytes] = field(default_factory=set)
    offset: int | None = None  # offset of the producer's group that is committed with it
    asked: set[bool] = field(default_factory=set)  # ends that the producer asked for; True is commit
    answered: bool | None = None  # the end that the coordinator confirmed
    outcomes: dict[Key, bool] = field(default_factory=dict)  # partition -> whether its marker commits
    in_log: dict[Key, set[bytes]] = field(default_factory=dict)

    @property
    def is_committed(self) -> bool | None:
        """Whether the first marker commits it. None: there is no marker yet."""
        return next(iter(self.outcomes.values()), None)


def end_text(is_commit: bool) -> str:
    return "committed" if is_commit else "aborted"
