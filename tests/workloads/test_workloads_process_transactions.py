"""A client process as a transactional producer: how each answer of the program ends a transaction."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from runlog.streams.schema import SendStatus
from workloads.clients import check_transactions, clients_with_transactions, make_transactional_producer
from workloads.clients.process.transacting import ProcessTransactionalProducer
from workloads.clients.protocol import (
    ClientError,
    ClientSetup,
    PropertyError,
    TransactionAborted,
    TransactionUnknown,
)
from workloads.transactions import TransactionalProducer

# It answers each command by the next of its ANSWERS for that command, and by `done` when there are no more. It tells
# the outcomes of records just before it answers a flush.
PROGRAM = """
import json, os, sys, time

ANSWERS = json.loads(sys.argv[1])
PROPERTIES = ["acks", "bootstrap.servers", "transactional.id"]
READY = {"protocol": 1, "client": "scripted", "can": ["produce", "transactions", "assign"],
         "properties": {"producer": PROPERTIES, "consumer": ["isolation.level"]}, **ANSWERS.pop("ready", {})}

def now():
    return time.monotonic_ns() // 1000

def say(event, **fields):
    print(json.dumps({"event": event, "at_us": now(), **fields}), flush=True)

say("ready", **READY)
heard, held = [], []
for line in sys.stdin:
    command = json.loads(line)
    heard.append(command["do"])
    if command["do"] == "produce":
        for each in command["records"]:
            held.append({"seq": each["seq"], "sent_us": now(), "partition": 0, "offset": each["seq"]})
        continue
    answer = ANSWERS.get(command["do"], [])
    answer = answer.pop(0) if answer else {}
    if answer.get("dies"):
        sys.exit(3)
    if command["do"] in ("flush", "close") and held and not answer.get("reason"):
        say("acknowledged", records=held)
        held = []
    if command["do"] == "connect":
        answer = {**answer, "effective": {"transactional.id": command["properties"]["transactional.id"]}}
    if command["do"] == "close":
        print(" ".join(heard), file=open(sys.argv[2], "w"))
    say("error" if "reason" in answer else "done", id=command["id"], **answer)
