"""Who may ask about delegation tokens at all (KIP-48), for the handlers of the four APIs."""

from __future__ import annotations

from broker.node.handlers.services import Services
from broker.node.net.principal import ANONYMOUS
from broker.node.net.requests import AnyRequest, Asked
from broker.node.settings.security import Protocol, security_of


def may_ask(services: Services, request: AnyRequest[Asked]) -> bool:
    """Who is known, and not by a token: otherwise a token that was stolen would live on in others. On a connection
    without TLS and SASL nobody is known, and neither is a client of TLS without a certificate."""
    if request.principal.is_by_token:
        return False
    protocol = security_of(services.config, request.listener_name).protocol
    if protocol is Protocol.PLAINTEXT:
        return False
    return protocol is not Protocol.SSL or request.principal != ANONYMOUS
