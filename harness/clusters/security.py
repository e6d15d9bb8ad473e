"""The security of connections to an external cluster: a client's properties file with Kafka's own names, read once.

The harness' probes use the whole file. The proxies take the TLS part, so a client that goes through them only has the
SASL part left. Stores are PEM files, or trust stores that the JDK's keytool can read. Never shows a password. Shown by
tests/harness/test_harness_security.py and test_harness_external.py.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.door.client_settings import PROTOCOLS, SecurityConfig, parse_security, property_name, settings_of
from broker.door.client_settings import Security as ClientSecurity
from broker.door.clients import ConfigurationError
from broker.door.security import Credentials, PropertiesError, parse_java_properties
from harness.errors import EnvironmentFault, UsageError
from harness.suite_source import file_problem, nearest
from runlog.files.redaction import hidden_text
from runlog.files.user_files import UserFileError, read_text

PEM: Final = "PEM"
KEYTOOL_TIMEOUT_S: Final = 60
# The properties that are used here. All others go to the clients unchanged. A client refuses what it does not know.
_OWN: Final = frozenset(property_name(each.name) for each in settings_of(SecurityConfig))


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """`properties` are the whole file. The other fields are what the harness itself needs of it."""

    properties: Mapping[str, str] = field(repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)  # None: no TLS
    credentials: Credentials | None = None  # None: no SASL
    ca_file: str = ""  # empty: the host's own trust store
    certificate_file: str = ""
    is_hostname_checked: bool = True

    @property
    def is_tls(self) -> bool:
        return self.context is not None

    def behind_proxies(self) -> dict[str, str]:
        """The clients' properties if TLS ends at the proxies, whose listeners are on this host's loopback."""
        left = {name: value for name, value in self.properties.items() if not name.startswith("ssl.")}
        left.pop("security.protocol", None)
        return left | ({"security.protocol": "SASL_PLAINTEXT"} if self.credentials else {})

    def proxy_tls(self) -> dict[str, object] | None:
        """`upstream_tls` of the embedded proxies; None where the cluster is in plain text."""
        if not self.is_tls:
            return None
        return {
            "ca_file": self.ca_file,
            "certificate_file": self.certificate_file,
            "is_hostname_checked": self.is_hostname_checked,
        }


def read_security(path: Path, scratch: Path) -> Security:
    """`scratch` takes certificates that are converted. UsageError with file and line or property."""
    properties = read_properties(path)
    protocol = properties.get("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise UsageError(f"{path}: security.protocol is {protocol!r}{nearest(protocol, PROTOCOLS)}")
    is_tls = protocol.endswith("SSL")
    given = [name for name in properties if name.startswith("ssl.")]
    if given and not is_tls:
        raise UsageError(f"{path}: {given[0]} has no effect with security.protocol={protocol}")
    ca_file = _trusted(path, properties, scratch) if is_tls else ""
    certificate_file = _own_certificate(path, properties) if is_tls else ""
    own = {name: value for name, value in properties.items() if name in _OWN}
    own.pop("ssl.truststore.certificates", None)
    for store, file in (("ssl.truststore", ca_file), ("ssl.keystore", certificate_file)):
        own.pop(f"{store}.location", None)
        if file:
            own |= {f"{store}.location": file, f"{store}.type": PEM}
    try:
        config = parse_security(own)
        made = ClientSecurity(config)
    except ConfigurationError as error:
        raise UsageError(f"{path}: {str(error).partition(': ')[2]}") from error
    return Security(
        properties=properties,
        context=made.context,
        credentials=made.credentials,
        ca_file=ca_file,
        certificate_file=certificate_file,
        is_hostname_checked=config.is_hostname_checked,
    )


def read_properties(path: Path) -> dict[str, str]:
    """A file of properties, as Java reads it (broker/java_properties.py)."""
    if problem := file_problem(path):
        raise UsageError(f"--client-config {problem}")
    try:
        text = read_text(path)
    except UserFileError as error:
        raise UsageError(f"--client-config {error.at(path)}") from error
    try:
        return {each.key: each.value for each in parse_java_properties(text)}
    except PropertiesError as error:
        raise UsageError(f"{path}:{error.line}: {hidden_text(str(error))}") from error


def _trusted(path: Path, properties: Mapping[str, str], scratch: Path) -> str:
    kind = properties.get("ssl.truststore.type", "JKS").upper()
    inline = properties.get("ssl.truststore.certificates")
    location = properties.get("ssl.truststore.location")
    if inline is not None:
        return str(_written(scratch / "trusted.pem", inline))
    if location is None:
        return ""
    store = (path.parent / location).resolve()
    if not store.is_file():
        raise UsageError(f"{path}: ssl.truststore.location {store} is no file")
    if kind == PEM:
        return str(store)
    return str(_written(scratch / "trusted.pem", _exported(store, properties.get("ssl.truststore.password", ""))))


def _own_certificate(path: Path, properties: Mapping[str, str]) -> str:
    location = properties.get("ssl.keystore.location")
    if location is None:
        return ""
    kind = properties.get("ssl.keystore.type", "JKS").upper()
    if kind != PEM:
        raise UsageError(
            f"{path}: ssl.keystore.type is {kind}, the harness reads PEM: convert it "
            "(openssl pkcs12 -in STORE -out STORE.pem -nodes) and say ssl.keystore.type=PEM"
        )
    store = (path.parent / location).resolve()
    if not store.is_file():
        raise UsageError(f"{path}: ssl.keystore.location {store} is no file")
    return str(store)


def _exported(store: Path, password: str) -> str:
    """The certificates of a JKS or PKCS#12 trust store, by keytool, which takes the password from a file."""
    keytool = shutil.which("keytool")
    if keytool is None:
        raise EnvironmentFault(f"{store} is no PEM file, and keytool (of a JDK) is not here to read it")
    with tempfile.NamedTemporaryFile("w", suffix=".password") as secret:
        secret.write(password)
        secret.flush()
        done = subprocess.run(
            [keytool, "-list", "-rfc", "-keystore", str(store), "-storepass:file", secret.name],
            capture_output=True, text=True, timeout=KEYTOOL_TIMEOUT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    if done.returncode != 0:
        raise UsageError(f"{store} cannot be read: {(done.stdout + done.stderr).strip()[:200]}")
    return done.stdout


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
