"""Three clients try a few features of the table, and the table is what the code would write now.

The whole table, with clients of other languages, is `make compatibility`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compatibility import page
from tests.compatibility.clients import CLIENTS
from tests.compatibility.features import SECTIONS
from tests.compatibility.trial import try_client
from tests.compatibility.world import World

IN_PROCESS = ("confluent-kafka", "aiokafka", "kafka-python")
SAMPLE = (
    "produce and consume, zstd",
    "headers, also of one name twice",
    "error: record too large",
    "fencing of an older producer",
    "commit, and go on from it",
    "errors of topics",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("compatibility")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", IN_PROCESS)
def test_client_passes_a_sample_of_the_table(world: World, name: str) -> None:
    (kind,) = [kind for kind in CLIENTS if kind.name == name]
    features = [each for section in SECTIONS.values() for each in section if each.name in SAMPLE]
    assert len(features) == len(SAMPLE)
    trial = try_client(kind, world, features)
    assert {cell.feature: cell.reason for cell in trial.cells if cell.state != "passed"} == {}


def test_the_table_is_what_its_data_render_to_and_knows_every_client_and_feature() -> None:
    known = page.load()
    assert page.PAGE.read_text() == page.render(known), "run `make compatibility`"
    features = [each.name for section in SECTIONS.values() for each in section]
    assert len(features) == len(set(features))
    assert list(known) == sorted(kind.name for kind in CLIENTS)
    for name, trial in known.items():
        assert {cell.feature for cell in trial.cells} <= set(features), name


def test_no_cell_of_the_table_failed_without_being_explained() -> None:
    """A failure stays in the table only as long as nobody knows whose it is: none is merged."""
    failed = [
        f"{trial.client}: {cell.feature}: {cell.reason}"
        for trial in page.load().values()
        for cell in trial.cells
        if cell.state == "failed" or (cell.state != "passed" and not cell.reason)
    ]
    assert failed == []
