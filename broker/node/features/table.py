"""The features of a broker. A row here switches one on; without its row the broker serves as if there were no such
feature."""

from __future__ import annotations

from broker.node.feature import Feature
from broker.node.features.share_groups.feature import SHARE_GROUPS

FEATURES: tuple[Feature, ...] = (SHARE_GROUPS,)
