"""A client of the client protocol that copies in transactions, with the brokers in the same process: `python
copier_client.py STATE MUTANT`.

Its input is a file of one partition, its group has one member, and a transaction is a list. So what a mutant does wrong
is wrong each time, and nothing else is. After each command it writes to STATE what brokers would have: the output with
what became of each record, and the group's offset. tests/harness/test_harness_explore_copying.py runs it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

RECORDS = 30
LOST_ANSWER, NOT_DONE = "an answer is lost", "a commit is not done"
TOLD_LATE = "a record is told after its partition was taken away"


class World:
    def __init__(self, state: Path, mutant: str) -> None:
        self.state, self.mutant = state, mutant
        # A client that was killed or restarted as a process finds what the brokers have.
        told = json.loads(state.read_text()) if state.exists() else {"output": [], "offset": 0, "commits": 0}
        self.output: list[list[object]] = told["output"]
        self.offset: int = told["offset"]
        self.commits: int = told["commits"]
        self.position = 0
        self.open: list[str] | None = None
        self.pending: int | None = None
        self.held: list[str] = []
        self.given_up: list[str] = []
        self.polls = 0

    def save(self) -> None:
        document = {"output": self.output, "offset": self.offset, "commits": self.commits}
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps(document))
        new.replace(self.state)  # A test reads it meanwhile.

    def end(self, *, is_commit: bool) -> None:
        for value in self.open or ():
            self.output.append([value, is_commit])
        if is_commit and self.pending is not None:
            self.offset = self.pending
        self.open = self.pending = None

    def do(self, command: dict[str, object]) -> dict[str, object] | None:
        match command["do"]:
            case "connect":
                self.end(is_commit=False)
                self.held, self.given_up = [], []
            case "subscribe":
                self.position = self.offset
                say(event="assigned", partitions=[{"topic": "t", "partition": 0}])
            case "poll":
                return self.poll(int(str(command["max_records"])))
            case "seek":
                (place,) = command["partitions"]  # type: ignore[misc]
                if self.mutant != "does not seek back":
                    self.position = place["offset"]  # type: ignore[index]
            case "begin":
                self.open = []
                if self.mutant == "copies again what was given up":
                    self.open, self.given_up = self.given_up, []
                if self.mutant == "sends offsets before the records are in":
                    self.open, self.held = self.held, []
            case "produce":
                self.produce([record["value"] for record in command["records"]], command)  # type: ignore[attr-defined]
                return None
            case "send-offsets":
                (place,) = command["partitions"]  # type: ignore[misc]
                self.pending = place["offset"]  # type: ignore[index]
                if self.mutant == "commits offsets outside of the transaction":
                    self.offset = self.pending
            case "commit-transaction":
                return self.commit()
            case "abort-transaction":
                self.given_up = list(self.open or ())
                self.end(is_commit=False)
            case "close":
                if self.open is not None:
                    self.end(is_commit=False)
            case _:
                pass
        return {"event": "done"}

    def poll(self, most: int) -> dict[str, object]:
        self.polls += 1
        if self.mutant == TOLD_LATE and self.polls == 4:
            say(event="assigned", partitions=[{"topic": "t", "partition": 0}])
            self.position = self.offset
        places = range(self.position, min(RECORDS, self.position + min(most, 7)))
        self.position = max(self.position, places.stop)
        if not places:
            time.sleep(0.02)
        if self.mutant == TOLD_LATE and self.polls == 3:
            say(event="revoked", partitions=[{"topic": "t", "partition": 0}])
        record = {"topic": "t", "partition": 0, "value": "eA==", "timestamp_ms": 0}
        return {"event": "polled", "records": [{**record, "offset": offset} for offset in places]}

    def produce(self, values: list[str], command: dict[str, object]) -> None:
        assert self.open is not None, "records outside of a transaction"
        (self.held if self.mutant == "sends offsets before the records are in" else self.open).extend(values)
        seqs = [record["seq"] for record in command["records"]]  # type: ignore[attr-defined]
        at_us = now_us()
        records = [{"seq": seq, "sent_us": at_us, "partition": 0, "offset": -1} for seq in seqs]
        say(event="acknowledged", records=records)

    def commit(self) -> dict[str, object]:
        self.commits += 1
        is_met = self.commits == 2
        if is_met and self.mutant == NOT_DONE:
            return {"event": "error", "code": 7, "reason": "nobody answers"}
        self.end(is_commit=True)
        if is_met and self.mutant == LOST_ANSWER:
            return {"event": "error", "code": 7, "reason": "nobody answers"}
        return {"event": "done"}


def now_us() -> int:
    return time.monotonic_ns() // 1_000


def say(**event: object) -> None:
    print(json.dumps({"at_us": now_us(), **event}), flush=True)


def main() -> None:
    world = World(Path(sys.argv[1]), sys.argv[2])
    properties = {"producer": ["*"], "consumer": ["*"]}
    can = ["produce", "subscribe", "seek", "transactions", "send-offsets"]
    say(event="ready", protocol=1, client="copier", version="1", can=can, properties=properties)
    for line in sys.stdin:
        command = json.loads(line)
        answer = world.do(command)
        world.save()
        if answer is not None:
            say(**{**answer, "id": command["id"]})


if __name__ == "__main__":
    main()
