"""The row of moves between log directories in the table of features (features/table.py)."""

from __future__ import annotations

from broker.node.feature import Api, Feature
from broker.node.features.replica_moves import api_34_alter_replica_log_dirs, api_35_describe_log_dirs, rules
from broker.node.features.replica_moves.moves import open_moves
from broker.node.handlers.rows import Row
from broker.wire.apis import ApiKey

REPLICA_MOVES = Feature(
    name="replica moves",
    open=open_moves,
    apis={
        ApiKey.ALTER_REPLICA_LOG_DIRS: Api(
            row=Row(handle=api_34_alter_replica_log_dirs.handle), rule=rules.ALTER_REPLICA_LOG_DIRS
        ),
        ApiKey.DESCRIBE_LOG_DIRS: Api(row=Row(handle=api_35_describe_log_dirs.handle), rule=rules.DESCRIBE_LOG_DIRS),
    },
)
