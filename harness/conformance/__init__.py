"""`harness client check`: does a program keep to the client protocol (docs/reference/client-protocol.md)?

- `world.py`: one broker, what its log and its groups hold, and how it freezes.
- `bench.py`: one client process in one trial, with every line that it said.
- `judge.py`: what the client said against what the log holds. Pure.
- `producing.py`, `consuming.py`, `committing.py`: the trials.
- `check.py`: which trials run, their order and their result.
"""
