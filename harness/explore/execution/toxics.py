"""A disturbance as the toxic of the embedded proxy server that carries it out. Pure. Shown by
tests/harness/test_harness_explore_campaign.py.
"""

from __future__ import annotations

from typing import Final

from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.possible import is_conditional
from chaos.toxiproxy.toxic import AttributeValue
from harness.explore.trial.model import Disturbance, How

# Their answers tell of the whole cluster: one made from the request would say that it has no brokers.
_WITHOUT_WORK: Final = frozenset({"Metadata"})
STREAM: Final = "downstream"  # Each toxic's name on a proxy ends with it.
_SECOND: Final = "-then"


def second_name(name: str) -> str:
    """Of the toxics of a trial's second disturbance, where those of the first have this name."""
    return name + _SECOND


def beside_name(name: str, number: int) -> str:
    """Of the toxics of a disturbance that acts beside the first one, counted from 1."""
    return f"{name}-beside-{number}"


def is_second(toxic: str) -> bool:
    """Whether the second disturbance of a trial is meant, by the name of a toxic on a proxy."""
    return toxic.endswith(f"{_SECOND}-{STREAM}")


def toxic_of(disturbance: Disturbance) -> tuple[str, dict[str, AttributeValue]]:
    """The toxic of the embedded server, and its attributes beside the client's id."""
    which: dict[str, AttributeValue] = {
        "api": disturbance.api,
        "skip": disturbance.skip,
        "count": disturbance.count,
    }
    error: dict[str, AttributeValue] = {**which, "error_code": disturbance.code}
    if is_conditional(API_KEYS[disturbance.api], disturbance.code):
        error["possible_only"] = 1  # no broker gives this code to each request
    match disturbance.how:
        case How.ERROR_BEFORE if disturbance.api in _WITHOUT_WORK:
            return "kafka_edit_response", error
        case How.ERROR_BEFORE:
            return "kafka_refuse_request", error
        case How.ERROR_AFTER:
            return "kafka_edit_response", error
        case How.CLOSED_BEFORE | How.CLOSED_AFTER:
            return "kafka_close_connection", {**which, "when": _when(disturbance)}
        case How.SILENCE_BEFORE | How.SILENCE_AFTER:
            return "kafka_silence", {**which, "when": _when(disturbance)}
        case How.LATE:
            return "kafka_delay_response", {**which, "delay_ms": disturbance.late_ms}
        case How.HELD:
            return "kafka_hold_request", {**which, "delay_ms": disturbance.late_ms}
        case How.ALTERED:
            return "kafka_alter_response", {**which, "how": disturbance.alteration}
        case How.THROTTLED:
            return "kafka_edit_response", {**which, "throttle_ms": disturbance.late_ms}


def _when(disturbance: Disturbance) -> str:
    return "after" if disturbance.how.is_after_work else "before"
