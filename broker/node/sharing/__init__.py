"""Share groups on the leaders of their partitions, and the client of the share coordinators (KIP-932)."""
