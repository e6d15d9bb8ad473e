"""wrong_passwords: somebody guesses passwords. A client of ours tries to log in at each target, `per_s` times a second.

Each attempt uses a new connection through the same proxy as the clients of the load, and an invented password. It costs
the broker a connection, a handshake if there is TLS, and the check of the password. The brokers' answers prove the
fault at its end: attempts were refused, and none succeeded.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from broker.door.addresses import parse_address
from broker.door.clients import AuthenticationError, KafkaError
from broker.door.questions import DirectConnection, metadata_of
from broker.door.security import Credentials
from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof

if TYPE_CHECKING:
    import ssl

PER_S_MAX: Final = 100  # there is one thread for each target; more would overload the host
ATTEMPT_TIMEOUT_S: Final = 5.0
STOP_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guess:
    context: ssl.SSLContext | None
    credentials: Credentials


class WrongPasswords:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._interval_s = 1 / int(parameters["per_s"])
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._outcomes: dict[int, Counter[str]] = {}

    def inject(self) -> None:
        access = self._context.port.access
        if access is None or access.credentials is None:
            raise ValueError("the cluster asks for no password: cluster.security must be sasl_plaintext or sasl_ssl")
        for broker in self._context.brokers:
            client, proxy = self._context.port.links.kafka(f"client-{broker}")
            counts = self._outcomes[broker] = Counter()
            guess = _Guess(context=access.context, credentials=access.credentials)
            arguments = (client.proxy(proxy).listen, guess, counts)
            thread = threading.Thread(target=self._guess, args=arguments, name=f"guesses-{broker}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _guess(self, address: str, right: _Guess, counts: Counter[str]) -> None:
        host, port = parse_address(address)
        while not self._stop.is_set():
            wrong = replace(right.credentials, password=secrets.token_urlsafe(12))
            security = _Guess(context=right.context, credentials=wrong)
            connection = DirectConnection(
                host, port, client_id="wrong-password", timeout_s=ATTEMPT_TIMEOUT_S, security=security
            )
            counts[_outcome(connection)] += 1
            connection.close()
            self._stop.wait(self._interval_s)

    def heal(self) -> None:
        self._stop.set()
        while self._threads:
            self._threads.pop().join(STOP_TIMEOUT_S)

    def prove(self) -> Proof:
        told = {f"broker {broker}": dict(counts) for broker, counts in self._outcomes.items()}
        is_refused = bool(told) and all(counts["refused"] > 0 for counts in self._outcomes.values())
        is_any_let_in = any(counts["let in"] for counts in self._outcomes.values())
        return Proof(is_effective=is_refused and not is_any_let_in, detail={"attempts": told})


def _outcome(connection: DirectConnection) -> str:
    try:
        connection.ask(metadata_of([]))
    except AuthenticationError:
        return "refused"
    except KafkaError:
        return "unanswered"
    return "let in"


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    per_s = int(parameters["per_s"])
    return None if 1 <= per_s <= PER_S_MAX else f"per_s of wrong_passwords is from 1 to {PER_S_MAX}, got {per_s}"


SPEC = FaultSpec(
    name="wrong_passwords",
    label="passwords guessed",
    colour="#00838f",
    target_kind="broker",
    default_target="all",
    make=WrongPasswords,
    parameters={"per_s": 20},
    is_proved_at_heal=True,
    problem=_problem,
)
