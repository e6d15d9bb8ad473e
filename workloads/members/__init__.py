"""Members of consumer groups and transactional copiers, each in a process of its own: what faults on clients act on.

`python -m workloads.members SPEC.json` is such a process; a Java one runs Member.java without any Python. What it did
stands in its journal, JSON lines that survive a SIGKILL, from which `transcribe.py` makes rows of `recv` and lines of
`history.jsonl`. Shown by tests/workloads/test_workloads_members.py.
"""

from __future__ import annotations

import importlib
from typing import Final, cast

from workloads.clients import library
from workloads.clients.protocol import ClientError
from workloads.members.protocol import Copier, CopierSetup, GroupMember, MemberLibrary, MemberListener, MemberSetup

BUILTIN: Final = {
    "reference": "workloads.members.reference",
    "confluent": "workloads.members.confluent",
    "aiokafka": "workloads.members.aiokafka",
    "kafka_python": "workloads.members.kafka_python",
}
COPIERS: Final = ("reference", "confluent", "java")
JAVA: Final = "java"  # its members are JVMs that the harness starts


def _library(client: str, ability: str) -> MemberLibrary:
    found = importlib.import_module(BUILTIN[client]) if client in BUILTIN else library(client)
    if not hasattr(found, ability):
        what = "a group member in a process of its own" if ability == "make_member" else "a transactional copier"
        raise ClientError(f"client {client} cannot be {what}: it has no {ability}")
    return cast(MemberLibrary, found)


def make_member(client: str, setup: MemberSetup, listener: MemberListener) -> GroupMember:
    """PropertyError if the client cannot set a property; nothing is connected yet."""
    return _library(client, "make_member").make_member(setup, listener)


def make_copier(client: str, setup: CopierSetup, listener: MemberListener) -> Copier:
    return _library(client, "make_copier").make_copier(setup, listener)
