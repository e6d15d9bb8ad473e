"""All APIs of a node: those of the kernel (handlers/table.py, handlers/authorization/table.py) and those of its
features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker.node.feature import Feature
from broker.node.handlers.authorization.rules import Rule
from broker.node.handlers.authorization.table import RULES, authorized
from broker.node.handlers.rows import Handler, Row, handler_of
from broker.node.handlers.table import TABLE
from broker.node.settings.config import NodeConfig
from broker.wire.apis import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiTable:
    """Invariant: each API has one row and one rule, from the kernel or from one feature."""

    features: Sequence[Feature]
    rows: Mapping[ApiKey, Row[Any]]
    rules: Mapping[ApiKey, Rule]

    def __post_init__(self) -> None:
        assert self.rows.keys() == self.rules.keys()
        assert len(self.rows) == len(TABLE) + sum(len(feature.apis) for feature in self.features)

    def handlers(self) -> dict[ApiKey, Handler]:
        """Used without an authorizer, and for requests of a broker to itself."""
        return {key: handler_of(key, row) for key, row in self.rows.items()}

    def authorized_handlers(self) -> dict[ApiKey, Handler]:
        return {key: handler_of(key, row, partial(authorized, self.rules[key])) for key, row in self.rows.items()}

    def offered(self, config: NodeConfig) -> frozenset[ApiKey]:
        """What ApiVersions names."""
        hidden = {key for feature in self.features if not feature.is_offered(config) for key in feature.apis}
        return frozenset(self.rows) - hidden


def api_table(features: Sequence[Feature]) -> ApiTable:
    apis = {key: api for feature in features for key, api in feature.apis.items()}
    return ApiTable(
        features=features,
        rows=TABLE | {key: api.row for key, api in apis.items()},
        rules={**RULES, **{key: api.rule for key, api in apis.items()}},
    )