"""
ACKED, UNKNOWN, ABORTED = SendStatus.ACKED, SendStatus.UNKNOWN, SendStatus.ABORTED


class Rig:
    """A client of the scripted program, and what it was told and was told to do."""

    def __init__(self, directory: Path) -> None:
        self.rows: list[tuple[int, ...]] = []
        self._directory = directory

    def client(self, **answers: Any) -> str:
        program = self._directory / "program.py"
        program.write_text(PROGRAM)
        given = {do.replace("_", "-"): found for do, found in answers.items()}
        return (
            f"process:{shlex.join([sys.executable, str(program), json.dumps(given), str(self._directory / 'heard')])}"
        )

    def producer(self, **answers: Any) -> ProcessTransactionalProducer:
        """Connected, with one record in an open transaction."""
        producer = make_transactional_producer(self.client(**answers), SETUP, self)
        assert isinstance(producer, ProcessTransactionalProducer)
        producer.connect(10)
        producer.begin()
        assert producer.send("t", b"value", None, 0)
        return producer

    one = many = None  # Programs tell rows.

    def timed(self, outcomes: Any) -> None:
        self.rows += [(int(row["seq"]), int(row["status"]), int(row["error"]), int(row["offset"])) for row in outcomes]

    @property
    def heard(self) -> list[str]:
        return (self._directory / "heard").read_text().split()


SETUP = ClientSetup(bootstrap_servers="b:1", topics=("t",), properties={"acks": "all"}, transactional_id="mine")
FIRST = ["connect", "begin", "produce", "flush"]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.mark.slow
def test_a_commit_is_asked_for_when_all_outcomes_are_told(rig: Rig) -> None:
    producer = rig.producer()
    producer.commit(10)
    assert rig.rows == [(0, ACKED, 0, 0)]
    producer.close(1)
    assert rig.heard == [*FIRST, "commit-transaction", "close"]
    assert producer.effective()["transactional.id"] == "mine"


@pytest.mark.slow
def test_a_step_is_repeated_as_long_as_the_library_says_so(rig: Rig) -> None:
    again = {"reason": "not yet", "next": "retry", "code": 51}
    producer = rig.producer(commit_transaction=[again, again])
    producer.commit(60)
    producer.close(1)
    assert rig.heard == [*FIRST, *["commit-transaction"] * 3, "close"]


@pytest.mark.slow
def test_a_commit_that_is_never_answered_otherwise_is_unknown_when_its_time_is_over(rig: Rig) -> None:
    again = {"reason": "not yet", "next": "retry", "code": 51}
    producer = rig.producer(commit_transaction=[again] * 1_000)
    with pytest.raises(TransactionUnknown, match="not yet") as raised:
        producer.commit(0.2)
    assert raised.value.code == 51
    producer.close(1)
    assert "abort-transaction" not in rig.heard


@pytest.mark.slow
@pytest.mark.parametrize("wish", [{}, {"next": "close"}])
def test_a_commit_that_was_refused_is_unknown_unless_the_library_wants_an_abort(rig: Rig, wish: dict[str, str]) -> None:
    """An abort after a commit that was carried out may be answered by `done`: some libraries then know of no
    transaction."""
    producer = rig.producer(commit_transaction=[{"reason": "fenced", "code": 90, **wish}])
    with pytest.raises(TransactionUnknown) as raised:
        producer.commit(10)
    assert raised.value.code == 90
    producer.close(1)
    assert rig.heard == [*FIRST, "commit-transaction", "close"]


@pytest.mark.slow
@pytest.mark.parametrize(("aborted", "expected"), [({}, TransactionAborted), ({"reason": "no"}, TransactionUnknown)])
def test_a_transaction_is_aborted_only_if_the_abort_succeeds(
    rig: Rig, aborted: dict[str, str], expected: type[Exception]
) -> None:
    wish = {"reason": "too large", "code": 10, "next": "abort"}
    producer = rig.producer(commit_transaction=[wish], abort_transaction=[aborted])
    with pytest.raises(expected):
        producer.commit(10)
    producer.close(1)
    assert rig.heard == [*FIRST, "commit-transaction", "abort-transaction", "close"]


@pytest.mark.slow
def test_records_without_an_outcome_in_time_are_aborted_and_no_commit_is_asked_for(rig: Rig) -> None:
    producer = rig.producer(flush=[{"reason": "1 record has no outcome"}])
    with pytest.raises(TransactionAborted):
        producer.commit(10)
    producer.close(1)
    assert rig.heard == [*FIRST, "abort-transaction", "close"]


@pytest.mark.slow
def test_a_planned_abort_writes_its_records_first(rig: Rig) -> None:
    producer = rig.producer()
    producer.abort(10)
    assert rig.rows == [(0, ACKED, 0, 0)]
    producer.close(1)
    assert rig.heard == [*FIRST, "abort-transaction", "close"]


@pytest.mark.slow
def test_a_begin_that_is_refused_asks_for_another_client(rig: Rig) -> None:
    producer = make_transactional_producer(rig.client(begin=[{"reason": "fenced", "code": 90}]), SETUP, rig)  # type: ignore[arg-type]
    producer.connect(10)
    with pytest.raises(TransactionUnknown):
        producer.begin()
    producer.close(1)


@pytest.mark.slow
def test_a_program_that_dies_in_a_commit_leaves_it_unknown(rig: Rig) -> None:
    client = rig.client(commit_transaction=[{"dies": True}])
    producer = TransactionalProducer(
        lambda sink: make_transactional_producer(client, SETUP, sink), rig, commit_interval_ms=60_000, records_max=1,  # type: ignore[arg-type]
        abort_share=0.0, producer=0,
    )  # fmt: skip
    producer.connect(10)
    with pytest.raises(ClientError, match="exit code 3"):
        producer.send("t", b"value", None, 0)
    with pytest.raises(ClientError, match="exit code 3"):
        producer.close(1)
    assert rig.rows == [(0, UNKNOWN, -1, 0)]  # a broker had it, at this offset


@pytest.mark.slow
def test_a_program_that_lacks_something_is_refused_before_anything_starts_with_those_that_can(rig: Rig) -> None:
    check_transactions(rig.client(), {"acks": "all"}, has_readers=True)
    able = ", ".join(clients_with_transactions())
    no_word = {"can": ["produce"], "lacks": {"transactions": "the library has none"}}
    why = (
        r"sends no load in transactions: the program does not declare `transactions`: the library has none\. .*" + able
    )
    with pytest.raises(ClientError, match=why):
        check_transactions(rig.client(ready=no_word), {})
    with pytest.raises(ClientError, match=r"and no producer with transactional\.id"):
        check_transactions(rig.client(ready={"properties": {"producer": ["bootstrap.servers"]}}), {})
    no_isolation = {"properties": {"producer": ["bootstrap.servers", "transactional.id"]}}
    check_transactions(rig.client(ready=no_isolation), {})
    with pytest.raises(PropertyError, match=r"cannot set isolation\.level"):
        check_transactions(rig.client(ready=no_isolation), {}, has_readers=True)
