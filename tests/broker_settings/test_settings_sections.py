"""The sections of a broker's settings: each setting once, and read as before the settings had sections.

`node_settings.json` was written with the reader of that time: for each setting its default, its type, and what becomes
of each text of TEXTS that is not taken as it is. A change there is a change that users see.
`python -m tests.broker_settings.test_settings_sections` writes it anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.node.handlers.api_32_describe_configs import _DEFAULTS, _KINDS
from broker.node.settings.config import SECTIONS, SETTINGS, NodeConfig, changed, config_of
from broker.node.settings.properties import ConfigError, load_config
from broker.node.settings.sections.section import described, key_of
from broker.node.settings.sections.security import is_sensitive
from broker.node.settings.values import BY_TYPE, text_of

GOLDEN = Path(__file__).parent / "node_settings.json"
TEXTS = ("x", "-1", "0", "7", "0.5", "true", "", "User:a", "2@h:9", "zstd", "a,b", "1e30")
MINIMAL = """\
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=INTERNAL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
log.dirs=/unused
"""
# What these mean depends on other settings.
_BOUND = (
    *("group.", "node.id", "controller.", "listener", "advertised.", "inter.", "security.inter", "cordoned", "log.dir"),
    *("ssl.", "sasl.", "process.roles"),
)


def read(directory: Path, lines: str) -> NodeConfig | str:
    """The configuration, or the error from its line on."""
    path = directory / "server.properties"
    path.write_text(MINIMAL + lines)
    try:
        return load_config(path)[0]
    except ConfigError as error:
        return str(error).removeprefix(f"{path}:")


def readings(directory: Path, key: str) -> dict[str, str]:
    found = {text: read(directory, f"{key}={text}\n") for text in TEXTS}
    told = {
        text: f"error {each}".replace(key, "KEY") if isinstance(each, str) else f"value {each.described()[key]}"
        for text, each in found.items()
    }
    return {text: each for text, each in told.items() if each != f"value {text}"}


def golden_of(directory: Path) -> dict[str, Any]:
    """Settings with the same readings share them, so that a person can read the file."""
    same: dict[str, list[str]] = defaultdict(list)
    for key in sorted(_DEFAULTS):
        same[json.dumps(readings(directory, key))].append(key)
    defaults = {key: None if value is MISSING else text_of(value) for key, value in _DEFAULTS.items()}
    return {
        "defaults": dict(sorted(defaults.items())),
        "types": {key: _KINDS[key].name for key in sorted(_DEFAULTS)},
        "secrets": sorted(filter(is_sensitive, _DEFAULTS)),
        "readings": [{"settings": keys, "texts": json.loads(texts)} for texts, keys in same.items()],
    }


WRITTEN = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}


@pytest.mark.thorough
def test_names_defaults_types_and_errors_are_as_before(tmp_path: Path) -> None:
    found = golden_of(tmp_path)
    for part in WRITTEN:
        assert found[part] == WRITTEN[part], part
    assert found.keys() == WRITTEN.keys()


_VALUES = {
    key: [text for text in TEXTS if text not in each["texts"]]
    for each in WRITTEN.get("readings", ())
    for key in each["settings"]
    if not key.startswith(_BOUND) and not key.endswith((".replication.factor", ".min.isr"))
}


@given(st.lists(st.sampled_from(sorted(_VALUES)), unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: st.sampled_from(_VALUES[key] or [None]) for key in keys})
))  # fmt: skip
def test_settings_that_bound_no_others_are_read_each_as_if_alone(values: dict[str, str | None]) -> None:
    given_values = {key: text for key, text in values.items() if text is not None}
    with tempfile.TemporaryDirectory() as directory:
        config = read(Path(directory), "".join(f"{key}={text}\n" for key, text in given_values.items()))
        alone = read(Path(directory), "")
    assert isinstance(config, NodeConfig)
    assert isinstance(alone, NodeConfig)
    minimal = {line.partition("=")[0] for line in MINIMAL.splitlines()}
    assert config.described() == {**alone.described(), **given_values}
    assert config.given == given_values.keys() | minimal


def test_each_setting_is_in_one_section() -> None:
    counts = Counter(each.name for section in SECTIONS.values() for each in fields(section))
    assert set(counts.values()) == {1}
    assert {key_of(name) for name in counts} == set(SETTINGS)
    others = {each.name for each in fields(NodeConfig)} - SECTIONS.keys()
    assert others == {"listener_overrides", "given"}, "every other field is a section"


def test_the_default_of_each_setting_is_what_its_parser_reads() -> None:
    for key, setting in SETTINGS.items():
        assert setting.field.metadata or str(setting.field.type) in BY_TYPE, f"{key}: a type that values.py can read"
        if setting.default is not MISSING and text_of(setting.default):
            assert setting.parse(text_of(setting.default)) == setting.default, key


def test_a_change_leaves_the_other_sections_as_they_are() -> None:
    config = config_of(
        node_id=1, controller_quorum_voters={}, listeners={}, advertised_listeners={}, log_dirs=(Path("/unused"),)
    )
    other = changed(config, log_cleaner_backoff_ms=1, group_share_max_size=2)
    assert (other.upkeep.log_cleaner_backoff_ms, other.shares.group_share_max_size) == (1, 2)
    same = [name for name in SECTIONS if getattr(other, name) is getattr(config, name)]
    assert set(SECTIONS) - set(same) == {"upkeep", "shares"}
    assert {**config.described(), **described(other.upkeep), **described(other.shares)} == other.described()
    assert changed(config) is config
    with pytest.raises(KeyError):
        changed(config, no_such_setting=1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        GOLDEN.write_text(json.dumps(golden_of(Path(scratch)), indent=1) + "\n")
    sys.stdout.write(f"{GOLDEN}\n")
