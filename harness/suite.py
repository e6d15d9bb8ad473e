"""The model of a suite, which is one YAML file. All defaults of a suite are here.

Composes the workload model (workloads) with chaos scenarios by name, and adds the sweep, the topic and the cluster.
Kafka's settings keep Kafka's names. Shown by tests/harness/test_harness_suite.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    field_validator,
    model_validator,
)

from harness.errors import UsageError
from harness.kafka_releases import cluster_choice, parse_release
from harness.settings_alone import CLIENT, validated
from harness.suite_source import Source, apply_overrides, nearest, parse_source, read_source
from reports.judge.limit_grammar import parse_limit
from runlog.files.redaction import is_secret
from runlog.files.setting_text import setting_text
from runlog.streams.inflight import RING_SLOTS
from workloads.model import Workload

KNOBS: Final = ("batch.size", "linger.ms", "compression.type", "acks", "max.in.flight.requests.per.connection")
BASELINE: Final = "baseline"  # what its cells are called
# The producer's defaults since Kafka 4.0.
KAFKA_DEFAULTS: Final[Mapping[str, str]] = {
    "batch.size": "16384",
    "linger.ms": "5",
    "compression.type": "none",
    "acks": "all",
    "max.in.flight.requests.per.connection": "5",
}


Racks = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=9)]


def _release(text: str) -> str:
    try:
        parse_release(text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


Releases = Annotated[tuple[Annotated[str, AfterValidator(_release)], ...], Field(max_length=9)]
KafkaValue = Annotated[str, BeforeValidator(setting_text)]
KafkaSettings = dict[str, KafkaValue]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SaslSpec(_Strict):
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="PLAIN", description="how clients prove who they are, with cluster.security sasl_plaintext or sasl_ssl"
    )


class SslClientSpec(_Strict):
    auth: Literal["none", "required"] = Field(
        default="none",
        description="required: clients prove who they are by certificates, with cluster.security ssl or sasl_ssl",
    )


class SslSpec(_Strict):
    client: SslClientSpec = Field(default_factory=SslClientSpec)


class ClusterSpec(_Strict):
    """The cluster of all cells. `settings` are broker settings by Kafka's names, of any engine."""

    brokers: int = Field(default=3, ge=1, le=9, description="broker processes")
    log_directories: int = Field(
        default=1, ge=1, le=9, description="of each broker (log.dirs); with several, one may fail alone"
    )
    racks: Racks = Field(
        default=(), description="of the brokers, in turn (broker.rack): replicas are spread over them, see client.rack"
    )
    releases: Releases = Field(
        default=(),
        description="of Apache Kafka, of the brokers of --cluster kafka in turn, e.g. [3.9.1]; empty: 4.3.1",
    )
    host: Literal["127.0.0.1", "::1"] = Field(
        default="127.0.0.1", description="where brokers and proxies of --cluster reference listen"
    )
    security: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        default="plaintext", description="of the clients' listeners; certificates and passwords are made up for the run"
    )
    sasl: SaslSpec = Field(default_factory=SaslSpec)
    ssl: SslSpec = Field(default_factory=SslSpec)
    settings: KafkaSettings = Field(default_factory=dict)
    warm_up_ms_max: int = Field(
        default=180_000,
        ge=0,
        description="no warm-up round of a cluster on a JVM begins after it; cells on one that is not warm are marked",
    )


def _config_of(given: Mapping[str, object]) -> KafkaSettings:
    """Adds the default of min.insync.replicas: 2, or 1 if there is only one replica."""
    replicas = given.get("replication_factor")  # absent if it is not valid itself
    return {"min.insync.replicas": str(min(2, replicas) if isinstance(replicas, int) else 2)}


