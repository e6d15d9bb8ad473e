"""Bytes in and out: listeners, connections, channels to peers, and the bounds that keep one peer from hurting others.

Knows no API: a request goes to whoever is given as `dispatch`.
"""
