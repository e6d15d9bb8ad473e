"""What ends this process: an error under the quorum or the controller, where memory may be ahead of the disk.

An error is handled at one of two places:

- An error while `MetadataHost` performs the actions of the quorum or the controller ends the process. Otherwise a vote
  that is in memory and not on disk could be given twice, and an entry that a follower has acknowledged could be lost.
- An error of a partition's storage (`Partitions.storage_failed`) takes that partition offline.

Shown by tests/broker_node/test_node_quorum_storage.py.
"""

from __future__ import annotations


class QuorumFailedError(Exception):
    """`__cause__` is what went wrong: an OSError for the disk, anything else is a defect."""
