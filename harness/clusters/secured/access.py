"""How a cluster of the harness is secured for one run: makes its certificates and passwords, and a layout that uses
them.

`cluster.security` of a suite asks for it. All listeners are secured: those of clients and of the harness (EXTERNAL,
DIRECT) here, those between brokers and of controllers by between_brokers.py. There are two users: `harness` for the
connections of the harness, and `load` for the clients of the load. Secrets are written only into a directory of
this cluster, which only the owner can enter, and which is removed when the cluster is stopped. Shown by
tests/harness/test_harness_access.py. The changes that faults make are in security_changes.py.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from broker.door.clients import KafkaError
from broker.door.questions import Question, created_acls, scram_user
from broker.door.security import (
    CLUSTER_NAME,
    MODULES,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from harness.cluster_security import BEARER, ClusterSecurity
from harness.clusters.base import Address, ClusterLayout, Link, NodeLayout
from harness.clusters.layout_reference import render_properties
from harness.clusters.requests.admin import Admin
from harness.clusters.secured.authority import Authority
from harness.clusters.secured.between_brokers import BROKER, INTERNAL, BetweenBrokers
from harness.clusters.secured.listeners import listener_of
from harness.clusters.secured.token_endpoint import TokenEndpoint
from harness.clusters.security import Security, read_security
from harness.errors import EnvironmentFault, UsageError

HARNESS: Final = "harness"
LOAD: Final = "load"
OF_CLIENTS: Final = ("EXTERNAL", "DIRECT")
_NOT_SHOWN: Final = "(not shown)"
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{HARNESS};User:{BROKER}",
}
_NAME_OF_CERTIFICATE: Final = "RULE:^CN=([^,]+)$/$1/,DEFAULT"  # gives User:load instead of User:CN=load
_JAVA_VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_JAVA_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def list_of_load(operation: Operation, kind: ResourceType = ResourceType.TOPIC, name: str = WILDCARD) -> AclBinding:
    """The access control list that allows the load's user `operation`, on all topics unless others are named."""
    return AclBinding(
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal=f"User:{LOAD}",
        host=WILDCARD,
        operation=operation,
        permission=Permission.ALLOW,
    )


