"""Share groups on the leaders of their partitions, and the way to the share coordinators (KIP-932)."""
