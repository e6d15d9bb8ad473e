"""The features of a broker. A row here switches one on; without its row the broker serves as if there were no such
feature."""

from __future__ import annotations

from broker.node.feature import Feature
from broker.node.features.replica_moves.feature import REPLICA_MOVES
from broker.node.features.share_groups.feature import SHARE_GROUPS

FEATURES: tuple[Feature, ...] = (REPLICA_MOVES, SHARE_GROUPS)