_LISTS: Final = (
    list_of_load(Operation.READ),
    list_of_load(Operation.WRITE),
    list_of_load(Operation.READ, ResourceType.GROUP),
    list_of_load(Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
    list_of_load(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME),
)


class AccessStep(Protocol):
    """`admit` or `permit` of MadeUpAccess."""

    def __call__(self, layout: ClusterLayout, *, should_stop: Callable[[], bool]) -> None: ...


class MadeUpAccess:
    """The secrets of one cluster. Call `remove` when the cluster has been stopped."""

    def __init__(self, directory: Path, wanted: ClusterSecurity) -> None:
        self.wanted = wanted
        self.directory = directory.resolve() / "secrets"
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.passwords = {user: secrets.token_urlsafe(18) for user in (HARNESS, LOAD)}
        self.authority = self.next_authority = None
        if wanted.is_tls:
            self.authority = Authority(self.directory)
            self.next_authority = Authority(self.directory / "next", "kafka-harness-next")
            trusted = self.authority.certificate.read_text() + self.next_authority.certificate.read_text()
            _write(self.trusted, trusted)
        self._certificates: dict[str, Path] = {}  # The key is the user.
        if self.authority is not None and wanted.is_mutual:
            self._certificates = {user: self.authority.issue(user).store for user in (HARNESS, LOAD)}
        self.tokens = TokenEndpoint(self.directory, self.passwords) if wanted.mechanism == BEARER else None
        self._between = BetweenBrokers(wanted, self.authority)
        self.security = self._read(HARNESS, self._properties_of(HARNESS))
        self.load_security = self._read(LOAD, self._properties_of(LOAD))
        self.broker_security = self._read(BROKER, self._between.client_properties())

    @property
    def trusted(self) -> Path:
        """The certificates that clients trust."""
        return self.directory / "trusted.pem"

    @property
    def client_properties(self) -> Mapping[str, str]:
        """The security settings of a client of the load. They contain the password."""
        return self.load_security.properties

    def admit(self, layout: ClusterLayout, *, should_stop: Callable[[], bool]) -> None:
        """Make the SCRAM users, over the listener of the brokers, which needs none of them. StorageTool has made them
        where a command prepared the brokers. Raises EnvironmentFault."""
        if self.wanted.is_scram and not any(is_java(node) for node in layout.nodes):
            as_broker = [replace(listener_of(node, INTERNAL), security=self.broker_security) for node in layout.nodes]
            for user, password in self.passwords.items():
                _carry_out(as_broker, scram_user(user, self.wanted.mechanism, password), should_stop)

    def permit(self, layout: ClusterLayout, *, should_stop: Callable[[], bool]) -> None:
        """Make the lists of the load's user, once all brokers are up. Raises EnvironmentFault."""
        if self.wanted.is_authorized:
            _carry_out([node.direct for node in layout.nodes], created_acls(_LISTS), should_stop)

    def remove(self) -> None:
        if self.tokens is not None:
            self.tokens.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def applied(self, layout: ClusterLayout) -> ClusterLayout:
        """The layout with secured listeners. Writes certificates and the brokers' own files."""
        proxies_store = self._proxies_store(layout.links)
        return replace(
            layout,
            nodes=tuple(self._node(node) for node in layout.nodes),
            links=tuple(self._link(link, proxies_store) for link in layout.links),
            client_properties=self.client_properties,
        )

    def _read(self, user: str, properties: Mapping[str, str]) -> Security:
        path = self.directory / f"{user}.properties"
        _write(path, render_properties(properties))
        return read_security(path, self.directory)

    def _properties_of(self, user: str) -> dict[str, str]:
        found = {"security.protocol": self.wanted.protocol.upper()}
        if self.authority is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trusted)}
        if user in self._certificates:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._certificates[user])}
        if self.wanted.is_sasl:
            found["sasl.mechanism"] = self.wanted.mechanism
        if self.tokens is not None:
            found |= {
                "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                "sasl.oauthbearer.client.credentials.client.id": user,
                "sasl.oauthbearer.client.credentials.client.secret": self.passwords[user],
            }
        elif self.wanted.is_sasl:
            options = f'username="{user}" password="{self.passwords[user]}"'
            found["sasl.jaas.config"] = f"{MODULES[self.wanted.mechanism]} required {options};"
        return found

    def _proxies_store(self, links: tuple[Link, ...]) -> Path | None:
        hosts = sorted({link.listen.host for link in links if link.kind == "client"})
        if self.authority is None or not hosts:
            return None
        return self.authority.issue("proxies", hosts).store

    def _link(self, link: Link, store: Path | None) -> Link:
        """Clients speak TLS to the proxy, and the proxy speaks TLS to the broker. So the proxy can read the frames.

        Where clients must have certificates, the proxy asks for one of the same authority, and shows the load's to the
        broker.
        """
        if link.kind != "client":
            return replace(link, carries_tls=self.wanted.is_tls, probes=self.broker_security)
        link = replace(link, probes=self.load_security)
        if store is None:
            return link
        listen_tls = {"certificate_file": str(store)}
        if self.wanted.is_mutual:
            listen_tls["client_ca_file"] = str(self.trusted)
        return replace(link, listen_tls=listen_tls, upstream_tls=self.load_security.proxy_tls())

    def _node(self, node: NodeLayout) -> NodeLayout:
        own = self._broker_properties(node) | self._between.properties(node)
        hidden = self._logins() | self._between.logins()
        shown = {**node.properties, **own}
        plain_path = node.directory / "server.properties"
        path = self.directory / f"broker-{node.broker_id}.properties"
        _write(path, render_properties({**shown, **hidden}))
        shown |= dict.fromkeys(hidden, _NOT_SHOWN)
        return replace(
            node,
            properties=shown,
            files={**node.files, plain_path: render_properties(shown)},
            command=self._command(_with_path(node.command, plain_path, path), node),
            prepare_commands=tuple(
                self._prepared(_with_path(command, plain_path, path), node) for command in node.prepare_commands
            ),
            direct=replace(node.direct, security=self.security),
        )

    def _command(self, command: tuple[str, ...], node: NodeLayout) -> tuple[str, ...]:
        """A JVM reads tokens' keys only from places that its command line allows."""
        if self.tokens is None or not is_java(node):
            return command
        return command[0], f"-D{_JAVA_URLS}={self.tokens.keys_url}", *command[1:]

    def _broker_properties(self, node: NodeLayout) -> dict[str, str]:
        protocol = self.wanted.protocol.upper()
        listeners = [each.partition(":")[0] for each in node.properties["listener.security.protocol.map"].split(",")]
        own = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol if name in OF_CLIENTS else self._between.protocol}" for name in listeners
            )
        }
        if self.authority is not None:
            issued = self.authority.issue(f"broker-{node.broker_id}", [node.direct.host])
            own |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(issued.store)}
        if self.wanted.is_mutual:
            own |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trusted)}
            for name in OF_CLIENTS:
                own[f"listener.name.{name.lower()}.ssl.client.auth"] = "required"
                own[f"listener.name.{name.lower()}.ssl.principal.mapping.rules"] = _NAME_OF_CERTIFICATE
        if self.wanted.is_sasl:
            own["sasl.enabled.mechanisms"] = self.wanted.mechanism
        if self.wanted.is_authorized:
            own |= _AUTHORIZER
        if self.tokens is not None:
            for name in OF_CLIENTS:
                own[f"listener.name.{name.lower()}.sasl.oauthbearer.jwks.endpoint.url"] = self.tokens.keys_url
                if is_java(node):
                    own[f"listener.name.{name.lower()}.oauthbearer.sasl.server.callback.handler.class"] = (
                        _JAVA_VALIDATOR
                    )
        return own

    def _logins(self) -> dict[str, str]:
        """The JAAS lines of the broker's listeners. SCRAM has its passwords in the cluster's metadata."""
        if not self.wanted.is_sasl:
            return {}
        mechanism = self.wanted.mechanism
        users = "".join(f' user_{user}="{password}"' for user, password in self.passwords.items())
        line = f"{MODULES[mechanism]} required{users if mechanism == 'PLAIN' else ''};"
        return {f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config": line for name in OF_CLIENTS}

    def _prepared(self, command: tuple[str, ...], node: NodeLayout) -> tuple[str, ...]:
        """StorageTool makes the SCRAM users. The JVM reads its command from a file, because everybody on the host can
        read a command line."""
        if not self.wanted.is_scram:
            return command
        path = self.directory / f"format-{node.broker_id}.arguments"
        words = list(command[1:])
        for user, password in self.passwords.items():
            words += ["--add-scram", f"{self.wanted.mechanism}=[name={user},password={password}]"]
        _write(path, "".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for word in words))
        return command[0], f"@{path}"


def _carry_out(addresses: Sequence[Address], question: Question[None], should_stop: Callable[[], bool]) -> None:
    last: object = "no broker answered"
    for answer in Admin(lambda: addresses, should_stop=should_stop).answers(question):
        if not isinstance(answer, KafkaError):
            return
        last = answer
    raise EnvironmentFault(f"the users of the cluster's clients could not be made: {last}")


def check_security(wanted: ClusterSecurity, engine: str) -> None:
    """UsageError if this kind of cluster cannot be secured so."""
    if not wanted.is_secured:
        return
    if engine == "external":
        raise UsageError(
            f"cluster.security {wanted.protocol}: an external cluster is secured by its owner; "
            "give --client-config FILE instead"
        )
    if engine == "docker":
        raise UsageError(f"cluster.security {wanted.protocol} is for --cluster reference and kafka, not for docker")


def is_java(node: NodeLayout) -> bool:
    return bool(node.prepare_commands)  # only Apache Kafka's storage is formatted


def _with_path(command: tuple[str, ...], old: Path, new: Path) -> tuple[str, ...]:
    assert str(old) in command, "the broker reads its properties from a file"
    return tuple(str(new) if word == str(old) else word for word in command)


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
