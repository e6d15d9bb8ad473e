"""Which brokers the clients of a load host may log in to. The operator of the load host says it (`--may-connect`).

A master names the brokers of each plan. The clients log in there with the credentials of the load host's own
--client-config. So without this permit whoever drives a run could send them to any address and get the password.
Clients also follow the addresses that a named broker advertises: naming a broker trusts its cluster. Pure. Shown by
tests/workloads/test_workloads_may_connect.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.door.addresses import AddressError, format_address, parse_address


def parse_may_connect(text: str) -> tuple[str, ...]:
    """`HOST:PORT[,HOST:PORT...]`. Raises AddressError, which says what is wrong."""
    return tuple(_normal(part) for part in text.split(","))


def refusal(host: str, bootstrap_servers: str, may_connect: Iterable[str]) -> str:
    """Why this load host does not send its clients there; empty if it does. Names are compared as they are written,
    because what a name resolves to can change."""
    permitted = tuple(may_connect)
    try:
        wanted = [_normal(part) for part in bootstrap_servers.split(",")]
    except AddressError as error:
        return f"load host {host} does not connect: {error}"
    others = [address for address in wanted if address not in permitted]
    if not others:
        return ""
    return (
        f"load host {host} may not connect to {', '.join(others)}: its --may-connect names {', '.join(permitted)}; if "
        "these brokers may get its credentials, its operator adds them there"
    )


def _normal(part: str) -> str:
    host, port = parse_address(part)
    if not host:
        raise AddressError(f"expected host:port, got {part!r}")
    return format_address(host.lower(), port)
