"""Other releases of Apache Kafka, and other levels of features, as an operator brings them in under load.

`upgrade` and `downgrade` end a broker (`how: terminate` or `kill`), start it on its old data as the release `to`, and
wait until it answers. Without `to` it is the harness's default. Nothing is undone at the end: the broker keeps its
release, and the cluster serves no other cell. To go back is a step of its own, `downgrade`. Kafka allows it while
metadata.version has not been raised beyond what the older release knows.

`features_upgraded` raises each feature, metadata.version too, to the highest level that all brokers can do
(`feature`: this one alone). It cannot be undone either. `feature_level` brings one feature to `level`, and back when it
is healed.

Proved by the processes: the old one is gone, and the new one has the broker's jar of that release open. Features are
proved by what each broker says is in force.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof, heal_each
from chaos.faults.processes import identities, prove_gone, start_again
from chaos.lease import ProcessIdentity
from chaos.ports.brokers import Features

RELEASE_CHANGES: Final = ("upgrade", "downgrade")
STARTED_WITHIN_S: Final = 180.0  # a JVM on a busy host
_IN_FORCE_WITHIN_S: Final = 30.0  # brokers read the change from the metadata log
_POLL_S: Final = 0.1
_RELEASE: Final = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}")
# Its level says how voters are known, and voters in a list of settings have level 0 for ever (KIP-853).
_OF_VOTERS: Final = "kraft.version"


def _ordered(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


class ReleaseChanged:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter], *, is_upgrade: bool) -> None:
        self._port, self._brokers, self._is_upgrade = context.port, context.brokers, is_upgrade
        self._to, self._is_kill = str(parameters["to"]), parameters["how"] == "kill"
        self._before: dict[int, ProcessIdentity] = {}
        self._from: dict[int, str] = {}
        self._took_ms: dict[int, int] = {}  # from the end of the old process to the first answer of the new one

    def inject(self) -> None:
        versions = self._port.versions
        self._to = self._to or versions.default_release
        self._from = {broker: versions.release_of(broker) for broker in self._brokers}
        for broker, release in self._from.items():
            if (_ordered(self._to) > _ordered(release)) != self._is_upgrade or self._to == release:
                word, other = ("upgrade", "a later") if self._is_upgrade else ("downgrade", "an earlier")
                raise ValueError(f"{word} of broker {broker} to {self._to}: it has {release}, expected {other} release")
        self._before = identities(self._port.brokers, self._brokers)
        for broker in self._brokers:
            self._change(broker)

    def _change(self, broker: int) -> None:
        if self._is_kill:
            self._port.processes.kill(broker)
        else:
            self._port.processes.terminate(broker)
        began_s = time.monotonic()
        self._port.versions.change_release(broker, self._to)
        self._port.processes.restart(broker)
        while not self._port.features.answers(broker):
            waited_s = time.monotonic() - began_s
            if not self._port.brokers.is_running(broker):
                raise RuntimeError(
                    f"broker {broker} ended when it started as {self._to} on the data of {self._from[broker]}: its "
                    "stderr.log says why"
                )
            if waited_s > STARTED_WITHIN_S:
                raise TimeoutError(f"broker {broker} as {self._to} did not answer within {STARTED_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)
        self._took_ms[broker] = round((time.monotonic() - began_s) * 1000)

    def heal(self) -> None:
        heal_each(self._brokers, partial(start_again, self._port))

    def prove(self) -> Proof:
        gone = prove_gone(self._port.brokers, self._before)
        pids = self._port.brokers.pids()
        jars = {broker: open_jar(pids[broker], self._to) for broker in self._brokers if broker in pids}
        return Proof(
            is_effective=gone.is_effective and len(jars) == len(self._brokers) and all(jars.values()),
            detail={
                **gone.detail,
                "from": {str(broker): release for broker, release in self._from.items()},
                "to": self._to,
                "jars": {str(broker): jar for broker, jar in jars.items()},
                "took_ms": {str(broker): took for broker, took in self._took_ms.items()},
            },
        )


def open_jar(pid: int, release: str) -> str:
    """The name of the broker's jar of this release, if the process has it open. Else empty."""
    wanted = f"kafka_2.13-{release}.jar"
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return ""
    return wanted if any(_target(link) == wanted for link in links) else ""


def _target(link: Path) -> str:
    try:
        return Path(os.readlink(link)).name
    except OSError:  # closed meanwhile
        return ""


