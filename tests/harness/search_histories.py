"""What a quiet run of a producer leaves, for tests of a search."""

from __future__ import annotations

from harness.explore.trial.history import Fate, History, Logged, Outcome, Sent
from harness.explore.trial.requests_sent import Use

USES = {"Metadata": Use(requests=2, version=12), "Produce": Use(requests=8, version=12)}
QUIET = History(
    happened=(
        Sent(at_us=1_000_000, seq=0, value=b"0"),
        Outcome(at_us=1_250_000, seq=0, fate=Fate.ACKNOWLEDGED, partition=0, offset=0),
    ),
    log=(Logged(partition=0, offset=0, value=b"0"),),
)
