"""Clients in a version of one's choice: `NAME==VERSION`.

- `names.py`: what such a name says. Pure.
- `table.py`: one row a client, with the installer that knows its registry.
- `installing.py`: from a name to the command that speaks the client protocol, installed once.
- `pypi.py`, `npm.py`, `go_modules.py`, `maven.py`, `crates.py`: the installers.
- `short_jvm.py`: the Java client for trials of a few seconds.
- `nearest.py`: the versions near one that is not there. Pure.

Shown by tests/workloads/test_workloads_versions.py, and with the registries by test_harness_client_versions.py.
"""
