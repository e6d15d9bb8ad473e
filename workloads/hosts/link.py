"""Locust's link between master and workers, with CURVE: encrypted, and only between those who have the keys.

Locust's transport is a ZeroMQ ROUTER at the master and a DEALER at each worker. It has no option for security, and its
runners make their sockets themselves. So `use_curve` puts a transport of the same shape in the place of Locust's, for
this process. The runners stay Locust's. What they would do with messages that this project does not use (spawn users,
send Locust files, set classes) is not reached: only the messages of wire.py and Locust's registration and heartbeats
pass. Shown by tests/workloads/test_workloads_hosts_link.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import locust.runners
import zmq.green as zmq
from locust import __version__ as locust_version
from locust.exception import RPCReceiveError, RPCSendError
from locust.rpc import protocol
from locust.rpc.zmqrpc import BaseSocket
from locust.runners import MasterRunner, WorkerRunner
from zmq.auth.thread import ThreadAuthenticator
from zmq.error import ZMQError

from workloads.hosts.codec import Table, encode
from workloads.hosts.keys import LinkKey
from workloads.hosts.wire import MESSAGE_BYTES_MAX
from workloads.hosts.wire import Message as WireMessage

HANDSHAKE_MS: Final = 10_000  # a peer that does not prove itself in this time is dropped
QUEUE_MESSAGES: Final = 2_000  # in each direction of each peer: a minute of states, and the chunks asked for
BACKLOG: Final = 128
PULSE_MS: Final = 2_000
PULSE_TIMEOUT_MS: Final = 30_000  # a peer that is silent for so long is taken to be gone; it may connect anew
_ID_CHARACTERS_MAX: Final = 300
_LOCUST_FROM_WORKER: Final = frozenset({"client_ready", "heartbeat", "quit"})
_LOCUST_FROM_MASTER: Final = frozenset({"ack", "heartbeat"})
_log = logging.getLogger(__name__)

Listener = Callable[[str, str, Any], None]  # (client id, kind, data as they came)
Message: Any = protocol.Message  # Locust has no types


class LinkError(RuntimeError):
    """The link cannot be opened; the message is for the user."""


class _OnlyPeer:
    """What pyzmq asks whether a public key may connect."""

    def __init__(self, public: str) -> None:
        self._public = public.encode()

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._public


class CurveServer(BaseSocket):
    """In the place of locust.rpc's Server."""

    def __init__(self, host: str, port: int, key: LinkKey) -> None:
        context = zmq.Context()
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", _OnlyPeer(key.peer_public))
        self.socket = context.socket(zmq.ROUTER)
        self.socket.curve_secretkey = key.secret.encode()
        self.socket.curve_publickey = key.public.encode()
        self.socket.curve_server = True
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a host that lost its link comes back under its name
        _bound(self.socket)
        self.socket.setsockopt(zmq.BACKLOG, BACKLOG)
        try:
            self.socket.bind(f"tcp://{_in_brackets(host)}:{port}")
        except ZMQError as error:
            self.close(linger=0)
            raise LinkError(f"load hosts cannot be waited for on {host}:{port}: {error}") from error

    def send_to_client(self, message: Any) -> None:
        """A message to a host that is gone is dropped."""
        try:
            self.socket.send_multipart([message.node_id.encode(), message.serialize()], zmq.NOBLOCK)
        except ZMQError as error:
            raise RPCSendError("the message could not be sent") from error

    def recv_from_client(self) -> tuple[str, Any]:
        frames = self.socket.recv_multipart()
        try:
            client_id, body = frames
            found = client_id.decode(), Message.unserialize(body)
        except Exception as error:  # whatever a peer can make of bytes: its message is left out
            raise RPCReceiveError(f"not a message: {type(error).__name__}") from error
        return found

    def close(self, linger: int | None = None) -> None:
        self.socket.close(linger=linger)
        self._authenticator.stop()


