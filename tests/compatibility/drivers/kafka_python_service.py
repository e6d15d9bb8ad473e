"""A pytest plugin: the modules that kafka-python's distributed tests import but do not contain, for an external broker.

These are test/service.py and test/__init__.py. Without the latter, Python finds its own package of that name.
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
