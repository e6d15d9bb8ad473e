"""Checks whether this broker could use new settings of its listeners (`listener.name.NAME.KEY`), before they are
stored.

Shown by tests/broker_node/test_node_tls.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.controller.broker_configs import listener_of
from broker.node.handlers.services import Services
from broker.node.net.tls import server_context
from broker.node.settings.properties import with_dynamic
from broker.node.settings.security import SecurityError, security_of
from broker.node.settings.topic_config import broker_overrides


def listener_problem(services: Services, changes: Mapping[str, str | None]) -> str | None:
    """`changes` maps a name to its new value; None means that the setting is removed. The result is the error for the
    client, or None."""
    names = {listener for key in changes if (listener := listener_of(key)) is not None}
    if not names:
        return None
    overrides = broker_overrides(services.metadata.image, services.config.node_id)
    for key, value in changes.items():
        if value is None:
            overrides.pop(key, None)
        elif listener_of(key) is not None:
            overrides[key] = value
    config = with_dynamic(services.config, overrides)
    for name in sorted(names):
        if name.upper() not in config.listeners:
            return f"there is no listener {name.upper()}; there is {', '.join(sorted(config.listeners))}"
        try:
            security = security_of(config, name.upper())
            if security.tls is not None:
                server_context(security.tls)
        except SecurityError as error:
            return f"Invalid value for listener {name.upper()}: {error}"
    return None
