"""The search for faults of a client, and tapes of what it found: `harness explore` and `harness tape`.

- `commands`, `tape_commands`: their options
- `explore`: a search, or one trial of an earlier search again
- `own_program`: a search with a program of somebody's that speaks no protocol of ours
- `search_cluster`: the cluster of a search, its directory and its lease
- `tape`: a finding as a file that shows it with no broker; `tape_play`: such a file, played to a client
"""
