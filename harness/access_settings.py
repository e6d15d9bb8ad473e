"""Security settings of clients in a suite: which are allowed there, and where the others belong. Pure.

On our own cluster the run makes certificates, passwords and tokens, and gives all clients the same. If a suite set
them for some clients, they would have no effect, or a client could not connect. Shown by
tests/harness/test_harness_careless.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from workloads.clients.security import is_security

AccessCheck: TypeAlias = Callable[[str], str]  # a setting's name -> what is wrong with it; empty if nothing
_OF_THE_CLUSTER: Final = ("security.protocol", "sasl.mechanism", "sasl.mechanisms")
# How TLS is spoken, and not who speaks it.
_OF_TLS: Final = (
    "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.protocol",
)  # fmt: skip
_EXTERNAL: Final = "--client-config FILE says how a cluster of yours is reached"


def access_check(*, is_own: bool, has_tls: bool) -> AccessCheck:
    """`is_own`: the harness starts the cluster. `has_tls`: some cell speaks TLS, or it is not known yet."""

    def problem(name: str) -> str:
        if name in _OF_THE_CLUSTER:
            return (
                f"{name} is no setting of the load here: cluster.security secures a cluster that the harness starts, "
                f"and {_EXTERNAL}"
            )
        if not is_own or not is_security(name):
            return ""
        if name in _OF_TLS:
            return "" if has_tls else f"{name} has no effect, because no cell speaks TLS: {_advice('ssl.')}"
        return (
            f"{name} is no setting of a cluster that the harness starts, and which makes up what its clients need: "
            f"{_advice(name)}. A suite that is only for a cluster of yours says so by `engines: [external]`"
        )

    return problem


def _advice(name: str) -> str:
    if name.startswith("sasl."):
        return f"cluster.sasl.mechanism says how clients log in, and {_EXTERNAL}"
    if name.startswith(("ssl.keystore.", "ssl.key.")):
        return f"cluster.ssl.client.auth=required gives clients certificates, and {_EXTERNAL}"
    return f"cluster.security=ssl or sasl_ssl has TLS, and {_EXTERNAL}"
