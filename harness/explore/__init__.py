"""Finds faults that nobody wrote down: `harness explore` (docs/start/find-a-bug.md).

- `model.py`: what is tried: a program of an application's moves, and one disturbance.
- `systematic.py`: all single disturbances of the requests that a client was seen to send, the most telling first.
- `extremes.py`: sizes at their limits, crossed with refusals that last for seconds.
- `programs.py`: the moves of applications, the plain ones and those drawn from a seed.
- `history.py`: what the client told, and what the log holds.
- `oracles.py`: what in a history cannot be right. `positions.py` knows where a consumer must go on.
- `search.py`: which trial comes next, when a suspicion is confirmed, and how it is made smaller.
- `subject.py`, `bench.py`: the client's process and the cluster that it runs against. `patience.py` says how long a
  client makes no progress although its host lets it run.
"""
