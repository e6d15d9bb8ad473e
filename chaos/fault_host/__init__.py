"""Faults on the host of somebody else's broker: what its operator permits there, done and undone on that host.

`harness worker … --allow-faults FILE` runs it (docs/guide/load-hosts.md). It knows no network: whoever asks, asks
through `host.FaultHost`, with a broker id and the name of an action, and with nothing else.
"""
