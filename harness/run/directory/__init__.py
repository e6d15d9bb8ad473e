"""The run directory: how it is made, what is written last, and how it is completed after a crash.

- `run_directory`: makes it, with its manifest
- `outcome`: the outcome of a cell while it runs
- `reproduce`: the commands that carry out a run or a cell again
- `reserved_space`: a file that keeps some of the disk for the last documents
- `secret_removal`: removes known secrets from texts
- `recover`: completes the documents of a run whose harness died
"""
