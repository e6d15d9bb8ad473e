"""A pytest plugin: the module that kafka-python's distributed tests import and do not carry, for an external broker."""

from __future__ import annotations

import sys
from types import ModuleType


class ExternalService:
    """A broker that is there already: nothing to start, nothing to stop."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass


class SpawnedService:
    """Never started: KAFKA_URI is given."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("these tests run against the broker of KAFKA_URI and start none")


_module = ModuleType("test.service")
vars(_module).update(ExternalService=ExternalService, SpawnedService=SpawnedService)
sys.modules["test.service"] = _module
