"""`harness.explore.subject`: one run of one program has an end, whatever its client answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.explore import subject
from harness.explore.history import Stuck, TransactionEnd
from harness.explore.model import Do, Move, Program, Role
from harness.explore.subject import Site, Subject

ENDLESS = """
import json, sys, time

def say(**event):
    print(json.dumps(event), flush=True)

say(event="ready", protocol=1, client="endless", can=["produce", "transactions"])
for line in sys.stdin:
    command = json.loads(line)
    at_us = time.monotonic_ns() // 1000
    if command["do"] == "commit-transaction":
        say(event="error", id=command["id"], at_us=at_us, code=0, reason="the coordinator is away", next="retry")
    else:
        say(event="done", id=command["id"], at_us=at_us)
"""
pytestmark = pytest.mark.slow


def run(directory: Path, *, is_healed: bool) -> Subject:
    """With a patience of 0.2 s."""
    program = directory / "client.py"
    program.write_text(ENDLESS)
    moves = (Move(do=Do.BEGIN), Move(do=Do.COMMIT_TRANSACTION))
    site = Site(
        bootstrap_servers="127.0.0.1:1",
        topic="t",
        group="g",
        transactional_id="x",
        client_id="c",
        partitions=1,
        log_starts=dict,
        log_ends=dict,
        write=lambda count: None,
        change=lambda move: None,
        is_healed=lambda: is_healed,
        has_met=lambda: True,
        failed_codes=(),
        patience_s=0.2,
    )
    found = Subject(
        [sys.executable, str(program)],
        {},
        Program(name="p", role=Role.PRODUCER, moves=moves, properties={"transactional.id": "x"}),
        site,
    )
    found.run()
    return found


def test_a_transaction_that_does_not_end_on_a_healed_cluster_is_no_progress(tmp_path: Path) -> None:
    found = run(tmp_path, is_healed=True)
    assert found.problem == ""
    (stuck,) = (one for one in found.happened if isinstance(one, Stuck))
    assert (stuck.what, stuck.missing, stuck.expected) == ("transactions not ended", 1, 1)


def test_as_long_as_the_disturbance_lasts_it_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "RETRIES_MAX", 2)
    found = run(tmp_path, is_healed=False)
    assert not any(isinstance(one, Stuck) and one.what == "transactions not ended" for one in found.happened)
    assert any(isinstance(one, TransactionEnd) for one in found.happened)
