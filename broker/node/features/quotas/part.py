"""What the feature has opened on this node: the limits of the latest image, and the throttle that the kernel asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.controller.image import MetadataImage
from broker.node.feature import Kernel, Part
from broker.node.features.quotas.charges import ClientCharge
from broker.node.features.quotas.client_quotas import ClientQuotas, Quotas
from broker.node.net.requests import Request
from broker.node.process.clock import monotonic_ms


class QuotaPart(Part):
    """It is its own throttle (broker/node/net/requests.py)."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._limits: Quotas = {}  # those that `_quotas` has

    @property
    def throttle(self) -> QuotaPart:
        return self

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        if image.client_quotas != self._limits:
            self._limits = image.client_quotas
            self._quotas.set_limits(self._limits)

    def charge(self, request: Request[Any], fetched_bytes: Callable[[Any], int] | None) -> ClientCharge | None:
        return ClientCharge(self._quotas, request, fetched_bytes) if self._quotas.is_active else None

    def connected(self, host: str) -> int:
        return self._quotas.connected(host, monotonic_ms()) if self._quotas.is_active else 0


def open_quotas(kernel: Kernel) -> QuotaPart:
    settings = kernel.config.quotas
    return QuotaPart(
        ClientQuotas(window_count=settings.quota_window_num, window_size_ms=settings.quota_window_size_seconds * 1000)
    )
