"""From a suite's sweep to its configurations: levels of each setting, the design over them, names. Pure.

Levels may belong to the client (Kafka's names), to the workload or to the topic, or be clients themselves. A value may
demand other settings (`with`), which then apply in its cells. Shown by tests/harness/test_harness_designs.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from harness import designs
from harness.cluster_security import ClusterSecurity
from harness.errors import UsageError
from harness.setting_places import near_client
from harness.settings_alone import CLIENT
from harness.suite import KAFKA_DEFAULTS, ClusterSpec, Range, Suite, Sweep, TopicSpec, Variant
from harness.suite_source import nearest
from runlog.files.expected import expectation
from runlog.files.setting_text import setting_text
from workloads.clients import is_client
from workloads.model import Workload

CLIENT_DEFAULT: Final = "default"  # level of a setting that the baseline does not state
SAMPLES_DEFAULT: Final = 12
_NAME_CHARACTERS_MAX: Final = 120
_PARTS: Final[Mapping[str, type[BaseModel]]] = {"workload": Workload, "topic": TopicSpec, "cluster": ClusterSpec}
# Of the cluster only these. A value needs a cluster of its own, with certificates and passwords of its own.
SECURITY: Final = "cluster.security"
MECHANISM: Final = "cluster.sasl.mechanism"
CLIENT_AUTH: Final = "cluster.ssl.client.auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepConfiguration:
    name: str  # part of the cell's id, without repetition
    title: str
    factors: Mapping[str, str]  # every swept setting
    changed: str  # the settings that differ from the baseline
    client: str | None  # None: the sweep does not vary it
    properties: Mapping[str, str]  # on top of the sweep's baseline
    workload: Mapping[str, Any]
    topic: Mapping[str, Any]
    security: ClusterSecurity
    note: str


class _WrongVariation(ValueError):
    """What is wrong with one setting of `vary`."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name = name


def sweep_configurations(suite: Suite, sweep: Sweep, *, seed: int) -> tuple[SweepConfiguration, ...]:
    """UsageError when the design does not take these values, with their place."""
    try:
        return _configurations(suite, sweep, seed)
    except _WrongVariation as error:
        place = "" if suite.source is None else f"{suite.source.place_of(('sweep', 'vary', error.name))}: "
        raise UsageError(f"{place}sweep.vary.{error.name}: {error}") from error


def _configurations(suite: Suite, sweep: Sweep, seed: int) -> tuple[SweepConfiguration, ...]:
    samples = sweep.samples or SAMPLES_DEFAULT
    variants = {name: _variants(name, values, samples) for name, values in sweep.vary.items()}
    base = {name: _baseline_value(suite, sweep, name, values) for name, values in variants.items()}
    for name, values in sweep.vary.items():
        if isinstance(values, Range) and base[name] == CLIENT_DEFAULT:
            raise _WrongVariation(name, f"a range needs the baseline's own value: state sweep.baseline.{name}")
    levels = {
        name: list(dict.fromkeys([base[name], *(one.value for one in values)])) for name, values in variants.items()
    }
    if sweep.design == designs.ONE_AT_A_TIME:
        design = designs.one_at_a_time(levels)
    elif sweep.design == designs.GRID:
        design = designs.grid(levels)
    elif sweep.design == designs.FRACTIONAL:
        design = designs.fractional(levels)
    else:
        design = designs.latin_hypercube(levels, samples, seed)
    if sweep.design != designs.ONE_AT_A_TIME:
        _refuse_contradictions(variants)
    by_value = {name: {one.value: one for one in values} for name, values in variants.items()}
    return tuple(_configuration(suite, sweep, factors, base, by_value) for factors in design)


def _variants(name: str, values: list[Variant] | Range, samples: int) -> list[Variant]:
    if isinstance(values, Range):
        return [Variant(value=value) for value in designs.range_levels(values.from_, values.to, samples)]
    return values


def _split(name: str) -> tuple[str, str]:
    """(part, key) of `workload.x`, `topic.x` and `cluster.security`; client settings have no part."""
    part, _, key = name.partition(".")
    return (part, key) if part in _PARTS and key else ("", name)


def _baseline_value(suite: Suite, sweep: Sweep, name: str, values: list[Variant]) -> str:
    if name == CLIENT:
        return _client_value(sweep, values)
    part, key = _split(name)
    if part == "cluster":
        return _cluster_value(suite.cluster, name, values)
    if part:
        model: BaseModel = suite.workload if part == "workload" else suite.topic
        fields = type(model).model_fields
        value = getattr(model, key, None) if key in fields else None
        if not isinstance(value, str | int | float | bool):
            names = [f"{part}.{field}" for field in fields if isinstance(getattr(model, field), str | int | float)]
            raise _WrongVariation(name, f"no such key{nearest(name, names)}")
        for variant in values:
            _check(part, model, key, name, variant.value)
        return setting_text(value)
    return sweep.baseline.get(name, suite.properties.get(name, KAFKA_DEFAULTS.get(name, CLIENT_DEFAULT)))


