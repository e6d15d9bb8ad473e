"""Features: what a cluster begins with, what a change is refused for, in Kafka's words, and that levels last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.controller import eligible
from broker.controller.feature_types import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesResponse,
)
from broker.controller.features import (
    FEATURES,
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    TRANSACTION_VERSION,
    first_records,
    level_of,
)
from broker.controller.image import MetadataImage
from broker.controller.record_codec import encode_records
from broker.controller.records import FeatureLevelRecord
from broker.controller.snapshot import image_of, image_records
from broker.quorum.types import LogEntry
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld

HIGHEST = {name: levels.high for name, levels in FEATURES.items()}
PREFIX = "The update failed for all features since the following feature had an error: "


def world(log: list[LogEntry] | None = None) -> ControllerWorld:
    made = ControllerWorld(log=log)
    made.lead()
    return made


def update(
    controller: ControllerWorld, *updates: tuple[str, int, int], validate_only: bool = False
) -> UpdateFeaturesResponse:
    asked = tuple(FeatureUpdate(name=name, level=level, upgrade_type=kind) for name, level, kind in updates)
    controller.tokens += 1
    token = controller.tokens
    controller.handle(UpdateFeatures(token=token, updates=asked, validate_only=validate_only))
    answer = controller.answers[token]
    assert isinstance(answer, UpdateFeaturesResponse)
    return answer


def levels(controller: ControllerWorld) -> dict[str, int]:
    return dict(controller.controller.image.features)


def test_a_new_cluster_begins_with_the_highest_levels() -> None:
    assert levels(world()) == HIGHEST


def test_a_new_cluster_may_begin_without_share_groups() -> None:
    records = first_records(MetadataImage(), eligible_level=1, share_level=0, min_insync_replicas=1)
    named = {record.name for record in records if isinstance(record, FeatureLevelRecord)}
    assert named == set(HIGHEST) - {SHARE_VERSION}


def test_a_cluster_of_before_features_could_change_begins_with_all_but_eligible_replicas() -> None:
    values = encode_records((FeatureLevelRecord(name=METADATA_VERSION, level=1),))
    old = ControllerWorld(log=[LogEntry(offset=0, epoch=0, is_control=False, values=values)])
    old.commit()
    old.lead()
    assert levels(old) == {name: level for name, level in HIGHEST.items() if name != eligible.FEATURE}
    assert update(old, (eligible.FEATURE, 1, UPGRADE)).error_code is ErrorCode.none
    assert levels(old) == HIGHEST
    assert old.controller.image.broker_configs[""] == {"min.insync.replicas": "1"}, "one value for all"


def test_levels_last_over_the_next_controller_and_a_snapshot() -> None:
    first = world()
    assert update(first, (GROUP_VERSION, 0, SAFE_DOWNGRADE), (TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)) == (
        UpdateFeaturesResponse(error_code=ErrorCode.none, error_message=None)
    )
    kept = {METADATA_VERSION: 30, SHARE_VERSION: 1, TRANSACTION_VERSION: 1, eligible.FEATURE: 1}
    assert levels(first) == kept
    after = ControllerWorld(log=first.log)
    after.commit()
    after.epoch = first.epoch
    after.lead()
    assert levels(after) == kept, "what is off stays off"
    image = after.controller.image
    restored = image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch)
    assert restored.features == kept
    assert level_of(restored, GROUP_VERSION) == 0


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        (
            [(TRANSACTION_VERSION, 1, UPGRADE)],
            "Invalid update version 1 for feature transaction.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            [(TRANSACTION_VERSION, 3, UPGRADE)],
            "Invalid update version 3 for feature transaction.version. Local controller 1 only supports versions 0-2",
        ),
        (
            [("nope", 1, UPGRADE)],
            "Invalid update version 1 for feature nope. Local controller 1 does not support this feature.",
        ),
        ([("nope", 0, UNSAFE_DOWNGRADE)], "Invalid update version 0 for feature nope. Feature nope not found."),
        (
            [(GROUP_VERSION, -1, SAFE_DOWNGRADE)],
            "Invalid update version -1 for feature group.version. A feature version cannot be less than 0.",
        ),
        (
            [(GROUP_VERSION, 1, 4)],
            "Invalid update version 1 for feature group.version. The controller does not support the given upgrade "
            "type.",
        ),
        (
            [(METADATA_VERSION, 6, SAFE_DOWNGRADE)],
            "Invalid update version 6 for feature metadata.version. Local controller 1 only supports versions 7-30",
        ),
        (
            [(METADATA_VERSION, 29, SAFE_DOWNGRADE)],
            "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade because "
            "it might delete metadata information.",
        ),
        (
            [(METADATA_VERSION, 29, UNSAFE_DOWNGRADE)],
            "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is not supported in this "
            "version.",
        ),
        (
            [(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE), (GROUP_VERSION, 9, UPGRADE)],
            "Invalid update version 9 for feature group.version. Local controller 1 only supports versions 0-1",
        ),
    ],
)
def test_a_change_is_refused_as_a_whole(changes: list[tuple[str, int, int]], cause: str) -> None:
    controller = world()
    answer = update(controller, *changes)
    assert answer == UpdateFeaturesResponse(
        error_code=ErrorCode.invalid_update_version, error_message=f"{PREFIX}{cause}"
    )
    assert levels(controller) == HIGHEST


def test_a_higher_level_is_no_downgrade() -> None:
    controller = world()
    update(controller, (TRANSACTION_VERSION, 0, UNSAFE_DOWNGRADE))
    answer = update(controller, (TRANSACTION_VERSION, 1, SAFE_DOWNGRADE))
    assert answer.error_message is not None
    assert answer.error_message.endswith("Can't downgrade to a newer version.")
    assert update(controller, (TRANSACTION_VERSION, 1, UPGRADE)).error_code == ErrorCode.none
    assert levels(controller)[TRANSACTION_VERSION] == 1


def test_the_last_of_a_name_counts_and_validation_changes_nothing() -> None:
    controller = world()
    assert update(controller, (GROUP_VERSION, 9, UPGRADE), (GROUP_VERSION, 1, UPGRADE)).error_code == ErrorCode.none
    answer = update(controller, (GROUP_VERSION, 0, SAFE_DOWNGRADE), validate_only=True)
    assert answer.error_code == ErrorCode.none
    assert levels(controller) == HIGHEST


def test_only_the_active_controller_changes_levels() -> None:
    answer = update(ControllerWorld(), (GROUP_VERSION, 0, SAFE_DOWNGRADE))
    assert answer == UpdateFeaturesResponse(error_code=ErrorCode.not_controller, error_message=None)
    assert level_of(MetadataImage(), GROUP_VERSION) == 0
