"""kcat as a driver: `kcat_driver.py BOOTSTRAP`, the program's path in $KCAT. Every call is a command line of its own.

A group member stays as a process (`kcat -G`); what it reads comes by lines. Values must hold no line end.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from select import select
from typing import Any

from rpc import UnsupportedError, need, serve

BOOTSTRAP, KCAT = sys.argv[1], os.environ["KCAT"]
WAIT_S = 200
producers: dict[str, list[str]] = {}
readers: dict[str, dict[str, Any]] = {}
members: dict[str, subprocess.Popen[bytes]] = {}


def run(*arguments: str, stdin: str = "") -> str:
    command = [KCAT, "-b", BOOTSTRAP, "-X", "message.max.bytes=5000000", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=WAIT_S + 10, check=False)
    if done.returncode:
        raise RuntimeError("; ".join(done.stderr.strip().splitlines()[-3:]))
    return done.stdout


def producer_open(name: str, config: dict[str, Any]) -> None:
    need("transactional_id" not in config, "kcat has no transactions")
    known = {"acks": "acks", "codec": "compression.type", "idempotence": "enable.idempotence", "linger_ms": "linger.ms"}
    given = {known[key]: str(value).lower() for key, value in config.items()}
    producers[name] = [part for key, value in given.items() for part in ("-X", f"{key}={value}")]


def send(name: str, topic: str, partition: int, records: list[dict[str, Any]]) -> list[int]:
    """One process for all records of one kind; kcat tells no offsets, so they are what the partition has grown by."""
    before = query(topic, partition, -1)
    for group in same_kind(records):
        need(all(record["timestamp"] is None for record in group), "kcat sets no timestamps")
        options = [part for key, value in group[0]["headers"] for part in ("-H", f"{key}={value}")]
        keyed = group[0]["key"] is not None
        if any(not record["value"] for record in group):
            options.append("-Z")  # an empty value is NULL, and an empty key as well
            need(
                not any(record["value"] == "" or record["key"] == "" for record in group), "kcat -Z has no empty values"
            )
        lines = [(f"{record['key']}\t" if keyed else "") + (record["value"] or "") for record in group]
        options += ["-K", "\t"] if keyed else []
        arguments = ["-P", "-t", topic, "-p", str(partition), *producers[name], *options]
        run(*arguments, stdin="".join(f"{line}\n" for line in lines))
    if "acks=0" in producers[name]:
        return [-1] * len(records)
    deadline = time.monotonic() + WAIT_S
    while (after := query(topic, partition, -1)) < before + len(records) and time.monotonic() < deadline:
        time.sleep(0.05)  # with acks=1 what is acknowledged may not be replicated yet, and the offset asked for is
    if after - before != len(records):
        raise RuntimeError(f"the partition grew by {after - before} records, not by {len(records)}")
    return list(range(before, after))


def same_kind(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = []
    last: Any = None
    for record in records:
        kind = (record["key"] is None, record["value"] is None, record["headers"])
        if kind != last:
            groups.append([])
        groups[-1].append(record)
        last = kind
    return groups


def query(topic: str, partition: int, timestamp: int) -> int:
    """kcat -Q: the offset at a time, -1 for the end and -2 for the beginning. It does not wait for a new leader."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return int(run("-Q", "-t", f"{topic}:{partition}:{timestamp}").split()[-1].rstrip("]"))
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def consumer_open(name: str, config: dict[str, Any]) -> None:
    need(config.get("protocol") != "consumer", "its librdkafka has no group.protocol")
    readers[name] = config


def assign(name: str, topic: str, partition: int, offset: int) -> None:
    readers[name].update(topic=topic, partition=partition, offset=offset)