def _cluster_spec(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return {"releases": cluster_choice(value).releases}
    except UsageError as error:
        raise ValueError(str(error)) from error


class TopicSpec(_Strict):
    partitions: int = Field(default=3, ge=1, le=256)
    replication_factor: int = Field(default=3, ge=1, le=9)
    config: KafkaSettings = Field(default_factory=_config_of)


class Variant(_Strict):
    """One value of a swept setting, with the settings that it demands and why: acks=1 needs
    enable.idempotence=false."""

    value: KafkaValue
    with_: KafkaSettings = Field(default_factory=dict, alias="with")
    because: str = Field(default="", description="why `with` is needed; shown beside the cell")


def _variant(value: object) -> object:
    return value if isinstance(value, Mapping | Variant) else {"value": value}


class Range(_Strict):
    """Values between two ends, evenly spaced by ratio (from 0 by difference). Only for a Latin hypercube."""

    from_: float = Field(alias="from", ge=0)
    to: float = Field(gt=0)

    @model_validator(mode="after")
    def _ascending(self) -> Range:
        if self.to <= self.from_:
            raise ValueError(f"to is {self.to:g}, expected more than from, which is {self.from_:g}")
        return self


Variants = list[Annotated[Variant, BeforeValidator(_variant)]]
# The tags are in angle brackets so that error messages can leave them out (suite_source.explain).
Values = Annotated[
    Annotated[Variants, Tag("<values>")] | Annotated[Range, Tag("<range>")],
    Discriminator(lambda value: "<range>" if isinstance(value, Mapping | Range) else "<values>"),
]
_OTHERS_MIN: Final = 4  # with fewer, a second run of the baseline costs more time than it saves repetitions
DesignName = Literal["one-at-a-time", "grid", "fractional", "latin-hypercube"]


class Ceiling(_Strict):
    """The second cell of each configuration: it sends as fast as the client and the cluster can, in a closed loop.

    Nobody reads meanwhile, because a reader would take a part of what is measured.
    """

    outstanding: int = Field(
        default=16_384,
        ge=1,
        le=RING_SLOTS,
        description="records under way per producer; with fewer than its batches in flight hold, this is the limit",
    )
    warmup_ms: int = Field(default=1_000, ge=0, le=3_600_000)
    measure_ms: int = Field(default=3_000, gt=0, le=86_400_000)


class Sweep(_Strict):
    """A baseline and the settings that are varied around it. The design decides what is combined.

    `vary` names client settings by Kafka's names. `workload.<key>` and `topic.<key>` reach into those parts. `client`
    varies the client itself, or its version: [confluent==2.8.2, confluent==2.16.1].
    """

    baseline: KafkaSettings
    baseline_name: str = Field(default=BASELINE, min_length=1, max_length=120, description="title of its cells")
    vary: dict[str, Values]
    design: DesignName = "one-at-a-time"
    samples: int | None = Field(default=None, ge=2, le=512, description="points of a Latin hypercube; default 12")
    repetitions: int = Field(default=1, ge=1, le=100, description="how often each cell runs; the order is shuffled")
    baseline_runs: int | None = Field(
        default=None,
        ge=1,
        le=10,
        description="of the baseline in each round, because all others are compared with it; default 2 in a repeated "
        "sweep of one-at-a-time with four other configurations or more on one cluster, else 1",
    )
    forks: int = Field(
        default=1,
        ge=1,
        le=100,
        description="clusters that the repetitions are dealt over, each started (and, on a JVM, warmed up) anew",
    )
    ceiling: Ceiling | None = Field(
        default=None, description="measures the throughput ceiling of each configuration too, in cells of their own"
    )
    client: str | None = Field(
        default=None,
        description="adapter for the sweep alone; default the first one of vary.client, else the suite's. --client "
        "counts before both",
    )
    repeat_share: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="of the planned time may go into running cells again that a busy host spoilt; then they are marked",
    )
    proxied: bool = Field(
        default=False, description="through the proxies: costs throughput, only to compare with chaos"
    )

    @model_validator(mode="after")
    def _each_fork_has_a_round(self) -> Sweep:
        if self.forks > self.repetitions:
            raise ValueError(
                f"forks is {self.forks}, expected at most repetitions, which is {self.repetitions}: a cluster of its "
                "own has one round at least"
            )
        return self

    @property
    def own_client(self) -> str | None:
        """Of its baseline, if it says one."""
        varied = self.vary.get(CLIENT)
        first = varied[0].value if isinstance(varied, list) and varied else None
        return self.client or first

    def runs_of_baseline(self, others: int) -> int:
        """In each round. `others`: the number of configurations that are compared with it. The second run costs a share
        of 1 / (others + 1) of the sweep's time, and takes a quarter of the variance of every comparison."""
        if self.baseline_runs is not None:
            return self.baseline_runs
        is_shared = self.design == "one-at-a-time" and self.repetitions > 1 and self.forks == 1
        return 2 if is_shared and others >= _OTHERS_MIN else 1

    def fork_of(self, repetition: int) -> int:
        """Number of the cluster, from 1, on which this repetition (from 1) runs. Consecutive repetitions stay together,
        and no cluster gets more than one round more than another."""
        return (repetition - 1) * self.forks // self.repetitions + 1

    @model_validator(mode="after")
    def _varies_something(self) -> Sweep:
        empty = next((name for name, values in self.vary.items() if not isinstance(values, Range) and not values), None)
        if empty is not None:
            raise ValueError(f"{empty} is varied over no value: name one at least, as in {empty}: [1, 2]")
        return self

    @model_validator(mode="after")
    def _sweeps_no_secret(self) -> Sweep:
        secret = next((name for name in self.vary if is_secret(name)), None)
        if secret is not None:
            raise ValueError(f"{secret} is a secret and cannot be varied: values of a sweep name its cells")
        return self

    @model_validator(mode="after")
    def _design_takes_it(self) -> Sweep:
        ranges = [name for name, values in self.vary.items() if isinstance(values, Range)]
        if CLIENT in ranges:
            raise ValueError("client is varied over names, as in client: [confluent==2.8.2, confluent==2.16.1]")
        if self.design != "latin-hypercube":
            if ranges:
                raise ValueError(f"{ranges[0]} is a range: only design latin-hypercube takes one, not {self.design}")
            if self.samples is not None:
                raise ValueError(f"samples belongs to design latin-hypercube, not to {self.design}")
        return self


