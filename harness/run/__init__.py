"""Carrying out a plan: run directory, cells one after the other, evidence, and the report at the end.

Modules of the run itself:

- `orchestrator`: the whole run, in the order of its steps; begin here
- `context`, `request`: what all cells share, and what the command line asked for
- `current_cluster`: the cluster that cells share
- `time_left`, `attempts`: how long the plan takes, and which cells are repeated
- `search_trace`, `rate_contract`: the search for the highest sustainable rate

Rooms, from the top to the bottom. Each imports only those below it (`lint-imports` checks this):

- `cells`: one cell from its topic to its outcome
- `preparation`: what happens before the first measured cell: warm-up, and what the load generator can reach
- `evidence`: the facts after the load of a cell: the final read, and what leaders lost
- `recording`: what is recorded while a cell runs
- `hosts`: load hosts, fault hosts, and the store that they share with us
- `generator`: the load processes and what they are told
- `directory`: the run directory: its documents, secrets, recovery
- `report`: the analysis as a process, and what comes out of it

The first lines of each room list its modules; tests/repository/test_repository_rules.py holds that all are there.
"""
