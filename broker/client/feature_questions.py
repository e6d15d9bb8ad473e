"""Questions about the features of a cluster (KIP-584, KIP-778): the levels that a broker can do, those in force, and
their change.

Any broker forwards a change to the controller. Shown by tests/harness/test_harness_releases.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.client.question import Question, raise_error
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from broker.wire.shapes.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_ALL_LEVELS: Final = 4  # earlier versions of ApiVersions leave out features whose lowest level is 0 (KIP-1022)
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2  # the controller refuses it if metadata would be lost
_SOFTWARE: Final = "kafka-harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Levels by the feature's name. A feature that is not in force is at level 0."""

    supported: Mapping[str, tuple[int, int]]  # lowest and highest level that the broker can do
    in_force: Mapping[str, int]


def features() -> Question[Features]:
    """What the broker that is asked says of itself, and of the cluster."""

    def build(version: int) -> ApiVersionsRequest:
        return request(ApiKey.API_VERSIONS, version, client_software_name=_SOFTWARE, client_software_version=_SOFTWARE)

    def parse(answer: ApiVersionsResponse) -> Features:
        raise_error(answer.error_code, None, "features")
        return Features(
            supported={each.name: (each.min_version, each.max_version) for each in answer.supported_features},
            in_force={each.name: each.max_version_level for each in answer.finalized_features},
        )

    return Question(ApiKey.API_VERSIONS, build, parse, lowest=3, highest=_ALL_LEVELS)


def changed_features(levels: Mapping[str, int], *, is_downgrade: bool = False, timeout_ms: int) -> Question[None]:
    """Brings each feature to its level, all or none. A downgrade that would lose metadata is refused."""

    def build(version: int) -> UpdateFeaturesRequest:
        kind = _SAFE_DOWNGRADE if is_downgrade else _UPGRADE
        return request(
            ApiKey.UPDATE_FEATURES,
            version,
            timeout=timeout_ms,
            feature_updates=[
                {"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level in levels.items()
            ],
        )

    def parse(answer: UpdateFeaturesResponse) -> None:
        for each in field_or(answer, "results", ()):  # Version 2 has none.
            if each.error_code is not ErrorCode.none:
                raise_error(each.error_code, each.error_message, f"feature {each.feature}")
        raise_error(answer.error_code, answer.error_message, "features")

    return Question(ApiKey.UPDATE_FEATURES, build, parse, lowest=1, highest=2)
