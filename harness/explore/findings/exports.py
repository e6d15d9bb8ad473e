"""A finding as files for others: a pytest with the client's own library, a scenario, commands of the client protocol.

- `finding_test.py`, where the client is a Python library that we know: no file of the project but the pytest plugin.
- `scenario.yaml`, where records of a producer are damaged by a disturbance: a load instead of the moves.
- `commands.jsonl`, for each client: what the harness asks of it.

The command that fails again stands on top of each. What cannot be put into one of these has no such file. Neither a
test nor a scenario can place a fault right after another one, so of two disturbances there are the commands alone, and
they say so. Pure, but for its templates. Shown by tests/harness/test_harness_explore_exports.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from harness.explore.execution.subject import FLUSH_S, GLANCE_S, PATIENCE_S, POLL_S, SHORT_PAUSE_S
from harness.explore.execution.toxics import toxic_of
from harness.explore.oracles.oracles import Kind, Suspicion
from harness.explore.trial.model import SMALL_BYTES, Disturbance, Do, Move, Program, Role, Takes, Trial
from harness.explore.trial.topics import Topics
from workloads.clients.process.messages import EARLIEST

TEST, SCENARIO, COMMANDS = "finding_test.py", "scenario.yaml", "commands.jsonl"
_CLIENT_ID: Final = "finding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export needs of a finding. `client`: as it calls itself; `again`: the command that fails again."""

    number: int
    trial: Trial
    suspicion: Suspicion
    client: str
    version: str
    again: str
    takes: Takes


def exports(finding: Exported) -> dict[str, str]:
    """Name of the file -> its text. A program that is somebody's own is its own reproduction."""
    if finding.trial.program.role is Role.PROGRAM:
        return {}
    made = {TEST: pytest_of(finding), SCENARIO: scenario_of(finding), COMMANDS: commands_of(finding)}
    return {name: text for name, text in made.items() if text is not None}


# --- a pytest ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    template: str
    names: Callable[[str], str]  # It gives the name of a setting.
    value: Callable[[str, str], Any]


def _plain_value(name: str, value: str) -> Any:
    return value


def _python_value(name: str, value: str) -> Any:
    """As the Python libraries take it."""
    if value in ("true", "false"):
        return value == "true"
    if name == "compression.type":
        return None if value == "none" else value
    return int(value) if value.lstrip("-").isdigit() else value


def _python_name(name: str) -> str:
    return name.replace(".", "_")


def _aiokafka_name(name: str) -> str:
    return {"batch.size": "max_batch_size"}.get(name, _python_name(name))


_LIBRARIES: Final[Mapping[str, _Library]] = {
    "confluent-kafka": _Library(template="finding_confluent", names=str, value=_plain_value),
    "kafka-python": _Library(template="finding_kafka_python", names=_python_name, value=_python_value),
    "aiokafka": _Library(template="finding_aiokafka", names=_aiokafka_name, value=_python_value),
}
_NOT_ARGUMENTS: Final = {"aiokafka": "max.in.flight.requests.per.connection"}  # it always has one, and takes no other
_CALLS: Final[Mapping[Do, Callable[[Move], str]]] = {
    Do.SEND: lambda move: f"client.send({move.count}, {move.size_bytes}{_partition(move)})",
    Do.FLUSH: lambda move: "client.flush()",
    Do.SUBSCRIBE: lambda move: "client.subscribe()",
    Do.ASSIGN: lambda move: "client.assign()",
    Do.POLL: lambda move: f"client.poll({move.count or 500})",
    Do.GLANCE: lambda move: f"client.poll({move.count or 500}, {GLANCE_S})",
    Do.READ: lambda move: f"client.read({move.count or ''})",
    Do.READ_SHORT: lambda move: f"client.read({move.count}, {GLANCE_S})",
    Do.READ_NOW: lambda move: f"client.read({move.count}, 0)",
    Do.COMMIT: lambda move: "client.commit()",
    Do.SEEK: lambda move: f"client.seek_back({move.partition}, {move.count})",
    Do.PAUSE: lambda move: f"client.pause({move.partition})",
    Do.RESUME: lambda move: f"client.resume({move.partition})",
    Do.BEGIN: lambda move: "client.begin()",
    Do.COMMIT_TRANSACTION: lambda move: "client.commit_transaction()",
    Do.ABORT_TRANSACTION: lambda move: "client.abort_transaction()",
    Do.COPY: lambda move: f"client.copy({move.count or ''})",
    Do.SEND_OFFSETS: lambda move: "client.send_offsets()",
    Do.ARRIVE: lambda move: f"client.others_write({move.count})",
    Do.WAIT: lambda move: f"time.sleep({move.count / 1_000:g})",
    Do.WORK: lambda move: f"time.sleep({move.count / 1_000:g})",
    Do.CLOSE: lambda move: "client.close()",
    Do.RESTART: lambda move: "client.restart()",
}
_CHECKS: Final[Mapping[Kind, str]] = {
    Kind.LOST: "kafka_cluster.assert_none_lost(client.acknowledged, topic)",
    Kind.DUPLICATED: "kafka_cluster.assert_no_duplicates(topic=topic)",
    Kind.REORDERED: "kafka_cluster.assert_in_order(client.sent, topic)",
    Kind.SKIPPED: "kafka_cluster.assert_all_read(client.read_values, topic)",
    Kind.DELIVERED_AGAIN: "assert client.delivered_again == []  # (partition, offset) before what was finished",
    Kind.GAVE_UP: "assert client.failed == []",
    Kind.STUCK: "",  # a read or a flush has failed before
    Kind.HUNG: "",  # the thread of the program
}
# A copy says where its record is. All records are copied in the end.
_CHECKS_OF_COPIES: Final[Mapping[Kind, str]] = {
    Kind.LOST: "kafka_cluster.assert_none_lost(client.all_copies(), copies)",
    Kind.NOT_COPIED: "kafka_cluster.assert_none_lost(client.all_copies(), copies)",
    Kind.COPIED_TWICE: "kafka_cluster.assert_no_duplicates(topic=copies)",
    Kind.DUPLICATED: "kafka_cluster.assert_no_duplicates(topic=copies)",
    Kind.SKIPPED: "kafka_cluster.assert_all_read(client.read_values, topic)",
    Kind.STUCK: "",
    Kind.HUNG: "",
}


