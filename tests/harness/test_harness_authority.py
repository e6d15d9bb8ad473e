"""Certificates that a run makes up: they hold for their names and their time, and only the owner can read the keys."""

from __future__ import annotations

import ssl
import subprocess
import time
from pathlib import Path

import pytest

from harness.clusters.secured import authority
from harness.clusters.secured.authority import Authority
from harness.errors import EnvironmentFault


@pytest.mark.slow
def test_a_certificate_holds_for_its_names_and_its_time_and_is_replaced_under_its_name(tmp_path: Path) -> None:
    made = Authority(tmp_path / "own")
    first = made.issue("broker-1", ["127.0.0.1", "localhost"], valid_s=3600)
    assert 3500 < first.expires_at_s - time.time() <= 3600
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(first.store), "-noout", "-text"], capture_output=True, text=True, check=True
    ).stdout
    assert "IP Address:127.0.0.1, DNS:localhost" in shown
    before = first.store.read_text()
    second = made.issue("broker-1", ["127.0.0.1"], valid_s=-60)
    assert second.store == first.store
    assert second.store.read_text() != before
    assert second.expires_at_s < time.time(), "a certificate may have ended already"
    ssl.create_default_context(cafile=str(made.certificate))


@pytest.mark.slow
def test_only_the_owner_can_read_what_is_made(tmp_path: Path) -> None:
    made = Authority(tmp_path / "own")
    made.issue("broker-1", ["127.0.0.1"])
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    keys = [path for path in (tmp_path / "own").iterdir() if "PRIVATE KEY" in path.read_text()]
    assert len(keys) == 3
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}


@pytest.mark.slow
def test_without_openssl_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="openssl, which is not here"):
        Authority(tmp_path / "own")
    monkeypatch.undo()
    with pytest.raises(EnvironmentFault, match="openssl req ended with"):
        authority.openssl("req", "-no-such-option")