class CurveClient(BaseSocket):
    """In the place of locust.rpc's Client."""

    def __init__(self, host: str, port: int, identity: str, key: LinkKey) -> None:
        self.socket = zmq.Context().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, identity.encode())
        self.socket.curve_secretkey = key.secret.encode()
        self.socket.curve_publickey = key.public.encode()
        self.socket.curve_serverkey = key.peer_public.encode()
        self.socket.setsockopt(zmq.LINGER, 1_000)
        self.socket.setsockopt(zmq.RECONNECT_IVL, 200)
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2_000)
        _bound(self.socket)
        self.socket.connect(f"tcp://{_in_brackets(host)}:{port}")

    def send(self, message: Any) -> None:
        """Never waits: Locust's own would sleep for nine seconds when the queue is full."""
        try:
            self.socket.send(message.serialize(), zmq.NOBLOCK)
        except ZMQError as error:
            raise RPCSendError("the link's queue is full") from error

    def recv(self) -> Any:
        data = self.socket.recv()
        try:
            return Message.unserialize(data)
        except Exception as error:
            raise RPCReceiveError(f"not a message: {type(error).__name__}") from error


def _bound(socket: Any) -> None:
    for option, value in (
        (zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX),
        (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
        (zmq.SNDHWM, QUEUE_MESSAGES),
        (zmq.RCVHWM, QUEUE_MESSAGES),
        (zmq.HEARTBEAT_IVL, PULSE_MS),
        (zmq.HEARTBEAT_TIMEOUT, PULSE_TIMEOUT_MS),
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, 30),
        (zmq.IPV6, 1),
    ):
        socket.setsockopt(option, value)


def _in_brackets(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class _Transport:
    """What locust.runners takes for the module locust.rpc.rpc: two makers of sockets."""

    def __init__(self, key: LinkKey) -> None:
        self._key = key

    def Server(self, host: str, port: int) -> CurveServer:
        return CurveServer(host, port, self._key)

    def Client(self, host: str, port: int, identity: str) -> CurveClient:
        return CurveClient(host, port, identity, self._key)


def use_curve(key: LinkKey) -> None:
    """From now on every runner of this process that has a link has it under this key."""
    runners: Any = locust.runners
    runners.rpc = _Transport(key)


class HubRunner(MasterRunner):
    """Locust's master, which starts no users: the shares of the load hosts do. `listener` gets what hosts say, if
    `table` has its kind, and decodes it."""

    def __init__(self, environment: Any, host: str, port: int, listener: Listener, table: Table) -> None:
        self._listener, self._table = listener, table
        super().__init__(environment, host, port)

    def handle_message(self, client_id: str, msg: Any) -> None:
        if msg.node_id != client_id or len(client_id) > _ID_CHARACTERS_MAX:
            return  # nobody speaks for another
        try:
            if msg.type in self._table:
                self._listener(client_id, msg.type, msg.data)
            elif msg.type in _LOCUST_FROM_WORKER:
                super().handle_message(client_id, msg)
        except Exception as error:  # It is about one message of one host. The others must not suffer.
            _log.warning("event=message_refused type=%s cause=%r", str(msg.type)[:40], error)

    def tell(self, client_id: str, message: WireMessage) -> None:
        """A message that cannot be sent is like one that is lost: whoever needs an answer asks again."""
        kind, data = encode(message)
        try:
            self.server.send_to_client(Message(kind, data, client_id))
        except RPCSendError as error:
            _log.warning("event=message_not_sent type=%s cause=%s", kind, error)


class AgentRunner(WorkerRunner):
    """Locust's worker, which takes no users, classes or options from its master. `listener` gets messages of the
    kinds in `table`, and decodes them."""

    def __init__(self, environment: Any, host: str, port: int, listener: Listener, table: Table) -> None:
        self._listener, self._table = listener, table
        super().__init__(environment, host, port)

    def handle_message(self, msg: Any) -> None:
        try:
            if msg.type in self._table:
                self._listener(self.client_id, msg.type, msg.data)
            elif msg.type in _LOCUST_FROM_MASTER:
                super().handle_message(msg)
        except Exception as error:
            _log.warning("event=message_refused type=%s cause=%r", str(msg.type)[:40], error)

    def heartbeat_timeout_checker(self) -> None:  # type: ignore[override]  # Locust's never returns
        """Locust's worker ends when its master is silent for a minute. Ours waits: the next run has another master."""

    def reset_connection(self) -> None:
        """ZeroMQ connects again by itself, and keeps what is queued."""

    def tell(self, message: WireMessage) -> bool:
        """False if it could not be queued."""
        kind, data = encode(message)
        try:
            self.client.send(Message(kind, data, self.client_id))
        except RPCSendError:
            return False
        return True

    def register(self) -> None:
        """Present ourselves to Locust's master once more: it may be another one than before."""
        try:
            self.client.send(Message("client_ready", locust_version, self.client_id))
        except RPCSendError as error:
            _log.warning("event=message_not_sent type=client_ready cause=%s", error)
