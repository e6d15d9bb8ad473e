"""The features of the cluster and their levels (KIP-584): the one table, the first levels, and UpdateFeatures. Pure.

A feature at level 0 is off, and has no entry in the image. The code that reads a level decides what it changes:
api_18_api_versions.py tells the levels to clients, consumer groups read `group.version`, share groups read
`share.version`, and `__transaction_state` reads `transaction.version`.
`metadata.version` decides only whether log directories may be cordoned (KIP-1066). Records of the metadata log have one
version here, whatever the level.
Shown by tests/broker_controller/test_controller_features.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.controller import eligible
from broker.controller.feature_types import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesResponse,
)
from broker.controller.image import MetadataImage
from broker.controller.outcome import Outcome
from broker.controller.records import FeatureLevelRecord, MetadataRecord
from broker.wire.errors import ErrorCode

GROUP_VERSION = "group.version"  # 1: the consumer protocol of groups (KIP-848)
METADATA_VERSION = "metadata.version"
CORDONED_LEVEL = 30  # From this metadata.version on, 4.3-IV0, log directories may be cordoned.
CANNOT_CORDON = (
    "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
)
SHARE_VERSION = "share.version"  # 1: share groups (KIP-932)
TRANSACTION_VERSION = "transaction.version"  # 1: flexible transaction records; 2: KIP-890, part 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What this broker supports. A new cluster begins at the highest level, as Kafka formats one."""

    low: int
    high: int


# The levels of Apache Kafka 4.3.1.
FEATURES: Mapping[str, Levels] = {
    eligible.FEATURE: Levels(low=0, high=eligible.FEATURE_LEVEL),
    GROUP_VERSION: Levels(low=0, high=1),
    METADATA_VERSION: Levels(low=7, high=30),  # 3.3-IV3 to 4.3-IV0
    SHARE_VERSION: Levels(low=0, high=1),
    TRANSACTION_VERSION: Levels(low=0, high=2),
}
_PREFIX = "The update failed for all features since the following feature had an error: "


def level_of(image: MetadataImage, name: str) -> int:
    return image.features.get(name, 0)


def may_cordon(image: MetadataImage) -> bool:
    return level_of(image, METADATA_VERSION) >= CORDONED_LEVEL


def first_records(
    image: MetadataImage, *, eligible_level: int, share_level: int, min_insync_replicas: int
) -> tuple[MetadataRecord, ...]:
    """The levels that a new cluster begins with. A cluster that was made before features could change has a
    `metadata.version` that Kafka does not know. It gets these levels too, but without eligible leader replicas, because
    it has not kept them until now."""
    if level_of(image, METADATA_VERSION) >= FEATURES[METADATA_VERSION].low:
        return ()
    levels = {name: levels.high for name, levels in FEATURES.items()}
    levels[eligible.FEATURE] = 0 if image.features else eligible_level
    levels[SHARE_VERSION] = share_level
    safety = eligible.safety_records(image, static=min_insync_replicas) if levels[eligible.FEATURE] else ()
    return (*safety, *(FeatureLevelRecord(name=name, level=level) for name, level in levels.items() if level))


def update_features(
    image: MetadataImage, request: UpdateFeatures, *, node_id: int, min_insync_replicas: int
) -> Outcome:
    """`min_insync_replicas` is the value in the brokers' properties."""
    updates = {update.name: update for update in request.updates}  # the last update of a name counts
    for update in updates.values():
        problem = _problem(image, update, node_id)
        if problem is not None:
            response = UpdateFeaturesResponse(error_code=ErrorCode.invalid_update_version, error_message=problem)
            return Outcome(response=response)
    records: tuple[MetadataRecord, ...] = tuple(
        FeatureLevelRecord(name=each.name, level=each.level)
        for each in updates.values()
        if each.level != level_of(image, each.name)
    )
    if eligible.FEATURE in updates and updates[eligible.FEATURE].level:
        records += eligible.safety_records(image, static=min_insync_replicas)
    response = UpdateFeaturesResponse(error_code=ErrorCode.none, error_message=None)
    return Outcome(response=response, records=() if request.validate_only else records)


def _problem(image: MetadataImage, update: FeatureUpdate, node_id: int) -> str | None:
    """Why the update is refused. The texts and the order of the checks are Kafka's (FeatureControlManager)."""
    cause = _cause(update, level_of(image, update.name), node_id)
    if cause is not None:
        return f"{_PREFIX}Invalid update version {update.level} for feature {update.name}. {cause}"
    present = level_of(image, update.name)
    if update.name == METADATA_VERSION and update.level < present:
        # The highest version changed the records of Kafka's metadata log. So every downgrade goes back over such a
        # change.
        cause = "Refusing to perform the requested downgrade because it might delete metadata information."
        if update.upgrade_type == UNSAFE_DOWNGRADE:
            cause = "Unsafe metadata downgrade is not supported in this version."
        return f"{_PREFIX}Unsupported metadata.version downgrade from {present} to {update.level}. {cause}"
    return None


def _cause(update: FeatureUpdate, present: int, node_id: int) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    levels = FEATURES.get(update.name)
    if levels is None:
        if update.level == 0:
            return f"Feature {update.name} not found."
        return f"Local controller {node_id} does not support this feature."
    if not levels.low <= update.level <= levels.high:
        return f"Local controller {node_id} only supports versions {levels.low}-{levels.high}"
    if update.level < present and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > present and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
