"""Faults against a running cluster: Toxiproxy on every link, signals to processes, timelines, scenarios, leases.

Knows nothing of the load, the analysis or the command line. A cluster is only seen through `chaos.port.ClusterPort`.
"""
