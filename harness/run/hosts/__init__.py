"""Other hosts: load hosts, fault hosts, and the store that they share with us. The harness's end of workloads/hosts.

- `load_hosts`: the hub of a run, and each cell's load as if it were a load process here
- `host_evidence`: what a load host must have of a cell
- `gather_late`: gathers what load hosts still have of a run whose harness died
- `fault_hosts`: faults on other hosts, one request after another
- `fault_host_needs`, `broker_settings`: what the cells of a plan need there, and what of it is missing
- `store_copy`, `store_rebuild`: a run's copy in the store, and a run directory made anew from it
"""
