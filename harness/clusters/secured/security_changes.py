"""Changes the security of a running cluster of the harness, as an operator does: renew certificates, change a password,
revoke an access control list, stop giving tokens.

Implements `chaos.ports.security.SecurityChanges`. Brokers get new certificates by IncrementalAlterConfigs
(`listener.name.external.ssl.keystore.location`), as Apache Kafka requires. The proxies before them, which terminate
TLS, get certificates of the same authority with the same expiry. The listener of the harness does not change. Shown by
tests/harness/test_harness_security_changes.py."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.door.clients import AuthenticationError, KafkaError
from broker.door.questions import (
    DirectConnection,
    allowed_operations,
    changed_settings,
    created_acls,
    deleted_acl,
    metadata_of,
    scram_user,
)
from broker.door.security import Operation
from chaos.ports.security import ACCEPTED, Issuer, SeenCertificate
from harness.clusters.base import Address, ClusterLayout, Link, NodeLayout
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.admin import Admin
from harness.clusters.secured.access import LOAD, MadeUpAccess, list_of_load
from harness.clusters.secured.authority import VALID_S, Authority, Issued
from harness.clusters.secured.listeners import listener_of
from harness.clusters.secured.token_endpoint import TokenEndpoint
from harness.errors import CellError

CLIENTS: Final = "EXTERNAL"  # the listener whose certificates change
_TIMEOUT_S: Final = 10.0
_KNOWN_WITHIN_S: Final = 30.0  # until a broker shows what it was told, on a busy host
_POLL_S: Final = 0.05
_NO_ANSWER: Final = "no answer"


class SecurityChanges:
    """Changes the security of a running cluster. Called from the timeline's thread."""

    def __init__(self, layout: ClusterLayout, access: MadeUpAccess, proxies: LinkProxies | None) -> None:
        self._access, self._proxies = access, proxies
        self._nodes: dict[int, NodeLayout] = {int(node.broker_id): node for node in layout.nodes}
        self._links: dict[int, Link] = {int(link.target): link for link in layout.links if link.kind == "client"}
        self._admin = Admin(lambda: [node.direct for node in self._nodes.values()])
        self._numbers = itertools.count(1)
        self._unknown: Authority | None = None

    # --- certificates ---------------------------------------------------------------------------------------------

    def certificates(self, brokers: Sequence[int]) -> Mapping[str, SeenCertificate]:
        places = {f"broker {broker}": self._listener(broker) for broker in brokers}
        if self._proxies is not None:
            places |= {f"proxy before broker {broker}": self._links[broker].listen for broker in brokers}
        with ThreadPoolExecutor(max_workers=len(places)) as pool:
            return dict(zip(places, pool.map(self._seen, places.values()), strict=True))

    def renew_certificates(self, brokers: Sequence[int], *, valid_s: float | None, issuer: Issuer) -> float:
        authority, number = self._authority(issuer), next(self._numbers)
        ends_s = []
        for broker in brokers:
            host = self._listener(broker).host
            issued = self._issued(authority, f"broker-{broker}", [host], number, valid_s)
            if self._proxies is not None:
                hosts = sorted({link.listen.host for link in self._links.values()})
                shown = self._issued(authority, "proxies", hosts, number, valid_s)
                self._secure_proxy(broker, shown.store, authority.certificate)
                ends_s.append(shown.expires_at_s)
            self._tell(broker, issued.store)
            ends_s.append(issued.expires_at_s)
        return max(ends_s)

    def _issued(
        self, authority: Authority, name: str, hosts: Sequence[str], number: int, valid_s: float | None
    ) -> Issued:
        return authority.issue(
            name, hosts, valid_s=VALID_S if valid_s is None else valid_s, file_name=f"{name}-{number}"
        )

    def _authority(self, issuer: Issuer) -> Authority:
        access = self._access
        if access.authority is None or access.next_authority is None:
            raise CellError("the cluster has no certificates: cluster.security must be ssl or sasl_ssl")
        if issuer is Issuer.UNKNOWN:
            self._unknown = self._unknown or Authority(access.directory / "unknown", "kafka-harness-unknown")
            return self._unknown
        return access.authority if issuer is Issuer.PRESENT else access.next_authority

    def _secure_proxy(self, broker: int, store: Path, trusted: Path) -> None:
        assert self._proxies is not None
        client, name = self._proxies.kafka(self._links[broker].name)
        upstream = {**(self._links[broker].upstream_tls or {}), "server_name": self._links[broker].upstream.host}
        listen = {**(self._links[broker].listen_tls or {}), "certificate_file": str(store)}
        client.secure(name, listen_tls=listen, upstream_tls={**upstream, "ca_file": str(trusted)})

    def _tell(self, broker: int, store: Path) -> None:
        """The broker validates what it is told itself, so it is told itself. Ends when it shows the certificate."""
        node = self._nodes[broker]
        setting = {f"listener.name.{CLIENTS.lower()}.ssl.keystore.location": str(store)}
        Admin(lambda: [node.direct]).change(
            f"broker {broker} does not take its new certificate", changed_settings("broker", str(broker), set_=setting)
        )
        wanted = _fingerprint(ssl.PEM_cert_to_DER_cert(_first_certificate(store)))
        deadline = time.monotonic() + _KNOWN_WITHIN_S
        while self._seen(self._listener(broker)).fingerprint != wanted:
            if time.monotonic() > deadline:
                raise CellError(f"broker {broker} does not show its new certificate after {_KNOWN_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)

    def _seen(self, address: Address) -> SeenCertificate:
        """Two handshakes: one that takes any certificate and reads it, and one as a client of the load does it."""
        blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        if own := self._access.load_security.certificate_file:
            blind.load_cert_chain(own)
        fingerprint, outcome = "", _NO_ANSWER
        try:
            with _handshake(address, blind) as opened:
                fingerprint = _fingerprint(opened.getpeercert(binary_form=True) or b"")
            context = self._access.load_security.context
            assert context is not None, "only clusters with TLS have certificates"
            with _handshake(address, context):
                outcome = ACCEPTED
        except ssl.SSLCertVerificationError as error:
            outcome = str(error.verify_message)
        except OSError:  # it ends the connection, or nobody is there
            pass
        return SeenCertificate(fingerprint=fingerprint, outcome=outcome)

    def _listener(self, broker: int) -> Address:
        return listener_of(self._nodes[broker], CLIENTS)

    # --- passwords ------------------------------------------------------------------------------------------------

    def change_password(self) -> None:
        self._set_password(secrets.token_urlsafe(18))

    def restore_password(self) -> None:
        self._set_password(self._access.passwords[LOAD])

    def _set_password(self, password: str) -> None:
        if not self._access.wanted.is_scram:
            raise CellError(
                "only the passwords of SCRAM can be changed: cluster.sasl.mechanism must be SCRAM-SHA-256 or -512"
            )
        question = scram_user(LOAD, self._access.wanted.mechanism, password)
        self._admin.change(f"the password of user {LOAD} could not be changed", question)

    def logins(self, brokers: Sequence[int]) -> Mapping[str, str]:
        return {f"broker {broker}": self._login(broker) for broker in brokers}

    def _login(self, broker: int) -> str:
        try:
            with self._as_load(broker) as connection:
                connection.ask(metadata_of([]))
        except AuthenticationError:
            return "refused"
        except KafkaError:
            return _NO_ANSWER
        return ACCEPTED

    @contextmanager
    def _as_load(self, broker: int) -> Iterator[DirectConnection]:
        """A connection over the harness's own listener, on which no fault of a link or certificate acts."""
        address = replace(self._nodes[broker].direct, security=self._access.load_security)
        connection = DirectConnection(
            address.host, address.port, client_id="as-load", timeout_s=_TIMEOUT_S, security=address.security
        )
        try:
            yield connection
        finally:
            connection.close()

    # --- access control lists -------------------------------------------------------------------------------------

    def forbid(self, operation: str) -> None:
        self._require_lists()
        wanted = list_of_load(Operation[operation.upper()])
        self._admin.change(f"the list that allows {operation} could not be deleted", deleted_acl(wanted))

    def allow(self, operation: str) -> None:
        self._require_lists()
        wanted = list_of_load(Operation[operation.upper()])
        self._admin.change(f"the list that allows {operation} could not be made", created_acls((wanted,)))

    def _require_lists(self) -> None:
        if not self._access.wanted.is_authorized:
            raise CellError("the cluster has no access control lists: the scenario must say `authorization: true`")

    def allowed(self, brokers: Sequence[int], topic: str) -> Mapping[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {}
        for broker in brokers:
            try:
                with self._as_load(broker) as connection:
                    operations = connection.ask(allowed_operations(topic))
            except KafkaError:
                continue
            found[f"broker {broker}"] = sorted(each.name.lower() for each in operations)
        return found

    # --- tokens ---------------------------------------------------------------------------------------------------

    def refuse_tokens(self) -> None:
        self._tokens.forbid(LOAD)

    def give_tokens(self) -> None:
        self._tokens.allow(LOAD)

    def token_counts(self) -> Mapping[str, int]:
        return self._tokens.counts(LOAD)

    @property
    def _tokens(self) -> TokenEndpoint:
        if self._access.tokens is None:
            raise CellError("the cluster's clients have no tokens: cluster.sasl.mechanism must be OAUTHBEARER")
        return self._access.tokens


@contextmanager
def _handshake(address: Address, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection((address.host, address.port), timeout=_TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname=address.host) as opened,
    ):
        yield opened


def _first_certificate(store: Path) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return begin + store.read_text().partition(begin)[2].partition(end)[0] + end


def _fingerprint(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()[:16] if certificate else ""
