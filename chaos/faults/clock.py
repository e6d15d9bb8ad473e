"""clock_jump: a broker's wall clock is stepped by `offset_s` seconds, forward or back, and stays wrong until healed.

The reference broker adds the number in a mapped file to each reading of its wall clock (`harness.clock.control`). In an
Apache Kafka process the interposer does the same. Linux has time namespaces only for the monotonic clocks. A step of
the host's own clock would affect all programs, also this harness. Monotonic clocks do not change, as with any step of
the wall clock.

Proved by what the broker writes: the newest batch of a partition that it leads, in a topic with message.timestamp.type
LogAppendTime, has the time of its clock. A broker that leads no partition of such a topic shows no clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.interposer import build, fault_page

OFFSET_S_MAX: Final = 10 * 365 * 86_400


class NoClockControl(Exception):
    """The broker reads the host's clock, and there is no interposer that could change it."""


class ClockJump:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._port, self._of, self._brokers = context.port, context.of, context.brokers
        self._offset_s = int(parameters["offset_s"])

    def inject(self) -> None:
        self._set(self._offset_s)

    def heal(self) -> None:
        self._set(0)

    def _set(self, offset_s: int) -> None:
        for broker in self._brokers:
            control = self._port.files.fault_page(broker)
            if control is None:
                raise NoClockControl(f"broker {broker} has no clock that can be told to be wrong")
            fault_page.set_clock_offset(control, offset_s * 1_000_000_000)

    def prove(self) -> Proof:
        """The newest batch may be older than the step. Then a later attempt sees a younger one."""
        led: dict[int, int] = {}
        topics = self._port.topics
        for partition in range(topics.partition_count(self._of.topic)):
            leader = self._port.brokers.leader(self._of.topic, partition)
            if leader in self._brokers:
                led.setdefault(leader, partition)
        detail: dict[str, object] = {"offset_s": self._offset_s}
        is_effective = bool(self._brokers)
        for broker in self._brokers:
            written_ms = topics.newest_append_time_ms(self._of.topic, led[broker]) if broker in led else None
            off_s = None if written_ms is None else round(written_ms / 1000 - time.time(), 3)
            detail[f"broker {broker}"] = {"leads": led.get(broker), "wrote": written_ms, "off by s": off_s}
            is_effective &= off_s is not None and abs(off_s - self._offset_s) < abs(self._offset_s) / 2
        return Proof(is_effective=is_effective, detail=detail)


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    offset_s = int(parameters["offset_s"])
    if 10 <= abs(offset_s) <= OFFSET_S_MAX:
        return None
    return f"offset_s of clock_jump is from 10 to {OFFSET_S_MAX} seconds, or less than nothing, got {offset_s}"


SPEC = FaultSpec(
    name="clock_jump",
    label="clock stepped",
    colour="#2e4053",
    target_kind="broker",
    default_target="leader",
    make=ClockJump,
    parameters={"offset_s": 3600},
    problem=_problem,
    is_interposed=True,
    host_problem=build.problem_of_engine,
)
