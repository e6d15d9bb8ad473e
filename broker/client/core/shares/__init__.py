"""The share consumer's decisions (KIP-932): membership in a share group, sessions with brokers, acknowledgements.

Pure: no socket, no clock, no thread. The shell is broker/client/share_consumer.py.
"""
