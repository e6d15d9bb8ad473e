"""TLS over a non-blocking socket, and the TLS context that follows from a client's settings.

`TlsTransport` has the three calls of a socket that `connection.py` uses. The engine works in memory (`ssl.MemoryBIO`),
so it never waits, and any socket class works, also in a process that gevent has patched. The module is imported only if
TLS is configured.
Shown by tests/broker_client/test_client_tls.py.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Final

from broker.client import native
from broker.client.core.errors import AuthenticationError, ConfigurationError, ConnectionClosedError
from broker.client.core.security_config import SecurityConfig
from broker.security.keystores import Store, StoreError, conversion, kind_of, read_pkcs12
from broker.unnamed_file import unnamed_file
from broker.wire.encoder import Buffer

# A record of TLS holds at most 16 KiB, and a header, padding and tag of at most 2 KiB (RFC 8446, 5.2).
RECORD_BYTES_MAX: Final = 16 * 1024 + 2048 + 5
SEND_BYTES_MAX: Final = 64 * 1024  # plain text in one call; this bounds the encrypted data that waits
RECEIVE_BYTES_MAX: Final = 256 * 1024
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(config: SecurityConfig, *, with_own_certificate: bool = True) -> ssl.SSLContext:
    """Without a trust store, the host's certificates are used. A ConfigurationError names the setting that cannot be
    used."""
    name = "ssl.truststore.location"
    try:
        context: ssl.SSLContext = native.ssl_context_class()(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = config.is_hostname_checked
        chosen = [_VERSIONS[each] for each in config.ssl_enabled_protocols]
        context.minimum_version, context.maximum_version = min(chosen), max(chosen)
        if config.ssl_truststore_location or config.ssl_truststore_certificates:
            inline = config.ssl_truststore_certificates.replace("\\n", "\n")
            name = "ssl.truststore.certificates" if inline else name
            store = _java_store(config.ssl_truststore_location, config.ssl_truststore_password, name)
            inline = inline if store is None else store.trusted
            context.load_verify_locations(
                cafile=config.ssl_truststore_location or None if store is None else None, cadata=inline or None
            )
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if with_own_certificate and (config.ssl_keystore_location or config.ssl_keystore_key):
            name = "ssl.keystore.key" if config.ssl_keystore_key else "ssl.keystore.location"
            with _own_certificate(config) as path:
                # The password is empty and not None: for None OpenSSL would ask on the terminal.
                context.load_cert_chain(path, password=config.ssl_key_password)
    except (OSError, ValueError) as error:
        shown = f"{config.ssl_truststore_location!r}: " if name == "ssl.truststore.location" else ""
        raise ConfigurationError(f"{name}: {shown}{_words(error)}") from error
    return context


@contextlib.contextmanager
def _own_certificate(config: SecurityConfig) -> Iterator[str]:
    """The path of a file with key and certificate chain. If they are in the settings, they go into a file in memory."""
    store = _java_store(config.ssl_keystore_location, config.ssl_keystore_password, "ssl.keystore.location")
    if store is not None:
        if not store.key:
            raise ConfigurationError(f"ssl.keystore.location: {config.ssl_keystore_location!r}: there is no key in it")
        with unnamed_file(f"{store.key}\n{store.chain}") as path:
            yield path
        return
    if not config.ssl_keystore_key:
        yield config.ssl_keystore_location
        return
    text = f"{config.ssl_keystore_key}\n{config.ssl_keystore_certificate_chain}\n".replace("\\n", "\n")
    with unnamed_file(text) as path:
        yield path


def _java_store(location: str, password: str, name: str) -> Store | None:
    """The content of a Java store. None if there is no file, or if the file is PEM. As with Java, the content decides.
    Raises OSError, ConfigurationError."""
    if not location:
        return None
    with open(location, "rb") as file:
        content = file.read()
    kind = kind_of(content)
    if kind not in ("PKCS12", "JKS"):
        return None  # it is PEM; if not, OpenSSL will report the error
    if kind == "JKS":
        store = "truststore" if name == "ssl.truststore.location" else "keystore"
        raise ConfigurationError(f"{name}: {location!r} is JKS, which is not read; {conversion(kind, store, location)}")
    try:
        return read_pkcs12(content, password)
    except StoreError as error:
        raise ConfigurationError(f"{name}: {location!r}: {error}") from None


class TlsTransport:
    """Invariant: after `recv_into` the engine holds no complete TLS record, so everything that can be read now has been
    read.

    The handshake runs in `begin` and `recv_into`. Until it is done, `sendmsg` takes nothing.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._engine = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._encrypted = memoryview(b"")  # encrypted bytes that the kernel has not taken yet
        self.is_established = False
        # data has arrived; with TLS 1.3 the peer refuses the client's certificate only after the client's side of the
        # handshake has ended
        self._has_heard = False

    def wants_write(self, has_more: bool) -> bool:
        """Whether to wait until the socket can be written."""
        return bool(self._encrypted) or self._outgoing.pending > 0 or (has_more and self.is_established)

    @property
    def is_drained(self) -> bool:
        """Whether the kernel has taken everything that `sendmsg` took."""
        return not self._encrypted and not self._outgoing.pending

    def begin(self) -> None:
        """The socket is connected. Sends the first message of the handshake."""
        self._shake()
        self.push()

    def push(self) -> None:
        """Writes encrypted bytes, as far as the kernel takes them. Raises OSError."""
        while self._encrypted or self._outgoing.pending:
            if not self._encrypted:
                self._encrypted = memoryview(self._outgoing.read())
            try:
                self._encrypted = self._encrypted[self._socket.send(self._encrypted) :]
            except BlockingIOError:
                return

    def sendmsg(self, buffers: Iterable[Buffer]) -> int:
        """Returns the number of bytes of plain text that were taken, at most 64 KiB. Raises BlockingIOError if none can
        be taken now."""
        self.push()
        if self._encrypted or not self.is_established:
            raise BlockingIOError
        taken = self._engine.write(_joined(buffers))
        self.push()
        return taken

    def recv_into(self, view: memoryview) -> int:
        """Returns the number of bytes of plain text that were read; 0 if the peer has closed. Raises BlockingIOError if
        there is none now, and AuthenticationError if one side does not accept the other's certificate."""
        assert len(view) > RECORD_BYTES_MAX
        encrypted = self._socket.recv(min(len(view) - RECORD_BYTES_MAX, RECEIVE_BYTES_MAX))
        if not encrypted:
            return 0
        self._incoming.write(encrypted)
        try:
            if not self.is_established:
                self._shake()
            count = self._read(view) if self.is_established else 0
        finally:
            self.push()  # answers of the handshake, or the alert that tells the peer why it is refused
        if count < 0:
            return 0
        if not count:
            raise BlockingIOError
        self._has_heard = True
        return count

    def close(self) -> None:
        self._socket.close()

    def _shake(self) -> None:
        try:
            self._engine.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise self._refusal(error) from error
        self.is_established = True

    def _read(self, view: memoryview) -> int:
        """Returns the number of bytes that were read. -1: the peer has ended its side properly, and there was no data
        before."""
        total = 0
        while total < len(view):
            try:
                count = self._engine.read(len(view) - total, view[total:])
            except ssl.SSLWantReadError:
                return total
            except ssl.SSLZeroReturnError:
                return total or -1
            except ssl.SSLError as error:
                raise self._refusal(error) from error
            if not count:
                return total or -1
            total += int(count)
        return total

    def _refusal(self, error: ssl.SSLError) -> Exception:
        """A connection that ends in the middle is no refused authentication: the broker may have been stopped."""
        if self._has_heard or isinstance(error, ssl.SSLEOFError):
            return ConnectionClosedError(f"TLS: {_words(error)}")
        return AuthenticationError(f"TLS: {_words(error)}")


def _joined(buffers: Iterable[Buffer]) -> bytes | memoryview:
    """TLS has no call like sendmsg. Small buffers are joined, so that they share one TLS record."""
    parts: list[memoryview] = []
    size = 0
    for each in buffers:
        view = memoryview(each)[: SEND_BYTES_MAX - size]
        parts.append(view)
        size += len(view)
        if size >= SEND_BYTES_MAX:
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _words(error: Exception) -> str:
    """The message of OpenSSL, without the place in its source code."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


__all__ = ["RECORD_BYTES_MAX", "TlsTransport", "client_context"]
