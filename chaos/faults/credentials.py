"""The load loses its credentials or a permission while it runs. Healing gives them back.

- password_changed gives the load's user another SCRAM password, which its clients do not know. Open sessions continue,
  as in Kafka, until they must authenticate again (connections.max.reauth.ms, KIP-368).

- acl_revoked deletes the access control list that allows the load's user to read or to write (`operation`) all topics.

- tokens_refused makes the token endpoint refuse the load's user. Tokens that clients already have are valid until they
  expire.

There is no lease, because users and endpoint belong to the harness and end with it.

Each is proved as the load's user. Each broker refuses the old password. No broker allows the operation any more. At the
end of the fault the endpoint has refused at least one request for a token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.certificates import changes_of

KNOWN_WITHIN_S = 30.0  # limit until each broker has read the change
POLL_S = 0.05
OPERATIONS = ("read", "write")


class PasswordChanged:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context, self._is_changed = context, False

    def inject(self) -> None:
        changes = changes_of(self._context)
        self._is_changed = True
        changes.change_password()
        _await("the new password", lambda: set(self._logins().values()) == {"refused"})

    def heal(self) -> None:
        if self._is_changed:
            changes_of(self._context).restore_password()
            self._is_changed = False

    def prove(self) -> Proof:
        if not self._is_changed:
            return Proof(is_effective=False, detail={})
        told = self._logins()
        return Proof(is_effective=set(told.values()) == {"refused"}, detail={"logins": dict(told)})

    def _logins(self) -> Mapping[str, str]:
        return changes_of(self._context).logins(self._context.brokers)


class AclRevoked:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context, self._is_revoked = context, False
        self._operation = str(parameters["operation"])
        self._before: Mapping[str, object] = {}

    def inject(self) -> None:
        self._before = self._allowed()
        if not self._is_allowed_everywhere():
            raise ValueError(f"the load may not {self._operation} even before: {dict(self._before)}")
        self._is_revoked = True
        changes_of(self._context).forbid(self._operation)
        _await("the deleted list", self._is_forbidden_everywhere)

    def heal(self) -> None:
        if self._is_revoked:
            changes_of(self._context).allow(self._operation)
            self._is_revoked = False

    def prove(self) -> Proof:
        if not self._is_revoked:
            return Proof(is_effective=False, detail={})
        return Proof(
            is_effective=self._is_forbidden_everywhere(),
            detail={"operation": self._operation, "allowed": {"before": dict(self._before), "after": self._allowed()}},
        )

    def _allowed(self) -> dict[str, object]:
        found = changes_of(self._context).allowed(self._context.brokers, self._context.of.topic)
        return {broker: list(operations) for broker, operations in found.items()}

    def _is_allowed_everywhere(self) -> bool:
        found = changes_of(self._context).allowed(self._context.brokers, self._context.of.topic)
        return len(found) == len(self._context.brokers) and all(self._operation in each for each in found.values())

    def _is_forbidden_everywhere(self) -> bool:
        found = changes_of(self._context).allowed(self._context.brokers, self._context.of.topic)
        return len(found) == len(self._context.brokers) and not any(self._operation in each for each in found.values())


class TokensRefused:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._before: Mapping[str, int] | None = None

    def inject(self) -> None:
        changes = changes_of(self._context)
        self._before = changes.token_counts()
        changes.refuse_tokens()

    def heal(self) -> None:
        if self._before is not None:
            changes_of(self._context).give_tokens()

    def prove(self) -> Proof:
        if self._before is None:
            return Proof(is_effective=False, detail={})
        after = changes_of(self._context).token_counts()
        more = {what: count - self._before[what] for what, count in after.items()}
        return Proof(is_effective=more["refused"] > 0 and more["given"] == 0, detail={"tokens": more})


def _await(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + KNOWN_WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not every broker knew of {what} within {KNOWN_WITHIN_S:.0f} s")
        time.sleep(POLL_S)


def _operation_problem(parameters: Mapping[str, Parameter]) -> str | None:
    operation = parameters["operation"]
    return None if operation in OPERATIONS else f"operation of acl_revoked is read or write, got {operation}"


_ENGINES = ("reference", "kafka")

SPECS: tuple[FaultSpec, ...] = (
    FaultSpec(
        name="password_changed",
        label="password changed",
        colour="#ad1457",
        target_kind="broker",
        default_target="all",
        make=PasswordChanged,
        parameters={},
        engines=_ENGINES,
    ),
    FaultSpec(
        name="acl_revoked",
        label="access control list revoked",
        colour="#c62828",
        target_kind="broker",
        default_target="all",
        make=AclRevoked,
        parameters={"operation": "write"},
        engines=_ENGINES,
        problem=_operation_problem,
    ),
    FaultSpec(
        name="tokens_refused",
        label="tokens refused",
        colour="#ef6c00",
        target_kind="broker",
        default_target="all",
        make=TokensRefused,
        parameters={},
        engines=_ENGINES,
        is_proved_at_heal=True,
    ),
)