class Contract(_Strict):
    """The conditions under which a rate counts as sustained. In addition, no acknowledged record may be lost,
    duplicated or reordered."""

    p99_ms: float = Field(default=50, gt=0, description="corrected latency; unanswered sends count as endless")
    backlog_growth_share: float = Field(
        default=0.02, gt=0, le=0.5, description="growth of what is due and not acknowledged, over the rate"
    )


class Search(_Strict):
    """The highest rate that keeps the contract with 95 % probability, by tries; then the latency at fractions of it."""

    properties: KafkaSettings = Field(description="client properties of every try")
    low_per_s: float = Field(gt=0)
    high_per_s: float = Field(gt=0, le=10_000_000)
    contract: Contract = Field(default_factory=Contract)
    tolerance: float = Field(default=0.1, gt=0, le=1, description="the search ends when the interval is so narrow")
    settle_ms: int = Field(
        default=3_000,
        ge=0,
        le=600_000,
        description="longer warm-up of a try after one that broke the contract, so that the cluster recovers first",
    )
    probes_max: int = Field(default=16, ge=3, le=200)
    fractions: list[Annotated[float, Field(gt=0, le=2)]] = Field(
        default_factory=lambda: [0.5, 0.8, 1.0, 1.1], description="of the kept rate, at which the latency is measured"
    )
    repetitions: int = Field(default=2, ge=1, le=20, description="of each fraction")

    @model_validator(mode="after")
    def _ascending(self) -> Search:
        if self.high_per_s < 1.5 * self.low_per_s:
            raise ValueError(
                f"high_per_s is {self.high_per_s:g}, expected at least 1.5 x low_per_s ({self.low_per_s:g})"
            )
        return self


class ChaosEntry(_Strict):
    """One scenario; `cases` empty means all of its cases."""

    scenario: str
    cases: list[str] = Field(default_factory=list)
    repetitions: int = Field(default=1, ge=1, le=100)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class LimitEntry(_Strict):
    """A bound on a figure of cells: docs/guide/limits.md."""

    limit: str = Field(
        description="p99_ms <= 50, lost == 0, throughput >= 0.9 * baseline; figures: docs/reference/limits.md"
    )
    cells: Annotated[list[str], BeforeValidator(_as_list)] = Field(
        default_factory=list,
        description="patterns of cell ids; default all but tries of a rate search and ceilings; of capacity: ceilings",
    )

    @field_validator("limit")
    @classmethod
    def _is_a_limit(cls, text: str) -> str:
        return parse_limit(text).text

    @property
    def is_relative(self) -> bool:
        """Whether it compares with the sweep's baseline."""
        return parse_limit(self.limit).is_relative


def _limit_entry(value: object) -> object:
    return {"limit": value} if isinstance(value, str) else value


