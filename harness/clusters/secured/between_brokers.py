"""How the brokers and controllers of a secured cluster authenticate each other, on their own listeners.

With TLS each of them shows a certificate of the run's authority, and others are refused. This needs no password, and
works before there is any metadata. So these listeners speak SSL also if clients speak SASL_SSL. Operators of Kafka
mostly do the same, for example Strimzi. Without TLS they speak SASL with PLAIN, whatever the mechanism of the clients
is. SCRAM cannot be used between controllers: its credentials are in the metadata, which is read over this listener.

Either way a broker is `User:broker`. Pure, but for the certificate that is issued. Shown by
tests/harness/test_harness_access.py and, with real nodes, test_harness_secured_listeners.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from broker.door.security import MODULES
from harness.cluster_security import ClusterSecurity
from harness.clusters.base import NodeLayout
from harness.clusters.secured.authority import Authority

BROKER: Final = "broker"
INTERNAL: Final = "INTERNAL"
LISTENERS: Final = (INTERNAL, "CONTROLLER")
_MECHANISM: Final = "PLAIN"
# There is no DEFAULT: a certificate of the same authority that is no broker's, such as a client's, gets no name. The
# connection then ends at its first request.
_NAME_OF_BROKER: Final = f"RULE:^CN={BROKER}(-[0-9]+)?$/{BROKER}/"


class BetweenBrokers:
    """`authority` is None without TLS."""

    def __init__(self, wanted: ClusterSecurity, authority: Authority | None) -> None:
        self._authority = authority
        self._password = "" if wanted.is_tls else secrets.token_urlsafe(18)
        self.protocol = "SSL" if wanted.is_tls else "SASL_PLAINTEXT"

    def properties(self, node: NodeLayout) -> dict[str, str]:
        """The properties of a node, without `logins`."""
        if self._authority is None:
            own = {"sasl.mechanism.inter.broker.protocol": _MECHANISM, "sasl.mechanism.controller.protocol": _MECHANISM}
            return own | _of_each({"sasl.enabled.mechanisms": _MECHANISM})
        # Apache Kafka's nodes connect to each other by name. Certificates of clients' listeners may change during a
        # run.
        name = f"{BROKER}-{node.broker_id}"
        issued = self._authority.issue(name, [node.direct.host, name], file_name=f"between-{name}")
        return _of_each(
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(issued.store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._authority.certificate),
                "ssl.client.auth": "required",
                "ssl.principal.mapping.rules": _NAME_OF_BROKER,
            }
        )

    def logins(self) -> dict[str, str]:
        """The lines with the password."""
        if not self._password:
            return {}
        options = f'username="{BROKER}" password="{self._password}" user_{BROKER}="{self._password}"'
        return _of_each({f"{_MECHANISM.lower()}.sasl.jaas.config": f"{MODULES[_MECHANISM]} required {options};"})

    def client_properties(self) -> dict[str, str]:
        """What somebody needs who comes as a broker. Contains the password."""
        if self._authority is None:
            options = f'username="{BROKER}" password="{self._password}"'
            return {
                "security.protocol": self.protocol,
                "sasl.mechanism": _MECHANISM,
                "sasl.jaas.config": f"{MODULES[_MECHANISM]} required {options};",
            }
        return {
            "security.protocol": self.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._authority.certificate),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._authority.issue(BROKER).store),
        }


def _of_each(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"listener.name.{name.lower()}.{key}": value for name in LISTENERS for key, value in settings.items()}
