"""Which programs and disturbances are tried, and how a trial becomes smaller. Pure.

- `programs`: what applications do, plain and drawn from a seed
- `usage`: rare usage: each setting alone, and each call directly after each other one
- `cluster_moves`: programs on a cluster that does something meanwhile
- `broker_deaths`: programs in the middle of which a broker's process dies or hangs
- `systematic`: each single disturbance of the requests that a client sends
- `pairs`: two disturbances, the second one of the recovery from the first
- `extremes`: sizes at their limits, crossed with refusals that last
- `shrink`: smaller trials that may fail as a given one does
"""
