"""Members of consumer groups and transactional copiers, each in a process of its own: what faults on clients act on.

`python -m workloads.members SPEC.json` is such a process; a Java one runs clients/java/Client.java without any Python.
What it did stands in its journal, JSON lines that survive a SIGKILL. `transcribe.py` makes rows of `recv` and lines of
`history.jsonl` from it. Shown by tests/workloads/test_workloads_members.py.
"""

from __future__ import annotations

from typing import Final

COPIERS: Final = ("reference", "confluent", "java")
SHARERS: Final = ("reference", "confluent", "java")  # those of our clients that can be members of share groups
JAVA: Final = "java"  # its members are JVMs that the harness starts