def _partition(move: Move) -> str:
    return f", partition={move.partition}" if move.partition >= 0 else ""


def pytest_of(finding: Exported) -> str | None:
    """None if the library is not one of ours, or if a move, a second disturbance or the kind of damage has no place in
    a test."""
    program, kind = finding.trial.program, finding.suspicion.kind
    library = _LIBRARIES.get(finding.client)
    is_usual = not program.topic and program.topics == 1 and finding.trial.then is None
    is_possible = kind in _checks(program) and is_usual and all(_is_plain(move) for move in program.moves)
    if library is None or not is_possible:
        return None
    imports, client_class = _template(library.template).split("\n\n\n", 1)
    taking = _template(f"{library.template}_{'one' if program.is_one_by_one else 'many'}")
    classes = f"{client_class.rstrip()}\n\n{taking.rstrip()}\n{_template('finding_common').rstrip()}"
    if program.role is Role.COPIER:
        copier = _template(f"{library.template}_copier")
        classes += f"\n\n\n{copier.rstrip()}\n{_template('finding_copying').rstrip()}"
    head = [
        '"""' + f"{kind}: {_one_line(finding.suspicion.what)}",
        "",
        f"    pytest -p harness.pytest_plugin {TEST}",
        "",
        f"fails as long as the client does this. It was found with {finding.client} {finding.version}, and by hand",
        "",
        f"    {finding.again}",
        "",
        "fails too.",
        '"""',
        "",
        *_standard_imports(imports, finding.trial.disturbance, kind),
        "",
        *_constants(finding, library),
        "",
    ]
    return "\n".join((*head, "", classes, "", "", *_test(finding, library))) + "\n"


def _checks(program: Program) -> Mapping[Kind, str]:
    return _CHECKS_OF_COPIES if program.role is Role.COPIER else _CHECKS


def _template(name: str) -> str:
    return (resources.files("harness") / "templates" / f"{name}.py.txt").read_text(encoding="utf-8")


def _is_plain(move: Move) -> bool:
    is_partial = move.do is Do.COMMIT and move.count > 0
    is_small = move.do not in (Do.ARRIVE, Do.COPY) or move.size_bytes <= SMALL_BYTES
    is_usual = is_small and move.size_bytes > 0 and move.callers == 1
    return move.do in _CALLS and not move.member and is_usual and not is_partial


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("\\", "/").replace('"', "'")


def _standard_imports(imports: str, disturbance: Disturbance | None, kind: Kind) -> list[str]:
    first, _, rest = imports.partition("\n\n")
    needed = set(first.splitlines())
    if _is_until_healed(disturbance) or kind is Kind.HUNG:
        needed.add("import threading")
    return [*sorted(needed), "", *rest.splitlines()]


