"""Files with certificates: only regular ones of a bounded size are read, and never on the event loop."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from broker.node.net import tls
from broker.node.net.tls import STORE_BYTES_MAX, Contexts, server_context
from broker.node.process.logs import Logger
from broker.node.settings.security import SecurityError, TlsSettings
from broker.security.mapping_rules import PrincipalMapper
from harness.clusters.secured.authority import Authority


def settings(location: Path | str) -> TlsSettings:
    return TlsSettings(
        keystore_location=str(location), keystore_password="", key="", certificate_chain="", key_password="",
        truststore_location="", truststore_password="", truststore_certificates="", client_auth="none",
        versions=("TLSv1.3",), cipher_suites="", verifies_host=False, mapper=PrincipalMapper(""), mapping_rules="",
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority(tmp_path_factory.mktemp("authority")).issue("broker", ("127.0.0.1",)).store


class Os:
    """The module, with other functions in it."""

    def __init__(self, **functions: Callable[..., object]) -> None:
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def refusal_of(location: Path | str) -> str:
    with pytest.raises(SecurityError) as caught:
        server_context(settings(location))
    return str(caught.value)


def test_only_a_regular_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    opened: list[object] = []
    monkeypatch.setattr(tls, "os", Os(open=lambda path, *_: opened.append(path)))
    for place in (fifo, "/dev/ptmx", "/dev/zero", "/dev/null", tmp_path):
        assert "expected a regular file" in refusal_of(place)
    assert not opened, "a device is not even opened"


def test_a_fifo_that_takes_the_place_of_a_file_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo, regular = tmp_path / "fifo", os.stat(__file__)
    os.mkfifo(fifo)
    monkeypatch.setattr(tls, "os", Os(stat=lambda path: regular))
    assert "expected a regular file" in refusal_of(fifo)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    assert f"at most {STORE_BYTES_MAX} bytes" in refusal_of(large)


@pytest.mark.slow
def test_a_store_is_looked_at_and_read_in_a_thread(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = Contexts("SSL", settings(store), Logger(node_id=1))
    threads: list[threading.Thread] = []
    look, make = tls._files, server_context

    def noted_look(of: TlsSettings) -> tuple[object, ...]:
        threads.append(threading.current_thread())
        return look(of)

    def noted_make(of: TlsSettings) -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return make(of)

    async def run() -> tuple[ssl.SSLContext, ssl.SSLContext, ssl.SSLContext]:
        first = await contexts.current()
        os.utime(store, ns=(1, 1))
        second = await contexts.current()
        contexts.reconfigure(replace(settings(store), client_auth="none", versions=("TLSv1.2",)))
        return first, second, await contexts.current()

    monkeypatch.setattr(tls, "_files", noted_look)
    monkeypatch.setattr(contexts, "_make", noted_make)
    first, second, third = asyncio.run(run())
    assert len({id(each) for each in (first, second, third)}) == 3
    assert third.maximum_version is ssl.TLSVersion.TLSv1_2
    assert len(threads) >= 5
    assert threading.main_thread() not in threads


@pytest.mark.slow
def test_handshakes_go_on_while_a_disk_does_not_answer(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait, one look is under way."""
    contexts = Contexts("SSL", settings(store), Logger(node_id=1))
    answers, looks = threading.Event(), []

    def stuck(of: TlsSettings) -> tuple[object, ...]:
        looks.append(of)
        answers.wait()
        return ()

    async def run() -> list[ssl.SSLContext]:
        try:
            return [await contexts.current() for _ in range(5)] + await asyncio.gather(
                *(contexts.current() for _ in range(50))
            )
        finally:
            answers.set()

    monkeypatch.setattr(tls, "_files", stuck)
    monkeypatch.setattr(tls, "CHECK_TIMEOUT_S", 0)
    assert len(set(map(id, asyncio.run(run())))) == 1
    assert len(looks) == 1


@pytest.mark.slow
def test_a_wrong_store_is_tried_once_and_the_old_one_stays(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = Contexts("SSL", settings(store), Logger(node_id=1))
    made: list[str] = []

    def noted(of: TlsSettings) -> ssl.SSLContext:
        made.append(of.keystore_location)
        return server_context(of)

    async def run() -> None:
        before = await contexts.current()
        wrong = tmp_path / "wrong.pem"
        wrong.write_text("no store")
        contexts.reconfigure(settings(wrong))
        for _ in range(3):
            assert await contexts.current() is before
        assert made == [str(wrong)]
        wrong.write_bytes(store.read_bytes())
        assert await contexts.current() is not before
        assert contexts.settings.keystore_location == str(wrong)

    monkeypatch.setattr(contexts, "_make", noted)
    asyncio.run(run())
