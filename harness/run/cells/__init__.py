"""One cell from its topic to its outcome: load, members and faults side by side.

- `cell`: the order of the steps; `cell_record` makes the record of cell.json
- `topics`, `share_groups`: what the cell owns on the cluster
- `load_run`: the load, from connecting to its last figures; `send_outcomes` judges a load of which nothing succeeded
- `members`: consumers of groups and copiers, each a process
- `own_users`: the users of somebody's locustfile beside the load
- `timeline_driver`: the thread of the faults; `power_loss` does what a loss of power does to files
"""
