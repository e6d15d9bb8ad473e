"""The compiled part of the record check: both ways of checking pass the same tests."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator

import pytest

from broker.wire.record_check import use_compiled


def _has_compiler() -> bool:
    names = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc", "cc", "gcc", "clang")
    return any(shutil.which(name.split()[0]) for name in names)


@pytest.fixture(scope="session")
def compiled_part() -> None:
    """Skips without the compiled part. In CI, where a compiler is, that is a failure: the installation builds it."""
    if use_compiled(True):
        return
    reason = "no compiled part: `make setup` builds it where a C compiler is, or `python hatch_build.py`"
    if os.environ.get("CI") == "true" and _has_compiler():
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module", params=["python", "compiled"])
def record_check_path(request: pytest.FixtureRequest) -> Iterator[str]:
    """`check_records` in both ways, one after the other."""
    if request.param == "compiled":
        request.getfixturevalue("compiled_part")
    use_compiled(request.param == "compiled")
    yield request.param
    use_compiled(True)
