"""What the options about load hosts and fault hosts ask for together, and which of them need one another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.arguments.parameters import LISTEN_DEFAULT
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.run.hosts.load_hosts import LoadHostsRequest


def load_hosts_asked(
    count: int | None,
    listen: str,
    key: Path | None,
    store: str | None = None,
    *,
    web: bool = False,
    of_faults: int | None = None,
) -> LoadHostsRequest | None:
    """None: the load runs here. UsageError for options that do not fit together. `of_faults`: hosts that need the key
    too."""
    if count is None:
        if key is not None and of_faults is None:
            raise UsageError("--load-key needs --load-hosts N or --fault-hosts N")
        if store is not None:
            raise UsageError("--load-store needs --load-hosts N: without them all run logs are here")
        if listen != LISTEN_DEFAULT:
            raise UsageError("--load-listen needs --load-hosts N")
        return None
    if web:
        raise UsageError("--web shows the load of one host: leave it out with --load-hosts")
    from harness.run.hosts.load_hosts import load_hosts_request

    return load_hosts_request(count, listen, key, store)


def fault_hosts_asked(count: int | None, listen: str, key: Path | None) -> LoadHostsRequest | None:
    """None: processes of somebody else's cluster are left alone."""
    if count is None:
        return None
    from harness.run.hosts.load_hosts import load_hosts_request

    return load_hosts_request(count, listen, key, option="--fault")