def _is_until_healed(disturbance: Disturbance | None) -> bool:
    return disturbance is not None and disturbance.count == 0


def _constants(finding: Exported, library: _Library) -> list[str]:
    program = finding.trial.program
    is_reader = program.role is not Role.PRODUCER
    is_auto = program.properties.get("enable.auto.commit") == "true"
    return [
        *_settings("SETTINGS", "consumer" if is_reader else "producer", finding, library),
        *(_settings("PRODUCING", "producer", finding, library) if program.role is Role.COPIER else ()),
        f"IS_CONSUMER, IS_AUTO_COMMIT = {is_reader}, {is_auto}",
        f"PARTITIONS = {program.partitions}",
        f"POLL_S, SHORT_PAUSE_S, CALL_S, PATIENCE_S = {POLL_S}, {SHORT_PAUSE_S}, {FLUSH_S:g}, {PATIENCE_S:g}",
    ]


def _settings(constant: str, side: str, finding: Exported, library: _Library) -> Iterator[str]:
    yield f"{constant} = {{"
    for name, value in finding.trial.program.properties.items():
        if finding.takes(side, name) and name != _NOT_ARGUMENTS.get(finding.client):
            yield f'    "{library.names(name)}": {_literal(library.value(name, value))},'
    yield "}"


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _test(finding: Exported, library: _Library) -> Iterator[str]:
    program, disturbance, kind = finding.trial.program, finding.trial.disturbance, finding.suspicion.kind
    yield "def test_what_was_found(kafka_cluster, chaos):"
    yield '    topic = f"{kafka_cluster.topic}-finding"'
    yield "    kafka_cluster.create_topic(topic, partitions=PARTITIONS)"
    # The cluster is shared with other tests, and a client that hangs is a member of its group for ever.
    if program.role is Role.COPIER:
        yield '    copies = f"{topic}-copies"'
        yield "    kafka_cluster.create_topic(copies, partitions=PARTITIONS)"
        yield f"    reading = {{**SETTINGS, {_own(library, 'client.id', 'group.id')}}}"
        yield f"    writing = {{**PRODUCING, {_own(library, 'client.id', 'transactional.id')}}}"
        yield "    client = Copier(kafka_cluster, topic, reading, copies, writing)"
    else:
        names = ["client.id", *(["group.id"] if program.role is Role.CONSUMER else [])]
        names += ["transactional.id"] if program.is_transactional else []
        yield f"    client = Client(kafka_cluster, topic, {{**SETTINGS, {_own(library, *names)}}})"
    if program.prefilled:
        yield f"    client.others_write({program.prefilled})"
    yield from _faulty(disturbance)
    if kind is Kind.HUNG:
        yield "        program = threading.Thread(target=carry_out, args=(client,), daemon=True)"
        yield "        program.start()"
        yield "        program.join(LIMIT_S)"
        yield '        assert not program.is_alive(), f"a call does not return within {LIMIT_S} s"'
    else:
        yield "        carry_out(client)"
    if check := _checks(program)[kind]:
        yield f"    {check}"
    yield ""
    yield ""
    if kind is Kind.HUNG:
        waits_ms = sum(move.count for move in program.moves if move.do is Do.WAIT)
        yield f"LIMIT_S = {FLUSH_S + PATIENCE_S + waits_ms // 1_000:g}"
        yield ""
        yield ""
    yield "def carry_out(client):"
    yield "    client.start()"
    for text, times in _runs(program):
        if times > 1:
            yield f"    for _ in range({times}):"
        yield f"{'        ' if times > 1 else '    '}{text}"
    yield from _end(program)
    if _is_until_healed(disturbance):
        yield from _template("finding_healing").rstrip().splitlines()


def _own(library: _Library, *names: str) -> str:
    return ", ".join(f'"{library.names(name)}": topic' for name in names)


def _faulty(disturbance: Disturbance | None) -> Iterator[str]:
    if disturbance is None:
        yield "    if True:  # no fault is needed"
        return
    kind, attributes = toxic_of(disturbance)
    given = ", ".join(f"{name}={_literal(value)}" for name, value in attributes.items())
    yield f"    # {disturbance}"
    yield f'    fault = chaos.inject("{kind}", "client->all", {given}, client_id=topic)'
    healing = f"healing(fault, {disturbance.heal_after_ms / 1_000:g})" if _is_until_healed(disturbance) else "fault"
    yield f"    with {healing}:"


