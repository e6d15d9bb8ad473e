"""A broker without the row of share groups serves everything else, as if there were no such feature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from sized_broker import SizedBroker

from broker.node.broker import Broker
from broker.node.features.share_groups.coordinator import TOPIC as SHARE_STATES
from broker.node.features.share_groups.feature import SHARE_GROUPS
from broker.node.features.share_groups.states.records import StateKey
from broker.sim.seed_run import virtual_clocks
from broker.wire.apis import APIS, ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

KEY = str(StateKey(group_id="g", topic_id=UUID(int=1), partition=0))


@pytest.fixture(params=[(SHARE_GROUPS,), ()], ids=["with share groups", "without"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SizedBroker]:
    """A broker with a consumer group, and, if that is a feature, with a share group. Each has one member."""
    defaults: Any = Broker.__init__.__kwdefaults__
    monkeypatch.setitem(defaults, "features", request.param)
    with virtual_clocks():
        made = SizedBroker(1)
        yield made
        made.dispose()


def ask(broker: SizedBroker, key: ApiKey, **values: object) -> Any:
    version = APIS[key].max_version
    return broker.ask(key, version, request(key, version, **values))


def test_a_row_in_the_table_switches_a_feature_on(broker: SizedBroker) -> None:
    node = broker._life.broker
    assert node is not None
    has_shares = bool(node._coordination.features)
    asked = ask(broker, ApiKey.API_VERSIONS, client_software_name="x", client_software_version="1")
    named = {each.api_key for each in asked.api_keys}
    of_clients = {key for key, api in APIS.items() if Listener.CLIENT in api.listeners}
    assert named == (of_clients if has_shares else of_clients - set(SHARE_GROUPS.apis))

    listed = ask(broker, ApiKey.LIST_GROUPS, states_filter=[], types_filter=[])
    found = {each.group_id: each.group_type for each in listed.groups}
    assert found == {"classic": "classic", "group-0": "classic", "consumer": "consumer"} | (
        {"share": "share"} if has_shares else {}
    )

    described = ask(broker, ApiKey.SHARE_GROUP_DESCRIBE, group_ids=["share"], include_authorized_operations=False)
    assert (described is None) is not has_shares, "a request that no row serves closes the connection"

    (coordinator,) = ask(broker, ApiKey.FIND_COORDINATOR, key_type=2, coordinator_keys=[KEY]).coordinators
    assert (coordinator.error_code is ErrorCode.invalid_request) is not has_shares
    (made,) = ask(
        broker,
        ApiKey.CREATE_TOPICS,
        topics=[{"name": SHARE_STATES, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
        timeout=30_000,
        validate_only=False,
    ).topics
    assert made.error_code is (ErrorCode.topic_already_exists if has_shares else ErrorCode.none)
    (told,) = ask(
        broker,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        topics=[{"name": SHARE_STATES}],
        response_partition_limit=1,
        cursor=None,
    ).topics
    assert told.is_internal is has_shares

    (deleted,) = ask(broker, ApiKey.DELETE_GROUPS, groups_names=["share"]).results
    assert deleted.error_code is (ErrorCode.non_empty_group if has_shares else ErrorCode.group_id_not_found)
