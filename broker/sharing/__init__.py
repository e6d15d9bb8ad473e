"""Share groups (KIP-932) as the leader of a partition sees them: which records are out, with whom, and until when.

Pure: no socket, no clock, no log. The shell is broker/node/sharing.
"""
