"""Frames for a client that speaks lines: `framed_client.py WRONG COMMAND...`. It stands between the harness and the
client, makes lines of frames of records, and frames of outcomes in lines.

WRONG is "nothing", or what it does wrong with outcomes in frames: see `framed`.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import threading
from typing import IO, Any

ROW = struct.Struct("<qiiii")
FATES = {"acknowledged": 0, "failed": 1, "unknown": 2}


def produce_lines(contents: bytes, count: int, topics: list[str]) -> bytes:
    """A command for each record: those of a line have one topic."""
    rows = list(ROW.iter_unpack(contents[: count * ROW.size]))
    key_at = count * ROW.size
    value_at = key_at + sum(max(0, key) for _, _, _, key, _ in rows)
    lines = []
    for seq, topic, partition, key, value in rows:
        record: dict[str, Any] = {"seq": seq, "key": None, "value": None}
        if key >= 0:
            record["key"] = base64.b64encode(contents[key_at : key_at + key]).decode()
        if value >= 0:
            record["value"] = base64.b64encode(contents[value_at : value_at + value]).decode()
        if partition >= 0:
            record["partition"] = partition
        key_at, value_at = key_at + max(0, key), value_at + max(0, value)
        lines.append(json.dumps({"do": "produce", "id": -seq, "topic": topics[topic], "records": [record]}))
    return "\n".join([*lines, ""]).encode()


def framed(event: dict[str, Any], wrong: str) -> bytes:
    (record,) = event["records"]
    fate = FATES[event["event"]]
    if wrong == "failed" and fate == FATES["unknown"]:
        fate = FATES["failed"]
    times, offset = (record["sent_us"], event["at_us"]), record.get("offset", -1)
    partition, code = record.get("partition", -1), event.get("code", 0)
    row = struct.pack("<qqqqqihh", record["seq"], *times, offset, -1, partition, code, fate)
    return struct.pack("<iiq", 2, 1, len(row)) + row


def pass_events(client: IO[bytes], wrong: str, seqs: set[int]) -> None:
    for line in client:
        event = json.loads(line)
        told = line
        if event["event"] == "ready":
            told = json.dumps({**event, "can": [*event["can"], "frames"]}).encode() + b"\n"
        elif event["event"] in FATES and event["records"][0]["seq"] in seqs:
            told = framed(event, wrong)
        sys.stdout.buffer.write(told)
        sys.stdout.buffer.flush()


def main(wrong: str, command: list[str]) -> int:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        seqs: set[int] = set()
        threading.Thread(target=pass_events, args=[client.stdout, wrong, seqs]).start()
        read, topics = sys.stdin.buffer, []
        while first := read.read(1):
            if first == b"{":
                line = first + read.readline()
                topics = json.loads(line).get("topics", topics)
            else:
                _, count, size = struct.unpack("<iiq", first + read.read(15))
                contents = read.read(size)
                seqs.update(row[0] for row in ROW.iter_unpack(contents[: count * ROW.size]))
                line = produce_lines(contents, count, topics)
            client.stdin.write(line)
            client.stdin.flush()
        client.stdin.close()
    return client.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
