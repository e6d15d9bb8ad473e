"""The load generator: its processes, and what they are told. It knows no cell.

- `workload_process`: one load process; `standby_processes` starts some ahead of time
- `load_plan`: the instructions for a load process
- `client_runtime`: the JVM or the program that a client needs
- `ceilings`: what the generator can reach on this host, as values
"""
