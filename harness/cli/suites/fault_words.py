"""A fault in words: `harness list faults NAME` and docs/reference/faults.md, from one source.

The docstring of a fault's module says what the fault does. Its SPEC says what a parameter means (`words`), or this
module does where several faults share the parameter's name.
`python -m harness.cli.suites.fault_words > docs/reference/faults.md` writes the page. Shown by
tests/harness/test_harness_fault_words.py: every parameter of every fault has its words, and the page is what this
prints.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from chaos.faults import FAULTS
from chaos.faults.base import FaultSpec
from chaos.model import builtin_scenarios, load_builtin
from harness.errors import UsageError
from harness.suite_source import nearest

_KAFKA: Final = "kafka_"
# Parameters that an example must contain, because the defaults of the fault change nothing.
_NEEDED: Final = {
    "topic_setting": 'setting: max.message.bytes, value: "2000"',
    "kafka_edit_response": "error_code: 6",
    "upgrade": "to: 4.3.1",
    "downgrade": "to: 3.9.1",
    "feature_level": "feature: transaction.version, level: 1",
}
_TARGETS: Final = {
    "broker": "a broker by its role or id: leader, follower:0, followers, controller, all, ... or broker:1",
    "link": "a link, `from->to`, of clients or brokers: client->leader, followers->leader, ...",
    "client_link": "a link of the clients: client->leader, client->all, ...",
    "client": "a client process of the load, a reader with own_processes: app:0 is the first of the reader `app`",
    "topic": "the topic of the cell",
}
# By name. If two faults use one name with different meanings, by `fault.name`.
_PARAMETERS: Final = {
    "stream": "which way: downstream (towards who opened the connection), upstream (away from it), or both",
    "reset.delay_ms": "milliseconds from the first byte to the RST",
    "delay_ms": "how late, milliseconds",
    "end_open": "1: connections that are open end first; 0: they stay",
    "latency_ms": "delay of each piece of data, milliseconds",
    "jitter_ms": "the largest random change of the delay of each piece, milliseconds more or less",
    "rate_kb_per_s": "kilobytes a second that pass",
    "average_bytes": "mean size of a slice",
    "variation_bytes": "the largest random change of the size of a slice, bytes more or less",
    "delay_us": "wait between two slices, microseconds",
    "how": "terminate (SIGTERM: a controlled shutdown) or kill (SIGKILL)",
    "writeback_ms": "age in milliseconds after which the kernel has written data to the disk by itself, without fsync",
    "torn_bytes": "bytes that stay of the first batch that was not durable: a torn write",
    "bytes_from_end": "which byte of the last batch, counted from its end",
    "headroom": "descriptors that it may still open, beside those that it has now",
    "headroom_mib": "memory that it may still take, in MiB, beside what it has now",
    "offset_s": "seconds, forward or (negative) back",
    "comes_back": "1: healing starts it again; 0: it stays away",
    "between": "1: it is met after its commit and before its processing ends",
    "kafka.skip": "number of matching exchanges that pass first",
    "skip": "number of matching calls that pass first",
    "call": "the system call that is met, e.g. write or fsync",
    "directories": "all, or partition: only the broker's log directory that holds the partition, of several",
    "error": "the error that the call returns, e.g. EIO or ENOSPC",
    "percent": "of one core",
    "per_s": "attempts a second at each broker, at most, one after the other",
    "setting": "name of the topic setting, e.g. max.message.bytes",
    "value": "its new value",
    "partitions_added.count": "number of partitions to add",
    "keep": "number of records before the high watermark that stay",
    "valid_ms": "milliseconds after which the new certificates end; the fault is applied when they have ended",
    "trusted": "before: clients have trusted the new authority since they began; never: they do not know it",
    "operation": "what the load's user may not do any more: read or write",
    "absent_ms": "milliseconds between the deletion and the new topic",
    "api": "Kafka's name of the request: Produce, Fetch, Metadata, EndTxn, ...",
    "topic": "only of this topic; empty: of any",
    "partition": "only of this partition; -1: of any",
    "group": "only requests that name this group; empty: any",
    "transactional_id": "only requests that name this transactional.id; empty: any",
    "client_id": "only of this client.id; empty: of any",
    "when": "before or after the broker has worked on the request",
    "silence_ms": "how long it is silent, milliseconds; 0: until it is healed",
    "at_heal": "release: what was kept back goes on; close: the connection ends; stay: it stays silent for good",
    "count": "number of exchanges that it acts on; then it stops acting",
    "every": "act on every n-th matching exchange",
    "kafka_alter_response.how": "missing, reversed, empty or older_epoch: see above",
    "kafka_refuse_request.error_code": "Kafka's error code of the refusal; 6 is NOT_LEADER_OR_FOLLOWER",
    "error_code": "Kafka's error code that the client reads; -1: as the broker answered",
    "possible_only": "1: only requests that a broker could answer so, by what they say; 0: all",
    "throttle_ms": "throttle time that the client reads, milliseconds; -1: as the broker answered",
    "followers": "number of later Produce requests of the partition for which the refusal waits; only for Produce",
    "hold_ms_max": "the longest that the refusal is held, milliseconds; only for Produce",
    "at_byte": "number of bytes of the frame that pass, its length field included",
    "frame": "which is cut: request or response",
}


def parameter_words(fault: str, name: str) -> str:
    """KeyError where there are none."""
    if name in FAULTS[fault].words:
        return FAULTS[fault].words[name]
    for key in (f"{fault}.{name}", f"kafka.{name}" if fault.startswith(_KAFKA) else name, name):
        if key in _PARAMETERS:
            return _PARAMETERS[key]
    raise KeyError(f"{fault}.{name}")


def fault_lines(name: str) -> list[str]:
    """Everything about one fault, as paragraphs in Markdown. UsageError with the nearest name."""
    spec = FAULTS.get(name)
    if spec is None:
        raise UsageError(f"list faults {name}: there is no such fault{nearest(name, list(FAULTS))}")
    lines = [f"{name}: {spec.label}", "", *_about(name), ""]
    lines.append(f"target: {_TARGETS[spec.target_kind]}. Default: {spec.default_target}")
    if spec.engines:
        lines.append(f"needs: --cluster {' or '.join(spec.engines)}")
    lines += ["parameters:" if spec.parameters else "parameters: none"]
    lines += [f"  {key} (default {value!r}): {parameter_words(name, key)}" for key, value in spec.parameters.items()]
    lines += ["", "in a scenario's timeline:", f"  {step_example(spec)}"]
    used = _scenarios_with(name)
    lines.append(f"used by: {', '.join(used)}" if used else "used by: no scenario of the package")
    return lines


def step_example(spec: FaultSpec) -> str:
    """A step of a timeline, in YAML, as it can be copied."""
    given = _NEEDED.get(spec.name) or ", ".join(
        f"{key}: {_yaml(value)}" for key, value in list(spec.parameters.items())[:2]
    )
    with_ = f", with: {{{given}}}" if given else ""
    return f'- {{id: it, at: 2s, fault: {spec.name}, target: "{spec.default_target}", for: 3s{with_}}}'


def _yaml(value: int | str) -> str:
    return str(value) if value != "" else '""'


def _about(name: str) -> list[str]:
    """The docstring of the fault's module; of a Kafka fault that of its toxic."""
    kafka = f"chaos.toxiproxy.toxics.{name}"
    module = importlib.import_module(kafka if name.startswith(_KAFKA) else _module_of(FAULTS[name]))
    text = inspect.cleandoc(module.__doc__ or "")
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _module_of(spec: FaultSpec) -> str:
    return str(getattr(spec.make, "func", spec.make).__module__)


