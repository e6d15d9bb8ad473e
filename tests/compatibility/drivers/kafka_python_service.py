"""A pytest plugin: what kafka-python's distributed tests import and do not carry, for an external broker.

That is test/service.py, and test/__init__.py, without which Python's own package of that name is found.
"""

from __future__ import annotations

import os
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


_package, _service = ModuleType("test"), ModuleType("test.service")
_package.__path__ = [os.path.join(os.environ["KAFKA_ROOT"], "test")]
vars(_service).update(ExternalService=ExternalService, SpawnedService=SpawnedService)
sys.modules.update({"test": _package, "test.service": _service})
