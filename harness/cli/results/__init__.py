"""Commands about runs that are over: `harness report`, `harness gather` and `harness compare`.

- `commands`: their options
- `report`: the analysis of run directories
- `histories`: a run as a history in EDN, and the check of one
- `gather`: what load hosts still have of a run whose harness died
- `compare`: two runs
"""
