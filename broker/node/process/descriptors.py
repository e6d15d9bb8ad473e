"""File descriptors. The limit is raised at the start as far as the system allows, and shared between files and
connections.

A broker that cannot open a file cannot write its log. So files have priority, and connections get the rest.
Shown by tests/broker_node/test_node_limits.py.
"""

from __future__ import annotations

import resource

# The descriptors reserved for files (segments, indexes, listeners, journal, libraries): half of the limit, but between
# these two values.
FILE_DESCRIPTORS_MIN = 256
FILE_DESCRIPTORS_MAX = 100_000
OTHER_FILES = 64  # metadata log, journal, checkpoints that are being written, files of libraries
UNLIMITED = 2**31 - 1


def raise_descriptor_limit() -> int:
    """Raises the soft limit to the hard one and returns it. If this fails, the soft limit stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        return soft
    return hard


def descriptors_for_connections() -> int:
    """The descriptors that remain for connections within the limit of this process."""
    soft = _limit()
    return max(1, soft - _for_files(soft))


def partitions_with_descriptors() -> int:
    """How many partitions can have an open log, with one segment each, besides the files that the broker itself
    needs."""
    return max(1, _for_files(_limit()) - OTHER_FILES)


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else soft


def _for_files(limit: int) -> int:
    return min(max(FILE_DESCRIPTORS_MIN, limit // 2), FILE_DESCRIPTORS_MAX)