def _runs(program: Program) -> Iterator[tuple[str, int]]:
    """Each call, and how often it follows itself."""
    before, times = "", 0
    for move in program.moves:
        text = _CALLS[move.do](move)
        if text == before:
            times += 1
            continue
        if times:
            yield before, times
        before, times = text, 1
    if times:
        yield before, times


def _end(program: Program) -> Iterator[str]:
    """What every application does at last, as the search does it."""
    if program.moves and program.moves[-1].do is Do.CLOSE:
        return
    if program.role is Role.CONSUMER and any(move.do in (Do.SUBSCRIBE, Do.ASSIGN) for move in program.moves):
        if any(move.do is Do.PAUSE for move in program.moves):
            yield "    for partition in list(client.least):"
            yield "        client.resume(partition)"
        yield "    client.read()"
        if program.properties.get("enable.auto.commit") == "false":
            yield "    client.commit()"
    if program.role is Role.COPIER and any(move.do is Do.SUBSCRIBE for move in program.moves):
        yield "    client.copy_rest()"
    yield "    client.close()"


# --- a scenario -------------------------------------------------------------------------------------------------------

_DAMAGE: Final = {Kind.LOST: "loss", Kind.DUPLICATED: "duplication", Kind.REORDERED: "reordering"}


def scenario_of(finding: Exported) -> str | None:
    """None for what the language of scenarios cannot say: consumers' moves, transactions, several topics, no
    disturbance, and two of them."""
    trial, kind = finding.trial, finding.suspicion.kind
    program, disturbance = trial.program, trial.disturbance
    is_of_producer = program.role is Role.PRODUCER and not program.is_transactional and program.topics == 1
    if kind not in _DAMAGE or disturbance is None or trial.then is not None or not is_of_producer:
        return None
    toxic, attributes = toxic_of(disturbance)
    count = disturbance.count or 1_000_000
    given = {**attributes, "count": count, "skip": disturbance.skip}
    healed_ms = disturbance.heal_after_ms
    properties = {name: value for name, value in program.properties.items() if finding.takes("producer", name)}
    lines = [
        f"# {finding.again}",
        "# A load takes the place of the search's moves, so another number of requests may pass before the fault:",
        f"#   harness chaos {SCENARIO} --client CLIENT",
        f"name: finding-{finding.number}",
        f"title: {json.dumps(f'{disturbance.api}: {disturbance.how}')}",
        f"damage: {_DAMAGE[kind]}",
        "source: harness explore",
        f"description: {json.dumps(f'{kind}: {_one_line(finding.suspicion.what)}')}",
        f"topic: {{partitions: {program.partitions}, replication_factor: 3, "
        f"config: {json.dumps({**program.topic, 'min.insync.replicas': 2})}}}",
        f"properties: {json.dumps(properties)}",
        "workload: {rate_per_s: 500, record_size_bytes: 100, producers: 1, warmup_ms: 1000, measure_ms: 8000, "
        "drain_ms: 30000}",
        "timeline:",
        f"  - {{id: fault, at: 2s, fault: {toxic}, target: client->all, for: {healed_ms}ms,",
        f"     with: {json.dumps(given)}}}",
        "cases:",
        "  found:",
        f"    title: {json.dumps(str(disturbance))}",
        "    because: The client keeps these settings' promise whatever one request is answered.",
    ]
    return "\n".join(lines) + "\n"


# --- the client protocol ----------------------------------------------------------------------------------------------


def commands_of(finding: Exported) -> str | None:
    """Comments begin with #. `BOOTSTRAP` and `TOPIC` stand for what they are on the cluster of a trial."""
    trial = finding.trial
    lines = [f"# {finding.again}"]
    if trial.disturbances:
        lines.append(f"# Disturbed: {trial.disturbed}")
    if trial.then is not None:
        lines.append("# There is no test and no scenario of it: neither can place a fault right after another one.")
    if trial.program.topic:
        lines.append(f"# TOPIC has the settings {json.dumps(dict(trial.program.topic))}")
    if trial.program.prefilled:
        beside = f" and {_topics_of(trial.program).names[1]}" if trial.program.topics > 1 else ""
        over = f"{trial.program.partitions} partitions{' each' if beside else ''}"
        lines.append(f"# TOPIC{beside}: {trial.program.prefilled} records over {over}")
    number = 0
    for command in _commands(finding):
        if isinstance(command, str):
            lines.append(f"# {command}")
            continue
        number += 1
        lines.append(json.dumps({"do": command.pop("do"), "id": number, **command}))
    return "\n".join(lines) + "\n"


