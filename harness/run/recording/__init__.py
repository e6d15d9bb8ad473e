"""What is recorded while a cell runs.

- `cell_recording`: begins and ends all of it
- `recorders`: journals, leaders, and figures of processes and of the host, each into its file
- `host_load`, `host_stalls`, `jvm_threads`: how the figures are read from /proc
- `wire_log_tail`: the cell's share of the proxies' wire log
- `truncation`: the logs of dead leaders, and which of their records the surviving log lacks
"""