class FeaturesUpgraded:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._port, self._features = context.port, context.port.features
        self._only = str(parameters["feature"])
        self._wanted: dict[str, int] = {}
        self._before: Mapping[str, int] = {}

    def inject(self) -> None:
        highest, self._before = self._features.highest_levels(), self._features.levels_in_force()
        if self._only and self._only not in highest:
            raise ValueError(f"feature {self._only!r}: not all brokers have it; they have {', '.join(sorted(highest))}")
        self._wanted = {
            name: level
            for name, level in highest.items()
            if level > self._before.get(name, 0) and name != _OF_VOTERS and self._only in ("", name)
        }
        if not self._wanted:
            raise ValueError(f"nothing can be raised: the brokers can do {dict(highest)}, which is in force")
        # Nobody will restore the levels, so no other cell may have this cluster.
        self._port.versions.is_changed = True
        self._features.change_features(self._wanted)
        await_levels(self._features, self._wanted)

    def heal(self) -> None:
        """A raised level stays: metadata that only the new release can read may be written already."""

    def prove(self) -> Proof:
        return _prove_levels(self._features, self._wanted, self._before)


class FeatureLevel:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._features, self._name = context.port.features, str(parameters["feature"])
        self._level = int(parameters["level"])
        self._before: int | None = None  # set while it must be restored

    def inject(self) -> None:
        self._before = self._features.levels_in_force().get(self._name, 0)
        self._bring(self._level)

    def heal(self) -> None:
        if self._before is not None:
            self._bring(self._before)
            self._before = None

    def _bring(self, level: int) -> None:
        now = self._features.levels_in_force().get(self._name, 0)
        if now != level:
            self._features.change_features({self._name: level}, is_downgrade=level < now)
        await_levels(self._features, {self._name: level})

    def prove(self) -> Proof:
        before = {} if self._before is None else {self._name: self._before}
        return _prove_levels(self._features, {self._name: self._level}, before)


def await_levels(features: Features, wanted: Mapping[str, int]) -> None:
    """TimeoutError if some broker does not say in time that these levels are in force."""
    deadline = time.monotonic() + _IN_FORCE_WITHIN_S
    while not _are_in_force(told := features.levels_by_broker(), wanted):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in force within {_IN_FORCE_WITHIN_S:.0f} s: {dict(wanted)}; brokers say {told}")
        time.sleep(_POLL_S)


def _are_in_force(told: Mapping[int, Mapping[str, int]], wanted: Mapping[str, int]) -> bool:
    return bool(told) and all(each.get(name, 0) == level for each in told.values() for name, level in wanted.items())


def _prove_levels(features: Features, wanted: Mapping[str, int], before: Mapping[str, int]) -> Proof:
    told = features.levels_by_broker()
    return Proof(
        is_effective=bool(wanted) and _are_in_force(told, wanted),
        detail={
            "before": {name: before.get(name, 0) for name in wanted},
            "in_force": {str(broker): {name: each.get(name, 0) for name in wanted} for broker, each in told.items()},
        },
    )


def _release_problem(parameters: Mapping[str, Parameter]) -> str | None:
    to, how = str(parameters["to"]), parameters["how"]
    if to and not _RELEASE.fullmatch(to):
        return f"to is {to!r}, expected a release of Apache Kafka like 4.3.1"
    return None if how in ("terminate", "kill") else f"how is {how!r}, expected terminate or kill"


def _level_problem(parameters: Mapping[str, Parameter]) -> str | None:
    if not parameters["feature"]:
        return "feature_level needs a feature, like transaction.version"
    return None if int(parameters["level"]) >= 0 else f"level is {parameters['level']}, expected 0 or more"


_WORDS: Final = {"to": "the release of Apache Kafka, three numbers; empty: the default of the harness"}
SPECS: tuple[FaultSpec, ...] = (
    FaultSpec(
        name="upgrade",
        label="upgraded",
        colour="#154360",
        target_kind="broker",
        default_target="leader",
        make=partial(ReleaseChanged, is_upgrade=True),
        parameters={"to": "", "how": "terminate"},
        words=_WORDS,
        engines=("kafka",),
        problem=_release_problem,
    ),
    FaultSpec(
        name="downgrade",
        label="downgraded",
        colour="#633974",
        target_kind="broker",
        default_target="leader",
        make=partial(ReleaseChanged, is_upgrade=False),
        parameters={"to": "", "how": "terminate"},
        words=_WORDS,
        engines=("kafka",),
        problem=_release_problem,
    ),
    FaultSpec(
        name="features_upgraded",
        label="features upgraded",
        colour="#117a65",
        target_kind="broker",
        default_target="controller",
        make=FeaturesUpgraded,
        parameters={"feature": ""},
        words={"feature": "the only one that is raised; empty: all are"},
        engines=("kafka",),
    ),
    FaultSpec(
        name="feature_level",
        label="level of a feature changed",
        colour="#0b5345",
        target_kind="broker",
        default_target="controller",
        make=FeatureLevel,
        parameters={"feature": "", "level": 0},
        words={"feature": "its name, e.g. transaction.version", "level": "its level while the fault lasts"},
        engines=("reference", "kafka"),
        problem=_level_problem,
    ),
)
