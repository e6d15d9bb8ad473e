"""Every broker can use what the controller accepts as a setting. If the metadata log had a value that brokers cannot
parse, it would end all of them, at each start again."""

from __future__ import annotations

import pytest

from broker.controller.broker_configs import DYNAMIC_BROKER_CONFIGS, broker_config_problem
from broker.controller.topic_configs import TOPIC_SETTINGS, topic_config_problem
from broker.node.settings.config import config_of
from broker.node.settings.properties import with_dynamic
from broker.node.settings.topic_config import parse_topic_config, topic_defaults
from broker.node.settings.values import Address

_WORDS = ("", " ", ",", "*", "1:2", "true", "TRUE", "false", "delete", "compact", "delete,compact", " delete ", "nan")
_NAMES = ("inf", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "LogAppendTime", "CreateTime")
_NUMBERS = (
    *map(str, (-131072, -2, -1, 0, 1, 2, 4, 9, 17, 22, 1024, 1 << 20, 2**31 - 1, 2**31, 2**63 - 1, 2**63)),
    *("9" * 4_000, "9" * 5_000, "1_000", " 7 ", "+5", "-0", "0.5", "-0.0", "1e0", "1e-320", "\N{FULLWIDTH DIGIT ONE}"),
)
_VALUES = (*_WORDS, *_NAMES, *_NUMBERS)
_NODE = config_of(
    node_id=1,
    log_dirs=None,  # type: ignore[arg-type]  # not looked at
    listeners={},
    advertised_listeners={},
    controller_quorum_voters={1: Address(host="127.0.0.1", port=1)},
)


@pytest.mark.parametrize("name", sorted(TOPIC_SETTINGS))
def test_every_accepted_topic_setting_can_be_used(name: str) -> None:
    accepted = [value for value in _VALUES if topic_config_problem(name, value) is None]
    assert accepted or TOPIC_SETTINGS[name].default
    for value in accepted:
        parse_topic_config({**topic_defaults(_NODE.topics), name: value})


@pytest.mark.parametrize("name", sorted(DYNAMIC_BROKER_CONFIGS))
def test_every_accepted_dynamic_broker_setting_can_be_used(name: str) -> None:
    for value in _VALUES:
        if broker_config_problem(name, value, ()) is None:
            changed = with_dynamic(_NODE, {name: value})
            parse_topic_config(topic_defaults(changed.topics))
