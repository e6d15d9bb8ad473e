"""Reference producer, consumer and admin for clusters that speak the Kafka protocol: pure core, thread-based shell.

core/ makes the decisions (no I/O, no clock). The modules next to it move bytes. broker/door/clients.py has the public
surface, and docs/internals/contracts.md describes it.
"""
