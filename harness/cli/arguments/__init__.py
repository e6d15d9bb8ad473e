"""What stands on the command line.

- `parameters`: options that several commands have, each described once
- `run_options`: the options of a run as one value
- `host_options`: what the options about load hosts and fault hosts ask for together
- `own_arguments`: removes secrets from the command line of this process
"""
