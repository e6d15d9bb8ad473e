"""Which calls on a disk fail, and how: chosen by chance, once or for as long as the fault lasts."""

from __future__ import annotations

import errno
import random

from broker.node.cluster.metadata_store import METADATA_DIRECTORY
from broker.sim.disk import Failure
from broker.sim.plan import TOPIC

# What is called, and how it fails. Opening comes with a new segment, a new topic and a new life.
_PARTITION_CALLS = (
    ("write", errno.ENOSPC), ("write", errno.ENOSPC), ("write", errno.EIO), ("sync", errno.EIO), ("read", errno.EIO),
    ("read", errno.EIO), ("truncate", errno.EIO), ("open", errno.EMFILE), ("replace", errno.ENOSPC),
)  # fmt: skip
_QUORUM_CALLS = (
    ("write", errno.ENOSPC), ("write", errno.EIO), ("sync", errno.EIO), ("replace", errno.ENOSPC),
    ("replace", errno.ENOSPC), ("syncdir", errno.EIO), ("truncate", errno.EIO), ("open", errno.EMFILE),
    ("read", errno.EIO),
)  # fmt: skip


def failure_of_partition(rng: random.Random) -> Failure:
    """One call on a partition's log fails."""
    where = rng.choice((f"/{TOPIC}-", f"/{TOPIC}-0/", "/__consumer_offsets-", "/__transaction_state-"))
    call, error = rng.choice(_PARTITION_CALLS)
    is_once, skip = rng.random() < 0.7, rng.randrange(5)
    return Failure(call=call, where=where, error=error, skip=skip, is_once=is_once)


def failure_of_quorum(rng: random.Random) -> Failure:
    """One call on the log of the metadata, the file of the vote or their directory fails."""
    call, error = rng.choice(_QUORUM_CALLS)
    is_once, skip = rng.random() < 0.7, rng.randrange(4)
    return Failure(call=call, where=METADATA_DIRECTORY, error=error, skip=skip, is_once=is_once)
