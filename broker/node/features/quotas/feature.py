"""The row of client quotas in the table of features (features/table.py)."""

from __future__ import annotations

from broker.node.feature import Api, Feature
from broker.node.features.quotas import api_48_describe_client_quotas, api_49_alter_client_quotas, rules
from broker.node.features.quotas.part import open_quotas
from broker.node.handlers.rows import Row
from broker.wire.apis import ApiKey

QUOTAS = Feature(
    name="quotas",
    open=open_quotas,
    apis={
        ApiKey.DESCRIBE_CLIENT_QUOTAS: Api(
            row=Row(handle=api_48_describe_client_quotas.handle), rule=rules.DESCRIBE_CLIENT_QUOTAS
        ),
        ApiKey.ALTER_CLIENT_QUOTAS: Api(
            row=Row(controller=api_49_alter_client_quotas.CONTROLLER, forward=api_49_alter_client_quotas.FORWARD),
            rule=rules.ALTER_CLIENT_QUOTAS,
        ),
    },
)
