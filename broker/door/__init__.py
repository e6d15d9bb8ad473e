"""The door of this package: what other packages (harness, chaos, workloads) use of it stands here, and nowhere else.

One module for each role, so that a light process imports little:

- addresses, protocol, security: values and checks without I/O, quick to import.
- batches: record batches in bytes.
- messages: frames and messages of all APIs.
- clients, questions, client_settings: the reference clients.
- reference: the reference broker as a thing to start. The broker itself is a process: `python -m broker.node`.

A contract in pyproject.toml ("the broker has one door") says that nobody outside imports another module. Nothing in
this package imports the door.
"""
