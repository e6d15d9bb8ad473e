"""The row of share groups in the table of features (features/table.py)."""

from __future__ import annotations

from broker.node.feature import Api, Feature
from broker.node.features.share_groups import rules
from broker.node.features.share_groups.handlers import (
    api_76_share_group_heartbeat,
    api_77_share_group_describe,
    api_78_share_fetch,
    api_79_share_acknowledge,
    api_83_initialize_share_group_state,
    api_84_read_share_group_state,
    api_85_write_share_group_state,
    api_86_delete_share_group_state,
    api_87_read_share_group_state_summary,
    api_90_describe_share_group_offsets,
    api_91_alter_share_group_offsets,
    api_92_delete_share_group_offsets,
)
from broker.node.features.share_groups.part import open_share_groups
from broker.node.handlers.rows import Row
from broker.wire.apis import ApiKey

SHARE_GROUPS = Feature(
    name="share groups",
    is_offered=lambda config: config.own.harness_share_version > 0,
    open=open_share_groups,
    apis={
        ApiKey.SHARE_GROUP_HEARTBEAT: Api(
            row=Row(handle=api_76_share_group_heartbeat.handle), rule=rules.SHARE_GROUP_HEARTBEAT
        ),
        ApiKey.SHARE_GROUP_DESCRIBE: Api(
            row=Row(handle=api_77_share_group_describe.handle), rule=rules.SHARE_GROUP_DESCRIBE
        ),
        ApiKey.SHARE_FETCH: Api(row=Row(handle=api_78_share_fetch.handle), rule=rules.SHARE_FETCH),
        ApiKey.SHARE_ACKNOWLEDGE: Api(row=Row(handle=api_79_share_acknowledge.handle), rule=rules.SHARE_ACKNOWLEDGE),
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: Api(
            row=Row(handle=api_83_initialize_share_group_state.handle), rule=rules.STATES
        ),
        ApiKey.READ_SHARE_GROUP_STATE: Api(row=Row(handle=api_84_read_share_group_state.handle), rule=rules.STATES),
        ApiKey.WRITE_SHARE_GROUP_STATE: Api(row=Row(handle=api_85_write_share_group_state.handle), rule=rules.STATES),
        ApiKey.DELETE_SHARE_GROUP_STATE: Api(row=Row(handle=api_86_delete_share_group_state.handle), rule=rules.STATES),
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Api(
            row=Row(handle=api_87_read_share_group_state_summary.handle), rule=rules.STATES
        ),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Api(
            row=Row(handle=api_90_describe_share_group_offsets.handle), rule=rules.DESCRIBE_SHARE_GROUP_OFFSETS
        ),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: Api(
            row=Row(handle=api_91_alter_share_group_offsets.handle), rule=rules.ALTER_SHARE_GROUP_OFFSETS
        ),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: Api(
            row=Row(handle=api_92_delete_share_group_offsets.handle), rule=rules.DELETE_SHARE_GROUP_OFFSETS
        ),
    },
)
