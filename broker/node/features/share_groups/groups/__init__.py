"""Share groups as the group coordinator keeps them in `__consumer_offsets`: members, assignments, and which partitions
have a state (KIP-932). Pure: no socket, no clock, no log. `requests` has the groups of one shard as the shard asks for
them (broker/coordinator/groups/kinds.py).
"""