def subscribe(name: str, topics: list[str]) -> None:
    config = readers[name]
    settings = {
        "auto.offset.reset": config["reset"],
        "enable.auto.commit": "false",
        "fetch.wait.max.ms": "100",
        "isolation.level": config.get("isolation", "read_uncommitted"),
    }
    if config.get("assignor"):
        settings["partition.assignment.strategy"] = config["assignor"]
    if "instance" in config:
        settings["group.instance.id"] = config["instance"]
        settings["session.timeout.ms"] = str(config["session_timeout_ms"])
    options = [part for key, value in settings.items() for part in ("-X", f"{key}={value}")]
    command = [KCAT, "-b", BOOTSTRAP, "-G", config["group"], *options, "-u", "-J", *topics]
    members[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    readers[name].update(assigned=[], out=b"", err=b"")


def poll(name: str, timeout_ms: int) -> dict[str, Any]:
    return _poll_member(name, timeout_ms) if name in members else _poll_assigned(name)


def _poll_assigned(name: str) -> dict[str, Any]:
    config = readers[name]
    isolation = config.get("isolation", "read_uncommitted")
    more = ["-X", f"isolation.level={isolation}", "-X", f"auto.offset.reset={config['reset']}"]
    more += ["-X", "fetch.wait.max.ms=100"]
    one = ["-t", config["topic"], "-p", str(config["partition"]), "-o", str(config["offset"])]
    records = [record(line) for line in run("-C", "-e", "-J", *one, *more).splitlines()]
    if records:
        config["offset"] = records[-1]["offset"] + 1
    return {"records": records, "assignment": [config["partition"]]}


def _poll_member(name: str, timeout_ms: int) -> dict[str, Any]:
    """Lines of the member's standard output, and of its error output, which tells of assignments."""
    process, state = members[name], readers[name]
    deadline = time.monotonic() + timeout_ms / 1000
    records: list[dict[str, Any]] = []
    while (left_s := deadline - time.monotonic()) > 0 and not records:
        ready = select([process.stdout, process.stderr], [], [], left_s)[0]
        for pipe, key in ((process.stdout, "out"), (process.stderr, "err")):
            if pipe in ready and pipe is not None:
                piece = os.read(pipe.fileno(), 1 << 16)
                if not piece:
                    raise RuntimeError(f"kcat ended with {process.wait(5)}: {state['err'].decode()[-500:]}")
                *lines, state[key] = (state[key] + piece).split(b"\n")
                for line in lines:
                    if key == "out":
                        records.append(record(line.decode()))
                    else:
                        _assignment(state, line.decode())
    return {"records": records, "assignment": state["assigned"]}


def _assignment(state: dict[str, Any], line: str) -> None:
    """`% Group g rebalanced (memberid m): assigned: t [0], t [1]` or `revoked: ..`; when it is incremental
    `% Group g rebalanced: incremental assignment of 1 partition(s) (memberid m, COOPERATIVE rebalance protocol): t [0]`
    """
    found = re.search(r"(assigned|revoked): (.*)", line) or re.search(r"incremental (\w+) of .*protocol\): (.*)", line)
    if found is None:
        return
    listed = [int(each.rpartition("[")[2].rstrip("]")) for each in found[2].split(", ") if "[" in each]
    kept = [each for each in state["assigned"] if each not in listed]
    state["assigned"] = kept + listed if found[1].startswith("assign") else kept


def record(line: str) -> dict[str, Any]:
    found = json.loads(line)
    pairs = found.get("headers") or []
    return {
        "partition": found["partition"],
        "offset": found["offset"],
        "key": found["key"],
        "value": found["payload"],
        "headers": [list(pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)],
        "timestamp": found["ts"],
        "timestamp_type": {"create": 0, "logappend": 1}.get(found["tstype"]),
    }


def offset_for_time(name: str, topic: str, partition: int, timestamp: int) -> int | None:
    found = query(topic, partition, timestamp)
    return None if found < 0 or found == query(topic, partition, -1) else found


def consumer_close(name: str) -> None:
    process = members.pop(name, None)
    readers.pop(name, None)
    if process is not None:
        process.terminate()
        process.wait(30)


def reset() -> None:
    for name in list(members):
        consumer_close(name)
    readers.clear()
    producers.clear()


def transactional(**_: object) -> None:
    raise UnsupportedError("kcat has no transactions")


def metadata(*arguments: str) -> Any:
    return json.loads(run("-L", "-J", *arguments))


serve(
    "kcat",
    {
        "producer_open": producer_open,
        "send": send,
        **dict.fromkeys(("init_transactions", "begin", "commit", "abort", "send_offsets"), transactional),
        "consumer_open": consumer_open,
        "assign": assign,
        "subscribe": subscribe,
        "poll": poll,
        "offset_for_time": offset_for_time,
        "end_offsets": lambda name, topic, partition: [query(topic, partition, -2), query(topic, partition, -1)],
        "list_offsets": lambda topic, partition: {
            "earliest": query(topic, partition, -2),
            "latest": query(topic, partition, -1),
        },
        "consumer_close": consumer_close,
        "reset": reset,
        "describe_cluster": lambda: [each["id"] for each in metadata()["brokers"]],
    },
)