def _client_value(sweep: Sweep, values: list[Variant]) -> str:
    for name in (variant.value for variant in values):
        if not is_client(name):
            raise _WrongVariation(CLIENT, f"{name!r}: no such client{near_client(name)}")
    return sweep.client or values[0].value


def _cluster_value(cluster: ClusterSpec, name: str, values: list[Variant]) -> str:
    models: dict[str, tuple[BaseModel, str]] = {
        SECURITY: (cluster, "security"),
        MECHANISM: (cluster.sasl, "mechanism"),
        CLIENT_AUTH: (cluster.ssl.client, "auth"),
    }
    if name not in models:
        raise _WrongVariation(name, f"no such key{nearest(name, list(models))}")
    model, key = models[name]
    for variant in values:
        try:
            type(model).model_validate({key: variant.value})
        except ValidationError as error:
            raise _WrongVariation(name, f"{expectation(error.errors()[0])}, got {variant.value!r}") from error
    return str(getattr(model, key))


def security_of(suite: Suite, factors: Mapping[str, str] | None = None) -> ClusterSecurity:
    """The security of the suite's cluster, or of one of its configurations."""
    factors = factors or {}
    protocol = factors.get(SECURITY, suite.cluster.security)
    mechanism = factors.get(MECHANISM, suite.cluster.sasl.mechanism)
    client_auth = factors.get(CLIENT_AUTH, suite.cluster.ssl.client.auth)
    if client_auth == "required" and not protocol.endswith("ssl") and SECURITY not in factors:
        raise UsageError(f"{CLIENT_AUTH}: required needs {SECURITY} ssl or sasl_ssl, got {protocol}")
    return ClusterSecurity(
        protocol=protocol,
        mechanism=mechanism if protocol.startswith("sasl") else "",
        # As with the mechanism, in a sweep or a scenario that says another protocol: without TLS it means nothing.
        is_mutual=client_auth == "required" and protocol.endswith("ssl"),
    )


def _check(part: str, model: BaseModel, key: str, name: str, value: str) -> None:
    try:
        _PARTS[part].model_validate({**model.model_dump(by_alias=True), key: value})
    except ValidationError as error:
        raise _WrongVariation(name, f"{expectation(error.errors()[0])}, got {value!r}") from error


def _refuse_contradictions(variants: Mapping[str, list[Variant]]) -> None:
    """Refuses, in a design that combines values, a value that sets a setting which is itself varied."""
    for name, values in variants.items():
        for variant in values:
            clash = next((other for other in variant.with_ if other in variants), None)
            if clash is not None:
                raise _WrongVariation(
                    name,
                    f"{variant.value} comes with {clash}={variant.with_[clash]}, but {clash} is varied too: leave one "
                    "of them out, or use design one-at-a-time",
                )


def _configuration(
    suite: Suite,
    sweep: Sweep,
    factors: Mapping[str, str],
    base: Mapping[str, str],
    by_value: Mapping[str, Mapping[str, Variant]],
) -> SweepConfiguration:
    changed = [name for name, value in factors.items() if value != base[name]]
    parts: dict[str, dict[str, str]] = {"": {}, "workload": {}, "topic": {}, "cluster": {}}
    stated = {*sweep.baseline, *suite.properties}
    for name, value in factors.items():
        if name == CLIENT:
            continue  # it is no setting
        part, key = _split(name)
        if part or value != base[name] or name in stated:
            parts[part][key] = value  # without a stated default, the client uses its own
    # Settings that a value demands come last. With one factor at a time they may change a setting that is itself
    # varied.
    demanding = changed if sweep.design == designs.ONE_AT_A_TIME else list(factors)
    chosen = [one for name in demanding if (one := by_value[name].get(factors[name])) is not None and one.with_]
    for variant in chosen:
        parts[""] |= variant.with_
    title = " ".join(f"{name}={factors[name]}" for name in changed) or sweep.baseline_name
    if CLIENT in factors and not changed:
        title += f" (client={factors[CLIENT]})"
    if sweep.design == designs.ONE_AT_A_TIME:
        name = f"{changed[0]}-{factors[changed[0]]}" if changed else sweep.baseline_name
    else:
        name = "_".join(factors.values())[:_NAME_CHARACTERS_MAX] if changed else sweep.baseline_name
    return SweepConfiguration(
        name=name,
        title=title,
        factors=dict(factors),
        changed=" ".join(changed),
        client=factors.get(CLIENT),
        properties=parts[""],
        workload=parts["workload"],
        topic=parts["topic"],
        security=security_of(suite, factors),
        note="; ".join(_note(variant) for variant in chosen),
    )


def _note(variant: Variant) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in variant.with_.items())
    return f"with {settings}" + (f": {variant.because}" if variant.because else "")
