"""Replicas move between the log directories of a broker, and clients are told where replicas lie (KIP-113).

moves has the moves, and is what the feature opens on a node. throttle is their rate. Without the feature, each replica
stays in the directory in which it was made. That a broker has several directories, and survives the loss of one, is the
kernel's (broker/node/replicas/directories.py).
"""
