"""Configuration of one broker process: its sections, and the table of all settings. properties.py reads the file.

The table is made from the sections, so each setting is declared once: name, type, default, parser and secrecy.
Shown by tests/broker_node/test_node_config.py and tests/broker_settings/test_settings_sections.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, get_type_hints

from broker.node.settings.sections.cluster import ClusterSettings, QuorumSettings
from broker.node.settings.sections.connections import ListenerSettings, NetworkSettings
from broker.node.settings.sections.coordinators import GroupCoordinatorSettings, TransactionSettings
from broker.node.settings.sections.harness import HarnessSettings
from broker.node.settings.sections.replication import ReplicationSettings
from broker.node.settings.sections.section import PARSER, Problem, described, key_of
from broker.node.settings.sections.security import SecuritySettings
from broker.node.settings.sections.shares import ShareSettings
from broker.node.settings.sections.storage import StorageSettings, TopicDefaults, UpkeepSettings
from broker.node.settings.values import BY_TYPE

# Kafka's names for the same settings in coarser units. They apply if the finer ones are not given, in this order.
COARSER: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
COARSER_KEYS: Final = frozenset(name for names in COARSER.values() for name, _ in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Every setting this broker reads, by section. `config_of` makes one from single settings."""

    quorum: QuorumSettings
    listening: ListenerSettings
    storage: StorageSettings
    cluster: ClusterSettings
    network: NetworkSettings
    security: SecuritySettings
    topics: TopicDefaults
    upkeep: UpkeepSettings
    replication: ReplicationSettings
    groups: GroupCoordinatorSettings
    transactions: TransactionSettings
    shares: ShareSettings
    own: HarnessSettings  # Kafka does not have these.
    listener_overrides: Mapping[str, str] = field(default_factory=dict, repr=False)  # listener.name.X.KEY -> value
    given: frozenset[str] = field(default=frozenset(), repr=False)  # keys in the properties file, also if as by default

    @property
    def node_id(self) -> int:
        return self.quorum.node_id

    def described(self) -> dict[str, str]:
        """Every setting under its Kafka name. Secrets are included; see `is_sensitive`."""
        return {key: text for name in SECTIONS for key, text in described(getattr(self, name)).items()}

    def problem(self) -> Problem | None:
        """The first values that contradict each other inside a section."""
        sections = (self.listening, self.quorum, self.groups, self.shares, self.storage)
        return next((found for each in sections if (found := each.problem()) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field of a section."""

    section: str
    field: Field[Any]  # Any: each has its own type

    @property
    def parse(self) -> Callable[[str], object]:
        """It raises ValueError for a text that is no value of this setting."""
        parser: Callable[[str], object] = self.field.metadata.get(PARSER) or BY_TYPE[str(self.field.type)]
        return parser

    @property
    def default(self) -> object:
        """MISSING for a setting that must be given."""
        return self.field.default if self.field.default_factory is MISSING else self.field.default_factory()

    def value_in(self, config: NodeConfig) -> object:
        return getattr(getattr(config, self.section), self.field.name)


SECTIONS: Final[Mapping[str, Any]] = {  # Any: dataclasses have no common type
    name: section for name, section in get_type_hints(NodeConfig).items() if is_dataclass(section)
}
SETTINGS: Final[Mapping[str, Setting]] = {  # by Kafka's names
    key_of(each.name): Setting(section=name, field=each)
    for name, section in SECTIONS.items()
    for each in fields(section)
}


def config_of(**values: object) -> NodeConfig:
    """`values`: settings by the names of their fields, as their parsers give them. Others have their defaults."""
    by_section = _by_section(values)
    return NodeConfig(**{name: section(**by_section.get(name, {})) for name, section in SECTIONS.items()})


def changed(config: NodeConfig, **values: object) -> NodeConfig:
    """`config` with other values of some settings, by the names of their fields."""
    sections = {name: replace(getattr(config, name), **own) for name, own in _by_section(values).items()}
    return replace(config, **sections) if sections else config


def _by_section(values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        found.setdefault(SETTINGS[key_of(name)].section, {})[name] = value
    return found
