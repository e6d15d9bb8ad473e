"""Finds faults that nobody wrote down: `harness explore` (docs/start/find-a-bug.md).

`campaign` is one whole search, with its workers, its budget and its files; begin here.

Rooms, from the top to the bottom. Each imports only those below it (`lint-imports` checks this):

- `findings`: what a finding is for others: its cause, its story, and files that show it again
- `search`: which trial comes next, when a suspicion is a finding, and what is kept for later searches
- `execution`: one trial: the client's process, the cluster that it runs against, and what happens to both
- `oracles`: what in a history cannot be right; it knows no execution
- `generators`: which programs and disturbances are tried, and how a trial becomes smaller
- `trial`: the values of a trial: what is tried, and what came of it

The first lines of each room list its modules; tests/repository/test_repository_rules.py holds that all are there.
"""
