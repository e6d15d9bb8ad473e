"""Faults on the host of somebody else's broker. They are done and undone on that host, and only if its operator permits
them.

`harness worker … --allow-faults FILE` runs it (docs/guide/load-hosts.md). It knows no network. A request reaches it
only through `host.FaultHost`, with a broker id and the name of an action.
"""
