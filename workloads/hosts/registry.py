"""The load hosts that the hub knows: who they are, when they were heard of last, and the round trips to their clocks.

Only the hub's greenlets use it. Shown by tests/workloads/test_workloads_hosts_link.py.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from runlog.quality.clock_bound import ClockBound
from runlog.records.stats import ClockSample, ShareSample
from workloads.hosts import wire
from workloads.hosts.codec import WireError
from workloads.hosts.round_trips import RoundTrips

SAMPLES_MAX: Final = 20_000  # an hour and more; the oldest go first
PENDING_MAX: Final = 64
ALIVE_S: Final = 10.0  # a host may be taken for a cell if it was heard of in this time
REFUSED_MAX: Final = 64

Tell = Callable[[str, wire.Message], None]


@dataclass(slots=True, kw_only=True)
class Host:
    """One load host. `client_id` is its address in Locust's link, and changes when its worker starts anew."""

    name: str
    client_id: str
    hello: wire.Hello
    heard_s: float
    silent_s_max: float = 0.0  # since `count_silence`
    samples: RoundTrips = field(default_factory=lambda: RoundTrips(SAMPLES_MAX))
    pending: OrderedDict[int, int] = field(default_factory=OrderedDict)  # number of a question -> when it was sent

    def silent_s(self) -> float:
        return time.monotonic() - self.heard_s

    def hear(self) -> None:
        self.silent_s_max = max(self.silent_s_max, self.silent_s())
        self.heard_s = time.monotonic()

    def count_silence(self) -> None:
        """From now on: how long nothing came at a time."""
        self.silent_s_max, self.heard_s = 0.0, time.monotonic()

    def clock(self, since_ns: int) -> ClockBound:
        """What holds since that moment of our clock. ClockBoundError without a bound."""
        return self.samples.bound(since_ns)


class Registry:
    """`run_id` and `version` are the master's; `tell` sends a message."""

    def __init__(self, *, run_id: str, version: str, tell: Tell) -> None:
        self._run_id, self._version, self._tell = run_id, version, tell
        self._by_client: dict[str, Host] = {}
        self._number = 0
        self.refused: dict[str, str] = {}  # name -> why
        self.on_sample: Callable[[ClockSample | ShareSample], None] = lambda _sample: None
        self.t0_monotonic_ns = 0

    def hosts(self) -> list[Host]:
        """By name."""
        return sorted(self._by_client.values(), key=lambda host: host.name)

    def alive(self) -> list[Host]:
        return [host for host in self.hosts() if host.silent_s() < ALIVE_S]

    def of_client(self, client_id: str) -> Host | None:
        return self._by_client.get(client_id)

    def on_wrong_hello(self, client_id: str, error: WireError) -> None:
        self._refuse(client_id, "?", f"a load host presents itself in a wrong way: {error}")

    def on_hello(self, client_id: str, hello: wire.Hello) -> None:
        problem = wire.version_problem(hello.name, hello.version, self._version)
        namesake = next((host for host in self._by_client.values() if host.name == hello.name), None)
        if not problem and namesake is not None and namesake.client_id != client_id:
            if namesake.silent_s() < ALIVE_S:  # it may be the same host, started anew: it will ask again
                self._note_refusal(hello.name, f"two load hosts are called {hello.name}: give each its own --name")
                return
            del self._by_client[namesake.client_id]
        if not problem and client_id not in self._by_client and len(self._by_client) >= wire.HOSTS_MAX:
            problem = f"there are {wire.HOSTS_MAX} load hosts already"
        if problem:
            self._refuse(client_id, hello.name, problem)
            return
        known = self._by_client.get(client_id)
        if known is None:
            known = self._by_client[client_id] = Host(
                name=hello.name, client_id=client_id, hello=hello, heard_s=time.monotonic()
            )
            self.refused.pop(hello.name, None)
        known.hello = hello
        known.hear()
        self._tell(client_id, wire.Welcome(run_id=self._run_id, version=self._version))

    def _refuse(self, client_id: str, name: str, reason: str) -> None:
        self._note_refusal(name, reason)
        self._tell(client_id, wire.Refused(reason=reason))

    def _note_refusal(self, name: str, reason: str) -> None:
        if len(self.refused) < REFUSED_MAX:
            self.refused[name] = reason

    # --- clocks -----------------------------------------------------------------------------------------------------

    def ask_clocks(self) -> None:
        """One question to each host."""
        for host in self.hosts():
            self._number += 1
            host.pending[self._number] = time.monotonic_ns()
            if len(host.pending) > PENDING_MAX:
                host.pending.popitem(last=False)
            self._tell(host.client_id, wire.ClockQuestion(number=self._number))

    def on_clock(self, host: Host, answer: wire.ClockAnswer, received_ns: int) -> None:
        """An answer to a question that was not asked is left out."""
        sent_ns = host.pending.pop(answer.number, None)
        if sent_ns is None:
            return
        host.hear()
        sample = ClockSample(
            t_us=(received_ns - self.t0_monotonic_ns) // 1000,
            source=host.name,
            sent_ns=sent_ns,
            host_received_ns=answer.received_ns,
            host_sent_ns=answer.sent_ns,
            received_ns=received_ns,
        )
        host.samples.append(sample)
        self.on_sample(sample)
