"""Clusters as the harness sees them: three engines behind one protocol (base.Cluster)."""
