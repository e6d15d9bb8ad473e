"""The facts after the load of a cell, which the analysis compares with what clients were told.

- `ground_truth`: gathers all of them, in their order
- `log_visibility`: waits until all records can be read
- `final_read`, `read_limits`: every partition from its start to its end, within a bound
- `markers`: what a marker in a log says of a transaction
- `copied_records`: the copiers' topic
- `deposed_leader`: what a replaced leader answered for and then truncated
- `replica_check`: whether the replicas of a partition hold the same batches
"""
