"""A whole cluster in one process: the real brokers and the real producer under a virtual clock. One seed decides
everything that happens.

`python -m broker.sim --seeds 1-300` runs seeds and reports.

- Real: broker.node, controller, quorum, replication, log, and the client's core, sender and connections, down to the
  bytes of each frame.
- Simulated: the clock, the event loop (`loop`), the network (`network`, `sockets`), the disk (`disk`) and the faults
  (`faults`).

The invariants (`invariants`) are checked after every event. Mutants are in broker.mutants.
"""
