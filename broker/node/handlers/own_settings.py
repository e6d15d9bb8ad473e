"""Checks whether this broker could use new settings, before they are stored. Only the broker itself can tell: it has
the files of its listeners (`listener.name.NAME.KEY`) and the log directories that may be cordoned.

Shown by tests/broker_node/test_node_tls.py and tests/broker_node/test_node_log_dir_tools.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.controller.broker_configs import CORDONED, listener_of
from broker.node.handlers.services import Services
from broker.node.net.tls import server_context
from broker.node.settings.properties import with_dynamic
from broker.node.settings.security import SecurityError, security_of
from broker.node.settings.topic_config import broker_overrides


def own_problem(services: Services, broker: str, changes: Mapping[str, str | None]) -> str | None:
    """`broker`: whose settings they are. `changes` maps a name to its new value; None
    means that the setting is removed. The result is the error for the client, or None."""
    is_own = broker == str(services.config.node_id)
    names = {listener for key in changes if is_own and (listener := listener_of(key)) is not None}
    is_cordon = CORDONED in changes and is_own
    if not names and not is_cordon:
        return None
    overrides = broker_overrides(services.metadata.image, services.config.node_id)
    for key, value in changes.items():
        if value is None:
            overrides.pop(key, None)
        elif key == CORDONED or listener_of(key) is not None:
            overrides[key] = value
    config = with_dynamic(services.config, overrides)
    if is_cordon and config.cordoned_problem is not None:
        return f"requirement failed: {config.cordoned_problem}"
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
