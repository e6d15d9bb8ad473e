"""The API table: what is offered where, and version choice."""

from __future__ import annotations

import pytest
from kio.schema.index import api_key_map, schema_name_map

from broker.wire.apis import APIS, ApiKey, Listener, advertised, is_supported, negotiate


def test_every_served_version_exists_in_kio() -> None:
    for api in APIS.values():
        known = set(schema_name_map[api_key_map[int(api.key)]])
        assert set(range(api.min_version, api.max_version + 1)) <= known


def test_produce_is_advertised_from_0_but_served_from_3() -> None:
    assert (0, 0, 13) in advertised(Listener.CLIENT)
    assert not is_supported(ApiKey.PRODUCE, 2)
    assert is_supported(ApiKey.PRODUCE, 3)


def test_listeners_offer_only_their_apis() -> None:
    offered = {listener: {key for key, _, _ in advertised(listener)} for listener in Listener}
    assert ApiKey.VOTE in offered[Listener.CONTROLLER]
    assert ApiKey.VOTE not in offered[Listener.CLIENT]
    assert ApiKey.PRODUCE not in offered[Listener.CONTROLLER]
    assert all(ApiKey.FETCH in keys and ApiKey.API_VERSIONS in keys for keys in offered.values())
    assert not is_supported(ApiKey.VOTE, 2, Listener.CLIENT)
    assert is_supported(ApiKey.VOTE, 2, Listener.CONTROLLER)
    assert not is_supported(ApiKey.VOTE, 1, Listener.CONTROLLER), "all voters send one version"


def test_unknown_key_is_not_supported() -> None:
    assert not is_supported(999, 0)


@pytest.mark.parametrize(
    ("offered", "expected"),
    [({0: (0, 7)}, 7), ({0: (0, 99)}, 13), ({0: (0, 2)}, None), ({0: (14, 20)}, None), ({1: (0, 9)}, None)],
)
def test_negotiation_takes_the_highest_common_version(
    offered: dict[int, tuple[int, int]], expected: int | None
) -> None:
    assert negotiate(ApiKey.PRODUCE, offered) == expected


def test_negotiation_can_be_capped() -> None:
    assert negotiate(ApiKey.FETCH, {1: (4, 17)}, highest=12) == 12
