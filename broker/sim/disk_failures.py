"""Chooses by chance which calls on a disk fail, and how. They fail once, or as long as the fault lasts."""

from __future__ import annotations

import errno
import random

from broker.node.cluster.metadata_store import METADATA_DIRECTORY
from broker.sim.disk import Failure
from broker.sim.plan import TOPIC

# (call, error). Files are opened for a new segment, for a new topic and at a start.
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
    """A failure of one kind of call on the logs of partitions."""
    where = rng.choice((f"/{TOPIC}-", f"/{TOPIC}-0/", "/__consumer_offsets-", "/__transaction_state-"))
    call, error = rng.choice(_PARTITION_CALLS)
    is_once, skip = rng.random() < 0.7, rng.randrange(5)
    return Failure(call=call, where=where, error=error, skip=skip, is_once=is_once)


def failure_of_quorum(rng: random.Random) -> Failure:
    """A failure of one kind of call on the metadata log, the quorum-state file or their directory."""
    call, error = rng.choice(_QUORUM_CALLS)
    is_once, skip = rng.random() < 0.7, rng.randrange(4)
    return Failure(call=call, where=METADATA_DIRECTORY, error=error, skip=skip, is_once=is_once)
