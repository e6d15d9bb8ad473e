"""mypy knows the fields of each message: the stubs are what kio's schemas say, and a misspelling fails the check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker.wire.apis import ApiKey
from broker.wire.messages import field_or, request
from broker.wire.shape_writer import DIRECTORY, stubs

ROOT = Path(__file__).parents[2]
BY_HAND = {"kinds.pyi"}

# Each line with the comment "wrong" must be refused, with that text in the message, and no other line.
USES = """
from typing import TYPE_CHECKING, Any

from broker.node.handlers import api_19_create_topics, api_20_delete_topics
from broker.node.handlers.rows import Row
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request, response, to_ms

if TYPE_CHECKING:
    from broker.node.cluster.links import Links
    from broker.wire.shapes import fetch as shapes
    from broker.wire.shapes.metadata import MetadataRequest

Row(controller=api_19_create_topics.CONTROLLER, forward=api_19_create_topics.FORWARD)
Row(controller=api_19_create_topics.CONTROLLER, forward=api_20_delete_topics.FORWARD)  # wrong: parameter "Asked"


def handle(asked: AnyRequest[shapes.FetchRequest]) -> None:
    message = asked.message
    limit: int = message.max_bytes
    limit = message.max_byte  # wrong: "FetchRequest" has no attribute "max_byte"
    text: str = message.min_bytes  # wrong: Incompatible types in assignment
    for topic in message.topics:
        print(topic.topic_id, [each.fetch_offset + 1 for each in topic.partitions])
        print([each.offset for each in topic.partitions])  # wrong: "FetchPartition" has no attribute "offset"
    session: int = field_or(message, "session_id", -1)
    session = field_or(message, "sesion_id", -1)  # wrong: No overload variant of "field_or"
    session = field_or(message, "rack_id", "")  # wrong: No overload variant of "field_or"
    message.min_bytes = 1  # wrong: Property "min_bytes" defined in "FetchRequest" is read-only
    asked.respond(response(ApiKey.FETCH, 17, error_code=ErrorCode.none, responses=[_topic()]))
    asked.respond(response(ApiKey.FETCH, 17, eror_code=ErrorCode.none))  # wrong: No overload variant of "response"
    asked.respond(response(ApiKey.FETCH, 17, error_code="none"))  # wrong: No overload variant of "response"
    asked.respond(response(ApiKey.PRODUCE, 13, responses=[]))  # wrong: "ProduceResponse"


def _topic() -> shapes.FetchableTopicResponseFields:
    partition: shapes.PartitionDataFields = {"partition_index": 0, "records": b""}
    partition["high_watermark"] = 7
    partition["high_watermrk"] = 7  # wrong: has no key "high_watermrk"
    partition["high_watermark"] = "7"  # wrong: has incompatible type "str"
    if limit_of(partition):
        return {"topc": "t"}  # wrong: Extra key "topc"
    return {"topic": "t", "partitions": [partition]}


def limit_of(partition: shapes.PartitionDataFields) -> int:
    return partition["high_watermark"]


async def ask(links: Links) -> None:
    message: MetadataRequest = request(ApiKey.METADATA, 12, topics=[{"name": "t"}])
    answer = await links.call(1, ApiKey.METADATA, 12, message, timeout_ms=1)
    print(answer.topics[0].partitions[0].leader_id, to_ms(answer.throttle_time))
    print(answer.responses)  # wrong: "MetadataResponse" has no attribute "responses"
"""


@pytest.mark.thorough
def test_the_stubs_are_what_the_schemas_say() -> None:
    written = {path.name: path.read_text() for path in DIRECTORY.glob("*.pyi") if path.name not in BY_HAND}
    assert stubs() == written, "run: python -m broker.wire.shape_writer"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.thorough
def test_a_misspelt_or_wrongly_typed_field_fails_the_check(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text("from __future__ import annotations\n" + USES)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--hide-error-context"]
    found = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent", str(tmp_path / "uses.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        check=False,
    )
    errors: dict[int, str] = {}
    for line in found.stdout.splitlines():
        at = re.match(r".*uses\.py:(\d+): error: (.*)", line)
        if at is not None:
            errors[int(at[1])] = errors.get(int(at[1]), "") + at[2]
    wrong = {
        number: line.partition("# wrong: ")[2]
        for number, line in enumerate((tmp_path / "uses.py").read_text().splitlines(), start=1)
        if "# wrong: " in line
    }
    assert errors.keys() == wrong.keys(), found.stdout + found.stderr
    assert [errors[line] for line, text in wrong.items() if text not in errors[line]] == []


def test_a_field_that_a_version_lacks_has_the_given_default() -> None:
    old, new = (request(ApiKey.FETCH, version, session_id=5) for version in (6, 7))
    assert (field_or(old, "session_id", -1), field_or(new, "session_id", -1)) == (-1, 5)
