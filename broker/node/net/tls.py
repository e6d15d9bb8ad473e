"""TLS contexts from a listener's settings, and their renewal when the files or the settings change.

PEM and PKCS12 are read (docs/guide/broker-security.md says how to convert JKS). No key is written to a disk.

A request can name a file (IncrementalAlterConfigs). So only regular files of a bounded size are read, and a broker that
runs never reads one on its event loop. Shown by tests/broker_node/test_node_tls.py and test_node_store_files.py.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import stat
from collections.abc import Callable
from typing import Final

from broker.node.process.logs import Logger
from broker.node.settings.security import SecurityError, TlsSettings
from broker.security.keystores import StoreError, conversion, kind_of, read_pkcs12
from broker.unnamed_file import unnamed_file

STORE_BYTES_MAX: Final = 4 << 20  # the authorities of a whole system are about 300 KB
# A handshake waits this long for a look at the files. On a disk that does not answer, it then takes what it has.
CHECK_TIMEOUT_S: Final = 1.0
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
    try:
        content = _content(location)
    except OSError as error:
        raise SecurityError(key, f"{location} cannot be read: {error.strerror}") from None
    kind = kind_of(content)
    if kind == "PEM":
        return content.decode(errors="replace")
    if kind == "PKCS12":
        try:
            found = read_pkcs12(content, password)
        except StoreError as error:
            raise SecurityError(key, f"{location}: {error}") from None
        return found.trusted if store == "truststore" else f"{found.key}\n{found.chain}"
    hint = f"; {conversion(kind, store, location)}" if kind == "JKS" else ""
    raise SecurityError(key, f"{location}: expected PEM or PKCS12, got {kind}{hint}")


def _content(location: str) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else. A device is not even opened, because that alone
    can have an effect (/dev/ptmx makes a terminal), and its content may have no end."""
    _check_store(os.stat(location))
    # O_NONBLOCK: a FIFO that has taken the file's place meanwhile would wait for a writer.
    descriptor = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        _check_store(os.fstat(descriptor))
        content = file.read(STORE_BYTES_MAX + 1)
    if len(content) > STORE_BYTES_MAX:
        raise _too_large(len(content))
    return content


def _check_store(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "expected a regular file")
    if found.st_size > STORE_BYTES_MAX:
        raise _too_large(found.st_size)


def _too_large(size_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"expected a store of at most {STORE_BYTES_MAX} bytes, got {size_bytes}")


class Contexts:
    """The context of a listener for the next connection. Open connections keep the context with which they began.

    Files that have changed since the last check are read again, in a thread. If they cannot be used, the old context
    stays, and a log line says so. One reason is that certificates are often renewed in two steps.
    """

    def __init__(
        self,
        listener: str,
        settings: TlsSettings,
        logger: Logger,
        make: Callable[[TlsSettings], ssl.SSLContext] = server_context,
    ) -> None:
        """Reads the files at once: the broker has not begun yet. Raises SecurityError."""
        self._listener, self._logger, self._make = listener, logger, make
        self.settings = settings
        self._wanted = settings
        self._tried = settings, _files(settings)  # the last attempt: nothing is tried twice
        self._context = make(settings)
        self._check: asyncio.Task[None] | None = None  # at most one at a time, for all handshakes that wait

    async def current(self) -> ssl.SSLContext:
        await asyncio.wait([self._begin_check()], timeout=CHECK_TIMEOUT_S)
        return self._context

    def reconfigure(self, settings: TlsSettings) -> None:
        """Takes new settings for new connections, soon after this call."""
        if settings != self._wanted:
            self._wanted = settings
            self._begin_check()

    def _begin_check(self) -> asyncio.Task[None]:
        if self._check is None or self._check.done():
            self._check = asyncio.get_running_loop().create_task(self._check_files())
        return self._check

    async def _check_files(self) -> None:
        done: TlsSettings | None = None
        while done is not self._wanted:  # again, if others were set meanwhile
            done = self._wanted
            attempt = done, await asyncio.to_thread(_files, done)
            if attempt == self._tried:
                continue
            self._tried = attempt
            try:
                self._context = await asyncio.to_thread(self._make, done)
            except SecurityError as error:
                self._logger.warning("certificates_kept", listener=self._listener, cause=repr(str(error)))
                continue
            self.settings = done
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
