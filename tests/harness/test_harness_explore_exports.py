"""`harness.explore.findings.exports`: a finding as a test, a scenario and commands. Each has its command."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.explore.findings.exports import COMMANDS, SCENARIO, TEST, Exported, exports
from harness.explore.generators.programs import copier, drawn, plain
from harness.explore.oracles.oracles import Kind, Suspicion
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial
from harness.scenarios import load_scenario
from tests.harness.test_harness_pytest_plugin import run_pytest
from workloads.clients.process.messages import Ability, command_line
from workloads.clients.process.shipped.python.client import PROPERTIES

CAN = [str(word) for word in Ability]
AGAIN = "harness explore --again findings/1/trial.json --client confluent"
LIBRARIES = ("confluent-kafka", "kafka-python", "aiokafka")
LATE = Disturbance(api="Produce", how=How.LATE, late_ms=3_000, skip=2)


def finding(
    program: Program, kind: Kind, disturbance: Disturbance | None = LATE, client: str = LIBRARIES[0]
) -> Exported:
    return Exported(
        number=1,
        trial=Trial(program=program, disturbance=disturbance),
        suspicion=Suspicion(kind=kind, what='a "quoted"\nfinding', count=1),
        client=client,
        version="1.0",
        again=AGAIN,
        takes=lambda side, name: name in PROPERTIES[side],
    )


def group(*moves: Move) -> Program:
    return Program(
        name="group",
        role=Role.CONSUMER,
        moves=moves or (Move(do=Do.SUBSCRIBE), Move(do=Do.READ, count=7), Move(do=Do.COMMIT)),
        properties={"enable.auto.commit": "false", "session.timeout.ms": "6000"},
        prefilled=10,
    )


PRODUCER = plain(["produce"])[0]
COPIER = copier()


@pytest.mark.parametrize("client", LIBRARIES)
@pytest.mark.parametrize("seed", range(12))
def test_every_program_becomes_a_test_that_python_reads(client: str, seed: int) -> None:
    program = drawn(CAN, seed)
    assert program is not None
    made = exports(finding(program, Kind.LOST, client=client)).get(TEST)
    is_beyond = any(
        move.do in (Do.KILL, Do.SLEEP)  # a test cannot kill or freeze itself
        or move.do in (Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED)
        or move.do.is_of_cluster
        or move.member > 0
        or move.size_bytes == 0
        or move.callers > 1
        or (move.do is Do.COMMIT and move.count > 0)
        for move in program.moves
    )
    assert (made is None) == is_beyond
    if made is not None:
        ast.parse(made)
        assert AGAIN in made


@pytest.mark.parametrize("client", LIBRARIES)
@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in Kind
        if kind not in (Kind.CRASHED, Kind.TORN, Kind.ABORTED_VISIBLE, Kind.WRONG_PLACE, Kind.FLUSHED_EARLY, Kind.BUSY)
    ],
)
@pytest.mark.parametrize("count", [0, 1])
def test_names_that_a_test_uses_are_there(client: str, kind: Kind, count: int) -> None:
    """As a linter sees it: nothing undefined, nothing imported in vain."""
    program = group() if kind in (Kind.STUCK, Kind.SKIPPED, Kind.DELIVERED_AGAIN) else PRODUCER
    program = COPIER if kind in (Kind.NOT_COPIED, Kind.COPIED_TWICE) else program
    made = exports(finding(program, kind, replace(LATE, count=count), client)).get(TEST)
    if kind is Kind.WRONG_CONTENT:
        assert made is None
        return
    assert made is not None
    tree = ast.parse(made)
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert imported <= used
    assert ("threading" in used) <= ("threading" in imported)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    called = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "client"
    }
    assert called - {"stop"} <= defined | {"start"}


@pytest.mark.parametrize(
    ("client", "call"),
    [
        ("confluent-kafka", "self.consumer.poll("),
        ("kafka-python", "next(self.consumer"),
        ("aiokafka", "self.consumer.getone("),
    ],
)
def test_polls_of_one_record_are_the_librarys_call_for_that(client: str, call: str) -> None:
    """And in the commands `connect` asks for them."""
    for is_one_by_one in (True, False):
        made = exports(finding(replace(group(), is_one_by_one=is_one_by_one), Kind.STUCK, client=client))
        ast.parse(made[TEST])
        assert (call in made[TEST]) == is_one_by_one
        assert ('"one_by_one":true' in made[COMMANDS].replace(" ", "")) == is_one_by_one


@pytest.mark.parametrize("client", LIBRARIES)
def test_a_copier_has_settings_for_each_of_its_sides_and_copies_all_in_the_end(client: str) -> None:
    made = exports(finding(COPIER, Kind.COPIED_TWICE, None, client))[TEST]
    settings, producing = made.split("PRODUCING = {", 1)
    producing = producing.split("}", 1)[0]
    isolation, transactions = ("isolation.level", "transaction.timeout.ms")
    if client != "confluent-kafka":
        isolation, transactions = (name.replace(".", "_") for name in (isolation, transactions))
    assert isolation in settings
    assert isolation not in producing
    assert transactions in producing
    assert transactions not in settings
    assert "kafka_cluster.assert_no_duplicates(topic=copies)" in made
    assert "    client.abort_transaction()\n" in made
    assert made.endswith("    client.copy_rest()\n    client.close()\n")
    large = replace(COPIER, moves=tuple(replace(move, size_bytes=5_000) for move in COPIER.moves))
    assert TEST not in exports(finding(large, Kind.COPIED_TWICE, None, client))


def test_what_is_one_call_several_times_is_a_loop_and_settings_are_the_librarys() -> None:
    made = exports(finding(PRODUCER, Kind.DUPLICATED, client="kafka-python"))[TEST]
    assert "kafka_cluster.assert_no_duplicates(topic=topic)" in made
    assert '    "enable_idempotence": True,' in made
    assert '"delivery_timeout_ms": 30000,' in made
    assert "    # one Produce after the first 2: late answer by 3000 ms" in made
    waits = group(Move(do=Do.SUBSCRIBE), *[Move(do=Do.POLL, count=5)] * 4)
    assert "    for _ in range(4):\n        client.poll(5)\n" in exports(finding(waits, Kind.STUCK))[TEST]


@pytest.mark.parametrize(
    ("client", "kind", "moves"),
    [
        ("franz-go", Kind.LOST, ()),
        ("confluent-kafka", Kind.CRASHED, ()),
        ("confluent-kafka", Kind.STUCK, (Move(do=Do.SUBSCRIBE), Move(do=Do.KILL))),
    ],
)
def test_what_is_no_test_has_only_the_commands(client: str, kind: Kind, moves: tuple[Move, ...]) -> None:
    made = exports(finding(group(*moves), kind, client=client))
    assert set(made) == {COMMANDS}


def test_commands_are_lines_of_the_protocol_and_the_rest_are_comments() -> None:
    text = exports(finding(group(), Kind.STUCK, client="franz-go"))[COMMANDS]
    first, *lines = text.splitlines()
    assert first == f"# {AGAIN}"
    commands = [json.loads(line) for line in lines if not line.startswith("#")]
    assert [command["do"] for command in commands] == ["connect", "subscribe", "poll", "commit", "close"]
    assert [command["id"] for command in commands] == list(range(1, 6))
    assert commands[0]["properties"]["group.id"] == "finding-group"
    assert all(command_line(command) for command in commands)


@pytest.mark.parametrize("how", list(How))
@pytest.mark.parametrize("count", [0, 1, 3])
def test_damage_of_a_producers_records_becomes_a_scenario_that_is_one(tmp_path: Path, how: How, count: int) -> None:
    code = 6 if how.is_error else 0
    alteration = "reversed" if how is How.ALTERED else ""
    disturbance = replace(LATE, how=how, code=code, count=count, alteration=alteration)
    text = exports(finding(PRODUCER, Kind.DUPLICATED, disturbance))[SCENARIO]
    path = tmp_path / SCENARIO
    path.write_text(text)
    scenario = load_scenario(str(path))
    assert (scenario.damage, len(scenario.timeline)) == ("duplication", 1)
    assert text.splitlines()[0] == f"# {AGAIN}"


@pytest.mark.parametrize(
    ("program", "kind", "disturbance"),
    [(group(), Kind.SKIPPED, LATE), (PRODUCER, Kind.STUCK, LATE), (PRODUCER, Kind.LOST, None)],
)
def test_what_the_language_of_scenarios_cannot_say_is_no_scenario(
    program: Program, kind: Kind, disturbance: Disturbance | None
) -> None:
    assert SCENARIO not in exports(finding(program, kind, disturbance))


@pytest.mark.slow
@pytest.mark.long
def test_tests_that_take_each_record_alone_pass_with_right_clients(tmp_path: Path) -> None:
    for client in LIBRARIES:
        program = replace(group(), is_one_by_one=True, properties={"auto.offset.reset": "earliest"})
        text = exports(finding(program, Kind.SKIPPED, None, client))[TEST]
        (tmp_path / f"{client.replace('-', '_')}_test.py").write_text(text)
    found = run_pytest(tmp_path)
    assert "3 passed" in found.stdout, found.stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_test_of_a_finding_fails_with_the_client(tmp_path: Path) -> None:
    """librdkafka 5586: it stands still after NOT_COORDINATOR."""
    refused = Disturbance(api="OffsetFetch", how=How.ERROR_BEFORE, code=16)
    text = exports(finding(group(Move(do=Do.SUBSCRIBE)), Kind.STUCK, refused))[TEST]
    (tmp_path / "stops_test.py").write_text(text)
    found = run_pytest(tmp_path)
    assert "1 failed" in found.stdout, found.stdout
    assert "10 of 10 records unread after 15 s" in found.stdout
    assert "FAILED stops_test.py" in found.stdout


@pytest.mark.slow
@pytest.mark.long
def test_the_test_of_a_copier_fails_if_offsets_are_committed_beside_the_transaction_and_else_passes(
    tmp_path: Path,
) -> None:
    lost = Disturbance(api="EndTxn", how=How.CLOSED_AFTER, skip=1)
    text = exports(finding(COPIER, Kind.NOT_COPIED, lost))[TEST]
    in_it = "self.producer.send_offsets_to_transaction(places, self.consumer.consumer_group_metadata(), CALL_S)"
    beside = text.replace(in_it, "self.consumer.commit(offsets=places, asynchronous=False)")
    assert beside != text
    (tmp_path / "right_test.py").write_text(text)
    (tmp_path / "beside_test.py").write_text(beside)
    found = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in found.stdout, found.stdout
    assert "of 120 acknowledged records lost" in found.stdout
    assert "FAILED beside_test.py" in found.stdout
