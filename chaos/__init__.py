"""Faults against a running cluster: Toxiproxy on every link, signals to processes, timelines, scenarios, leases.

Knows nothing of the load, the analysis or the command line. It sees a cluster only through
`chaos.ports`.
"""