def _scenarios_with(fault: str) -> Sequence[str]:
    return [name for name, faults in _faults_by_scenario().items() if fault in faults]


@cache
def _faults_by_scenario() -> Mapping[str, frozenset[str]]:
    """Each file is read once: that takes most of a second for all of them."""
    return {
        name: frozenset(step.fault for step in load_builtin(name).timeline if step.fault)
        for name in builtin_scenarios()
    }


def page() -> str:
    """docs/reference/faults.md."""
    lines = [
        "# Faults", "",
        "A fault is what a step of a scenario's timeline breaks, and heals again. This page says of each what it does,",
        "what it acts on, and its parameters. `harness list faults NAME` prints the same.", "",
        "Written by `python -m harness.cli.suites.fault_words > docs/reference/faults.md`.", "",
        "## What they act on", "",
        "| target | faults |", "|---|---|",
    ]  # fmt: skip
    for kind, words in _TARGETS.items():
        names = [f"[{name}](#{name})" for name, spec in FAULTS.items() if spec.target_kind == kind]
        lines.append(f"| {words} | {', '.join(names)} |")
    for name, spec in FAULTS.items():
        lines += ["", f"## {name}", "", f"*{spec.label}*", ""]
        for paragraph in _about(name):
            lines += [paragraph, ""]
        lines.append(f"Target: {_TARGETS[spec.target_kind]}. Default: `{spec.default_target}`.")
        if spec.engines:
            lines.append(f"It needs `--cluster {'` or `'.join(spec.engines)}`.")
        if spec.parameters:
            lines += ["", "| parameter | default | meaning |", "|---|---|---|"]
            lines += [f"| `{k}` | `{v!r}` | {parameter_words(name, k)} |" for k, v in spec.parameters.items()]
        lines += ["", "```yaml", step_example(spec), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
