"""Levels of the cluster's features (KIP-584): requests and answers of UpdateFeatures. Values only."""

from __future__ import annotations

from dataclasses import dataclass

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # what a change may do


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeatures:
    """All updates are made or none. If a feature is named twice, the last update counts, as in Kafka."""

    token: int
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    error_code: int
    error_message: str | None
