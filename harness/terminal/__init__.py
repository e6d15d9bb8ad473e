"""The person at the terminal: what is written to him, and the signals by which he ends a command.

- `tables`: lines and tables that fit the width
- `progress`: the live line of a run
- `operator_log`: the lines of a worker, which nobody waits for
- `signals`: Ctrl-C and SIGTERM as a flag
"""
