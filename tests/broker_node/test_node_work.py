"""Every API, with every array of its request long, at a broker of some size and at one of twice that size: the work of
the broker at most about doubles. It is counted (tests/work.py), so a busy host changes nothing.

A new API is among them by itself. The figures in milliseconds: docs/internals/simulation.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sized_broker import ADMIN, HALF, NEVER_MS, SizedBroker
from sized_requests import Drawing, array_paths

from broker.node.replicas import upkeep
from broker.sim.seed_run import virtual_clocks
from broker.wire.apis import APIS, ApiKey
from broker.wire.messages import request_type
from tests.amount import AMOUNT
from tests.work import Name, Work, excess

pytestmark = pytest.mark.thorough
FEW, SIZE = 4, 24  # FEW: at this size each request is sent first, because the first of its kind makes its codec
# Requests after which there is less to look at come last.
LAST = (ApiKey.DELETE_ACLS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[SizedBroker, ...]]:
    with pytest.MonkeyPatch.context() as patch, virtual_clocks():
        patch.setattr(upkeep, "TICK_MS", NEVER_MS)
        found = tuple(SizedBroker(size) for size in (FEW, SIZE, 2 * SIZE))
        yield found
        for each in found:
            each.dispose()


@pytest.mark.parametrize("key", sorted(APIS, key=lambda key: (key in LAST, key)), ids=lambda key: key.name)
def test_twice_the_size_makes_at_most_about_twice_the_work(key: ApiKey, brokers: tuple[SizedBroker, ...]) -> None:
    api, found = APIS[key], list[str]()
    for version in sorted({api.min_version, api.max_version}):
        if AMOUNT != "all" and version != api.max_version:
            continue  # what an old version has besides is in `make test-all`
        for path in ((), *array_paths(request_type(key, version))):
            for principal in (HALF, ADMIN):
                small, large = Work(), Work()
                for broker, work in zip(brokers, (None, small, large), strict=True):
                    message = Drawing(broker, key, version, path).message()
                    broker.ask(key, version, message, principal=principal, work=work)
                where = f"version {version}, {'.'.join(path) or 'no array'}, as {principal.name}"
                found += [f"{where}: {each}" for each in excess(small, large, SIZE)]
    assert not found, "\n".join(found)


def test_a_search_in_a_list_for_each_element_is_found() -> None:
    def work(size: int) -> Work:
        names = [Name(f"name-{index}") for index in range(size)]
        with Work() as found:
            assert all(name in names for name in names)
        return found

    assert "Name.__eq__" in "".join(excess(work(SIZE), work(2 * SIZE), SIZE))
