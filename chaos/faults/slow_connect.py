"""slow_connect: new connections to a link are neither accepted nor refused. connect() hangs until the fault is healed.

It uses a listener whose queue is full. On a client's link this is the embedded server's own listener (toxic
`no_accept`). A link between brokers may go through any Toxiproxy server. There the proxy is switched off, and a
listener of ours takes its address until healing switches the proxy on again. Proved by a probe whose connect() gets no
answer in time. With end_open: 1 open connections end first. On a link between brokers they always end, because a proxy
that is switched off has no connections.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Final

from broker.door.addresses import parse_address
from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.disabled_links import DisabledLinks
from chaos.faults.probes import probe_connect
from chaos.faults.toxics import SILENCE_MS, LinkToxics

FILLERS: Final = 4  # connections that fill the queue: length 0 takes one or two, and the kernel drops further requests
BIND_WITHIN_S: Final = 2.0  # the server closes its listener a moment after it has reported that the proxy is off


class FullListener:
    """Listens at an address of this host and never accepts."""

    def __init__(self, address: str) -> None:
        where = parse_address(address)
        self._sockets = [_bound(where)]
        self._sockets[0].listen(0)
        for _ in range(FILLERS):
            filler = socket.socket(self._sockets[0].family, socket.SOCK_STREAM)
            filler.setblocking(False)
            filler.connect_ex(where)
            self._sockets.append(filler)

    def close(self) -> None:
        while self._sockets:
            self._sockets.pop().close()


def _bound(where: tuple[str, int]) -> socket.socket:
    """A socket at this address. Raises OSError if this host does not have the address, or if another process keeps it
    for longer."""
    listener = socket.socket(socket.AF_INET6 if ":" in where[0] else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    deadline = time.monotonic() + BIND_WITHIN_S
    while True:
        try:
            listener.bind(where)
            return listener
        except OSError:
            if time.monotonic() > deadline:
                listener.close()
                raise
            time.sleep(0.005)


class SlowConnect:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._of_clients = [link for link in context.links if link.startswith("client-")]
        self._of_brokers = [link for link in context.links if not link.startswith("client-")]
        self._end_open = int(parameters["end_open"])
        self._toxics = LinkToxics(
            door=context.port.links.kafka, lease=context.lease, name=context.toxic_name, type="no_accept"
        )
        self._off = DisabledLinks(context.port.links, context.lease)
        self._listeners: list[FullListener] = []

    def inject(self) -> None:
        self._toxics.add(self._of_clients, ("downstream",), {"end_open": self._end_open})
        for link in self._of_brokers:
            client, proxy = self._context.port.links.plain(link)
            address = client.proxy(proxy).listen
            self._off.disable(link)
            self._listeners.append(FullListener(address))

    def heal(self) -> None:
        """Heal all parts, also if one fails. The failed part may be tried again."""
        while self._listeners:
            self._listeners.pop().close()
        try:
            self._off.enable()
        finally:
            self._toxics.remove()

    def prove(self) -> Proof:
        outcomes: dict[str, object] = {}
        for link in self._context.links:
            links = self._context.port.links
            client, proxy = links.kafka(link) if link in self._of_clients else links.plain(link)
            outcomes[link] = probe_connect(client.proxy(proxy).listen, timeout_ms=SILENCE_MS).outcome
        return Proof(
            is_effective=all(outcome == "silent" for outcome in outcomes.values()),
            detail={"silent_ms": SILENCE_MS, "links": outcomes},
        )


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    return None if parameters["end_open"] in (0, 1) else f"end_open is 0 or 1, got {parameters['end_open']}"


SPEC = FaultSpec(
    name="slow_connect",
    label="connections not accepted",
    colour="#7b7d7d",
    target_kind="link",
    default_target="client->leader",
    make=SlowConnect,
    parameters={"end_open": 1},
    problem=_problem,
)
