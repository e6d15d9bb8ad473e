"""Clusters that no run starts: those of `harness cluster up`, and those of others.

- `commands`: the options of `harness cluster`
- `cluster`, `cluster_state`: a cluster that outlives its command, and the file by which it is found again
- `external_cluster`: a cluster that the harness did not start: whether it answers, and the consent to load it
"""