def _topics_of(program: Program) -> Topics:
    return Topics.of_trial("TOPIC", program.topics, program.partitions)


def _commands(finding: Exported) -> Iterator[dict[str, Any] | str]:
    program = finding.trial.program
    connect = _connect(finding)
    yield dict(connect)
    seq, sent = 0, 0
    topics = _topics_of(program)
    for move in program.moves:
        topic, partition = topics.place(move.partition) if move.partition >= 0 else ("TOPIC", -1)
        place = {"topic": topic, "partition": partition}
        match move.do:
            case Do.SEND:
                yield f"{move.count} records of {move.size_bytes} bytes, from sequence {seq} on"
                sent += 1
                to = topic if partition >= 0 else topics.names[sent % len(topics.names)]
                chosen = {"partition": partition} if partition >= 0 else {}
                callers = {"callers": move.callers} if move.callers > 1 else {}
                records = [{"seq": seq, "value": "...", **chosen}]
                yield {"do": "produce", "topic": to, **callers, "records": records}
                seq += move.count
            case Do.SUBSCRIBE:
                names = topics.names if move.topic < 0 else (topics.names[move.topic],)
                yield {"do": "subscribe", "topics": list(names)}
            case Do.ASSIGN:
                parts = [
                    {"topic": name, "partition": part, "offset": EARLIEST}
                    for name, part in map(topics.place, range(topics.count))
                ]
                yield {"do": "assign", "partitions": parts}
            case Do.POLL | Do.GLANCE:
                timeout_s = POLL_S if move.do is Do.POLL else GLANCE_S
                yield {"do": "poll", "timeout_ms": int(timeout_s * 1_000), "max_records": move.count or 500}
            case Do.READ | Do.READ_SHORT | Do.READ_NOW:
                yield f"until {move.count or 'all'} records have come:"
                timeout_s = {Do.READ_SHORT: GLANCE_S, Do.READ_NOW: 0.0}.get(move.do, POLL_S)
                yield {"do": "poll", "timeout_ms": int(timeout_s * 1_000), "max_records": 500}
            case Do.COMMIT:
                yield "behind the last record of each partition that was polled:"
                yield {"do": "commit", "partitions": []}
            case Do.SEEK:
                back = "to the beginning" if move.count < 0 else f"back by {move.count}"
                yield f"partition {move.partition} {back}:"
                yield {"do": "seek", "partitions": [place]}
            case Do.PAUSE | Do.RESUME:
                yield {"do": str(move.do), "partitions": [place]}
            case Do.RESTART:
                yield {"do": "close"}
                yield dict(connect)
            case Do.FLUSH | Do.BEGIN | Do.CLOSE:
                yield {"do": str(move.do)}
            case Do.COPY:
                yield f"until {move.count or 'all'} records have come, which are sent to the topic COPIES:"
                yield {"do": "poll", "timeout_ms": int(POLL_S * 1_000), "max_records": 500}
                yield {"do": "produce", "topic": "COPIES", "records": [{"seq": seq, "value": "..."}]}
                seq += move.count
            case Do.SEND_OFFSETS:
                yield "behind the last record of each partition that was copied:"
                yield {"do": "send-offsets", "partitions": []}
            case Do.COMMIT_TRANSACTION | Do.ABORT_TRANSACTION:
                yield {"do": str(move.do).replace(" ", "-")}
            case _:  # others write, waiting, a kill, and what the cluster does
                yield f"meanwhile: {move}"
    yield "at last: what is unread is read, what has no outcome is flushed"
    yield {"do": "close"}


def _connect(finding: Exported) -> dict[str, Any]:
    program = finding.trial.program
    wanted = {"bootstrap.servers": "BOOTSTRAP", "client.id": _CLIENT_ID, **program.properties}
    if program.role is not Role.PRODUCER:
        wanted["group.id"] = f"{_CLIENT_ID}-group"
    if program.is_transactional:
        wanted["transactional.id"] = f"{_CLIENT_ID}-id"
    sides = ("consumer", "producer") if program.role is Role.COPIER else (str(program.role),)
    properties = {name: value for name, value in wanted.items() if any(finding.takes(side, name) for side in sides)}
    one_by_one = {"one_by_one": True} if program.is_one_by_one else {}
    return {"do": "connect", "role": str(program.role), "properties": properties, **one_by_one}
