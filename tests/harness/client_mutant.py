"""A client between the harness and a right client, wrong in one way: `client_mutant.py MUTANT COMMAND...`.

Each line of either direction passes through it. MUTANTS says what each one does, and which rule has to name it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Line = dict[str, Any]
Change = Callable[[Line], list[Line]]


def of_event(kind: str, change: Callable[[Line], list[Line]]) -> Change:
    return lambda line: change(line) if line["event"] == kind else [line]


def able(*words: str) -> Callable[[Line], list[Line]]:
    return lambda line: [{**line, "can": [*line["can"], *words]}]


def answered_at_once(do: str, event: str) -> Change:
    """The command never reaches the client."""

    def change(command: Line) -> list[Line]:
        if command["do"] != do:
            return [command]
        write({"event": event, "id": command["id"], "at_us": now_us(), "partitions": command["partitions"]})
        return []

    return change


def several_at_once(command: Line) -> list[Line]:
    return [{name: value for name, value in command.items() if name != "one_by_one"}]


def acknowledged_by_itself(command: Line) -> list[Line]:
    if command["do"] != "produce":
        return [command]
    at_us = now_us()
    records = [
        {"seq": each["seq"], "sent_us": at_us, "partition": 0, "offset": each["seq"]} for each in command["records"]
    ]
    write({"event": "acknowledged", "at_us": at_us, "records": records})
    return []


def now_us() -> int:
    return time.monotonic_ns() // 1_000


def write(*lines: Line | str) -> None:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    sys.stdout.write(text)
    sys.stdout.flush()


# name -> what it does to events, what it does to commands
MUTANTS: dict[str, tuple[Change | None, Change | None]] = {
    "second outcome": (of_event("acknowledged", lambda line: [line, line]), None),
    "acknowledges by itself": (None, acknowledged_by_itself),
    "a word too many": (of_event("ready", able("share")), None),
    "pause without effect": (None, answered_at_once("pause", "done")),
    "seek without effect": (None, answered_at_once("seek", "done")),
    "several one by one": (None, several_at_once),
    "commit without effect": (None, answered_at_once("commit", "committed")),
    "hang": (None, lambda command: [] if command["do"] == "flush" else [command]),
    "exit code": (None, None),
}


def main(name: str, command: list[str]) -> int:
    to_events, to_commands = MUTANTS[name]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert client.stdin is not None
    assert client.stdout is not None

    def pass_events() -> None:
        for line in client.stdout or ():
            write(*(to_events(json.loads(line)) if to_events else [line.rstrip("\n")]))
        if client.wait():
            os._exit(client.returncode)  # the main thread waits for commands

    thread = threading.Thread(target=pass_events)
    thread.start()
    for line in sys.stdin:
        for passed in to_commands(json.loads(line)) if to_commands else [json.loads(line)]:
            client.stdin.write(json.dumps(passed) + "\n")
            client.stdin.flush()
    client.stdin.close()
    thread.join()
    code = client.wait()
    return 7 if name == "exit code" else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
