"""docs/reference/protocol.md is what the code says, and no API of Kafka is forgotten; docs/internals/inside.md points
at what exists."""

from __future__ import annotations

import re
from pathlib import Path

from broker.node.api_table import api_table
from broker.node.features.table import FEATURES
from broker.node.protocol_page import NOT_IMPLEMENTED, PAGE, kafka_apis, page
from broker.wire.apis import APIS, Listener

TABLE = api_table(FEATURES).rows
DOCS = Path(__file__).parents[2] / "docs" / "internals"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run: python -m broker.node.protocol_page"


def test_every_api_of_kafka_is_implemented_or_has_a_reason() -> None:
    named = [name for names in NOT_IMPLEMENTED.values() for name in names.split()]
    assert len(named) == len(set(named))
    missing = {api.name for key, api in kafka_apis().items() if key not in APIS}
    assert missing == set(named)


def test_no_version_is_offered_to_clients_that_kafka_does_not_have() -> None:
    theirs = kafka_apis()
    for key, api in APIS.items():
        if Listener.CLIENT in api.listeners:
            assert theirs[key].name == key.name
            assert theirs[key].min_version <= api.min_version <= api.max_version <= theirs[key].max_version, key.name


def test_every_handler_says_what_it_leaves_out() -> None:
    for key, row in TABLE.items():
        head = (__import__(row.module, fromlist=["_"]).__doc__ or "").split("\n\n")[0]
        assert f"key {int(key)})" in head, f"{row.module}: the docstring names the key and the versions"


def test_what_a_handler_leaves_out_is_not_on_the_page_as_what_it_does() -> None:
    for line in PAGE.read_text().splitlines():
        remarks = line.rstrip(" |").rpartition("| ")[2]
        assert remarks.count("(") == remarks.count(")"), f"a piece of a docstring: {line}"
    for key, row in TABLE.items():
        doc = " ".join((__import__(row.module, fromlist=["_"]).__doc__ or "").split())
        left_out = doc.partition("Not done: ")[2]
        assert left_out in PAGE.read_text()
        if left_out:
            assert f"Not done: {left_out}" in PAGE.read_text(), int(key)


def test_links_of_inside_lead_to_files_and_names_stand_in_them() -> None:
    text = (DOCS / "inside.md").read_text()
    linked = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(linked) > 60
    assert [link for link in linked if not (DOCS / link).exists()] == []
    for line in text.splitlines():
        if not line.startswith("| ") or line.count("|") != 4:
            continue
        _, _, where, names, _ = line.split("|")
        sources = [(DOCS / link).read_text() for link in re.findall(r"\]\(([^)#]+)\)", where)]
        for name in re.findall(r"`([^`]+)`", names):
            assert any(re.search(rf"\b{name}\b", source) for source in sources), f"{name} is not in {where.strip()}"