class Suite(_Strict):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="letters, digits, dot, dash, underscore")
    description: str = ""
    seed: int = Field(default=1, ge=0, description="of the order of cells, payloads, schedules and toxicity")
    client: str = Field(default="reference", description="adapter in workloads/clients")
    engines: list[Literal["reference", "kafka", "docker", "external"]] = Field(
        default_factory=list, description="clusters that this suite is for, as --cluster names them; default all"
    )
    cluster: Annotated[ClusterSpec, BeforeValidator(_cluster_spec)] = Field(
        default_factory=ClusterSpec, description="or one text, like kafka==3.9.1: then the suite is for that cluster"
    )
    topic: TopicSpec = Field(default_factory=TopicSpec)
    workload: Workload
    properties: KafkaSettings = Field(default_factory=dict, description="client properties of every cell")
    sweep: Sweep | None = None
    chaos: list[ChaosEntry] = Field(default_factory=list)
    search: Search | None = None
    accepted_findings: dict[str, str] = Field(
        default_factory=dict, description="rules of the lint that this suite breaks, each with the reason"
    )
    limits: list[Annotated[LimitEntry, BeforeValidator(_limit_entry)]] = Field(
        default_factory=list, description="what figures of the cells must keep; a broken one is a failure"
    )
    lost_load_host: Literal["go_on", "end"] = Field(
        default="go_on",
        description="with --load-hosts, when one is lost: go_on: the later cells run on those that remain; end: the "
        "run ends after the cell",
    )
    _source: Source | None = PrivateAttr(default=None)  # where it was read from, for messages with file and line

    @property
    def sweep_client(self) -> str:
        """Adapter of the sweep's cells, unless the command line names one."""
        return (self.sweep.own_client if self.sweep is not None else None) or self.client

    @property
    def has_own_cluster(self) -> bool:
        """Whether it may run on a cluster that the harness starts."""
        return self.engines != ["external"]

    @property
    def source(self) -> Source | None:
        """None for a suite that was made in Python."""
        return self._source

    @model_validator(mode="before")
    @classmethod
    def _cluster_of_a_release(cls, given: Any) -> Any:
        """`cluster: kafka==3.9.1` says which cluster the suite is for, and its release."""
        if not isinstance(given, Mapping) or not isinstance(given.get("cluster"), str):
            return given
        return {"engines": [given["cluster"].partition("==")[0]], **given}

    def with_releases(self, releases: Sequence[str]) -> Suite:
        """The suite with other releases of the brokers. Without any, as it is."""
        if not releases:
            return self
        cluster = self.cluster.model_copy(update={"releases": tuple(releases)})
        return self.model_copy(update={"cluster": cluster})

    @model_validator(mode="after")
    def _has_cells(self) -> Suite:
        if self.sweep is None and not self.chaos and self.search is None:
            raise ValueError("a suite needs `sweep`, `chaos` or `search`: this one has no cell")
        if self.search is not None and self.workload.schedule.kind not in ("constant", "poisson"):
            raise ValueError(
                f"search sets the rate: schedule kind is {self.workload.schedule.kind}, not constant or poisson"
            )
        if self.chaos and self.workload.topics > 1:
            raise ValueError(
                f"workload.topics is {self.workload.topics}: damage is predicted for one topic, "
                "so a suite with chaos needs workload.topics: 1"
            )
        if self.topic.replication_factor > self.cluster.brokers:
            raise ValueError(
                f"topic.replication_factor is {self.topic.replication_factor}, expected at most cluster.brokers, "
                f"which is {self.cluster.brokers}"
            )
        return self


def load_suite(name_or_path: str, overrides: Iterable[str] = ()) -> Suite:
    """A suite by name (package data) or by path, with `--set` applied. UsageError says what is wrong and where."""
    source = find_source(name_or_path)
    apply_overrides(source, overrides)
    suite = validated(source, Suite)
    suite._source = source
    return _with_files(suite, source)


def _with_files(suite: Suite, source: Source) -> Suite:
    """The files that a workload names: records of one's own, and a locustfile."""
    workload = suite.workload
    if workload.corpus is not None:
        workload = workload.model_copy(update={"corpus": _found(source, ("workload", "corpus"), workload.corpus)})
    if workload.locust is not None:
        file = _found(source, ("workload", "locust", "file"), workload.locust.file)
        workload = workload.model_copy(update={"locust": workload.locust.model_copy(update={"file": file})})
    return suite.model_copy(update={"workload": workload})


def _found(source: Source, location: tuple[str, ...], path: Path) -> Path:
    """A file lies in the directory of the suite that names it. If its name comes from --set, or it is not there, the
    current directory is used."""
    beside = source.directory / path if source.directory is not None and location not in source.overridden else path
    found = beside if beside.is_file() else path
    if not found.is_file():
        raise UsageError(f"{source.place_of(location)}: {'.'.join(location)}: no such file: {found.absolute()}")
    return found.absolute()


def find_source(name_or_path: str) -> Source:
    """A path if it looks like one or exists, else one of the suites that come with the package."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or "/" in name_or_path:
        return read_source(path)
    suites = builtin_suites()
    if name_or_path in suites:
        resource = resources.files("workloads") / "suites" / f"{name_or_path}.yaml"
        source = parse_source(resource.read_text(encoding="utf-8"), f"workloads/suites/{name_or_path}.yaml")
        source.directory = Path(str(resource)).parent
        return source
    if path.is_file():
        return read_source(path)
    raise UsageError(f"no suite {name_or_path!r}{nearest(name_or_path, suites)} (or give the path of a .yaml file)")


def builtin_suites() -> list[str]:
    entries = (resources.files("workloads") / "suites").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))
