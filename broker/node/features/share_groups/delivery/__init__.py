"""Share groups (KIP-932) on the leader of a partition: which records are acquired, by which member, and until when.

Pure: no socket, no clock, no log. The shell is live_share.py.
"""
