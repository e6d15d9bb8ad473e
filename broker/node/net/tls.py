"""TLS contexts from a listener's settings, and their renewal when the files or the settings change.

PEM and PKCS12 are read (docs/guide/broker-security.md says how to convert JKS). No key is written to a disk.
Shown by tests/broker_node/test_node_tls.py.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.node.process.logs import Logger
from broker.node.settings.security import SecurityError, TlsSettings
from broker.security.keystores import StoreError, conversion, kind_of, read_pkcs12
from broker.unnamed_file import unnamed_file

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises SecurityError, which names the setting and the error."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _prepare(context, settings)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for connections to other brokers. Without a trust store, the certificate authorities of the host are
    trusted, as Java trusts its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host
    _prepare(context, settings)
    if not (settings.truststore_location or settings.truststore_certificates):
        context.load_default_certs()
    return context


def _prepare(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.minimum_version = _VERSIONS[settings.versions[0]]
    context.maximum_version = _VERSIONS[settings.versions[-1]]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, every certificate in a trust store is trusted
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.cipher_suites:
        _choose_suites(context, settings.cipher_suites)
    _load_key(context, settings)
    _load_trust(context, settings)


def _choose_suites(context: ssl.SSLContext, suites: str) -> None:
    """Sets the cipher suites in this order. The broker's preference decides, and not the client's."""
    try:
        context.set_ciphers(suites)
    except ssl.SSLError:
        raise SecurityError("ssl.cipher.suites", f"OpenSSL has none of {suites.replace(':', ', ')}") from None
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    key = "ssl.keystore.location" if settings.keystore_location else "ssl.keystore.key"
    text = settings.key + "\n" + settings.certificate_chain
    if settings.keystore_location:
        text = _pem(settings.keystore_location, settings.keystore_password, key, "keystore")
    if "PRIVATE KEY-----" not in text or "-----BEGIN CERTIFICATE-----" not in text:
        raise SecurityError(
            key, "expected a private key and its certificates, each between -----BEGIN and -----END lines"
        )
    try:
        with unnamed_file(text) as path:
            # The password is a function. Without one, OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=lambda: settings.key_password)
    except OSError as error:  # ssl.SSLError is a subclass
        hint = "" if "ENCRYPTED" not in text else "; the key is encrypted: is ssl.key.password right?"
        raise SecurityError(
            key, f"the key or a certificate cannot be used: {getattr(error, 'reason', None) or error}{hint}"
        ) from None


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    key, text = "ssl.truststore.certificates", settings.truststore_certificates
    if settings.truststore_location:
        key = "ssl.truststore.location"
        text = _pem(settings.truststore_location, settings.truststore_password, key, "truststore")
    if not text:
        return
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise SecurityError(key, f"expected certificates between -----BEGIN and -----END lines: {error}") from None


def _pem(location: str, password: str, key: str, store: str) -> str:
    """The store as PEM. As with Java, the content decides its type, whatever type the settings say."""
    path = Path(location)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SecurityError(key, f"{path} cannot be read: {error.strerror}") from None
    kind = kind_of(content)
    if kind == "PEM":
        return content.decode(errors="replace")
    if kind == "PKCS12":
        try:
            found = read_pkcs12(content, password)
        except StoreError as error:
            raise SecurityError(key, f"{path}: {error}") from None
        return found.trusted if store == "truststore" else f"{found.key}\n{found.chain}"
    hint = f"; {conversion(kind, store, location)}" if kind == "JKS" else ""
    raise SecurityError(key, f"{path}: expected PEM or PKCS12, got {kind}{hint}")


class Contexts:
    """The context of a listener for the next connection. Open connections keep the context with which they began.

    Files that have changed since the last check are read again. If they cannot be used, the old context stays, and a
    log line says so. One reason is that certificates are often renewed in two steps.
    """

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        logger: Logger,
        make: Callable[[TlsSettings], ssl.SSLContext] = server_context,
    ) -> None:
        """Raises SecurityError."""
        self._listener, self._logger, self._make = listener, logger, make
        self.settings = settings
        self._seen = _files(settings)
        self._context = make(settings)

    def current(self) -> ssl.SSLContext:
        if (seen := _files(self.settings)) != self._seen:
            self._seen = seen
            self._renew(self.settings)
        return self._context

    def reconfigure(self, settings: TlsSettings) -> None:
        """Takes new settings for new connections."""
        if settings != self.settings:
            self._seen = _files(settings)
            self._renew(settings)

    def _renew(self, settings: TlsSettings) -> None:
        try:
            self._context = self._make(settings)
        except SecurityError as error:
            self._logger.warning("certificates_kept", listener=self._listener, cause=repr(str(error)))
            return
        self.settings = settings
        self._logger.info("certificates_renewed", listener=self._listener)


def _files(settings: TlsSettings) -> tuple[object, ...]:
    """A value that changes if a file changes: the inode, size and time of each file, or None if it does not exist."""
    return tuple(_state(path) for path in (settings.keystore_location, settings.truststore_location) if path)


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
