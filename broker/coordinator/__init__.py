"""Coordinators: consumer groups with their offsets, and transactions. They are pure: no socket, no clock, no log.

The state of a coordinator is the content of one partition of an internal topic. The shell that loads it, appends for it
and waits for replication is broker/node/coordination/coordinators.py; the rules between the two are in runtime.py.
"""
