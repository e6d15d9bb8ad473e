"""What the harness asks the workers on brokers' hosts, and their answers in terms of the run.

Shown by tests/harness/test_harness_fault_hosts.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chaos.link_probe import LinkProbe, LoadProbe
from chaos.process_identity import ProcessIdentity
from chaos.toxiproxy.states import ProxyState
from harness.clusters.hosts.host_links import HostProxy
from harness.errors import HarnessError


class HostFaultError(HarnessError):
    """`is_certain`: it was certainly not done. Otherwise it may have been done."""

    def __init__(self, message: str, *, is_certain: bool) -> None:
        super().__init__(message)
        self.is_certain = is_certain


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPiece:
    """A piece of a fault host's record of requests. `size_bytes` and `sha256`: of all of it, the second only when it
    has ended. `problem`: why it is not complete."""

    data: bytes
    size_bytes: int
    sha256: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """With which its times are converted: its clock is `offset_ns` ahead of ours, within `error_us`. `problem`: there
    is no bound."""

    offset_ns: int
    error_us: float
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnswer:
    """Times are of the run. It took effect from `from_us` to `to_us`, each within `clock_error_us`; and certainly
    between `asked_us` and `answered_us`, by our own clock."""

    host: str
    asked_us: int
    answered_us: int
    from_us: int | None
    to_us: int | None
    clock_error_us: float | None
    clock_problem: str = ""
    running: ProcessIdentity | None = None
    states: Mapping[ProcessIdentity, str] = field(default_factory=dict)  # empty: it is gone
    epochs: Mapping[int, Sequence[tuple[int, int, int]]] = field(default_factory=dict)
    proxy: ProxyState | None = None
    probe: LinkProbe | LoadProbe | None = None
    requests: RequestPiece | None = None

    def times(self, action: str, of: Mapping[str, object]) -> dict[str, object]:
        """What a line of faults.jsonl holds. `of` names the broker or the proxy."""
        known = {
            "from_us": self.from_us, "to_us": self.to_us, "clock_error_us": self.clock_error_us,
        } if self.from_us is not None else {"clock_problem": self.clock_problem}  # fmt: skip
        return {
            "host": self.host, **of, "action": action, "asked_us": self.asked_us, "answered_us": self.answered_us,
            **known,
        }  # fmt: skip


class BrokerHosts(Protocol):
    """What asks the workers on the brokers' hosts."""

    def act(self, action: str, broker_id: int, *, topic: str = "", partitions: int = 0) -> HostAnswer:
        """HostFaultError: it was not done, or nobody knows."""

    def host_of(self, broker_id: int) -> str: ...

    def proxies(self) -> Sequence[HostProxy]:
        """All that run on these hosts."""

    def act_on_proxy(
        self,
        action: str,
        proxy: HostProxy,
        toxic: Mapping[str, object] | None = None,
        probe: Mapping[str, object] | None = None,
    ) -> HostAnswer:
        """HostFaultError: it was not done, or nobody knows."""

    def act_on_requests(self, action: str, host: str, *, topics: Sequence[str] = (), offset: int = 0) -> HostAnswer:
        """HostFaultError: it was not done, or nobody knows."""

    def clock_over(self, host: str, first_us: int, last_us: int, *, offset_ns: int | None = None) -> HostClock:
        """How to convert its times of that span of the run. `offset_ns`: how they are converted; without it the best
        one is chosen."""
