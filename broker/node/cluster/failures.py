"""The error that ends this process: a failure of the quorum or the controller, after which the memory may be ahead of
the disk.

An error is handled at one of two places:

- An error while `MetadataHost` performs the actions of the quorum or the controller ends the process. Otherwise a vote
  that is in memory and not on disk could be given twice, and an acknowledged entry could be lost.
- An error of a partition's storage (`Partitions.storage_failed`) takes that partition offline.

Shown by tests/broker_node/test_node_quorum_storage.py.
"""

from __future__ import annotations


class QuorumFailedError(Exception):
    """`__cause__` is the original error. It is an OSError if the disk failed; any other error is a defect."""
