"""Files that cannot be what somebody meant: each refused within seconds, with a line, and by every command alike."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from harness.cli.main import execute
from harness.errors import ExitCode
from runlog.files.user_files import UserFileError, load_yaml, read_text

BOUND_S = 10.0  # a second on an idle host
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
FILES: dict[str, tuple[str | bytes, str]] = {
    "bomb": (BOMB, "more than 20,000 values"),
    "nested": ("a: " + "[" * 3_000 + "]" * 3_000, "nested deeper than 40"),
    "nested-blocks": ("".join(f"{' ' * depth}a:\n" for depth in range(300)), "nested deeper than 40"),
    "itself": ("a: &a [*a]\n", "stands inside of what it names"),
    "many": ("a: [" + "1," * 200_000 + "]", "more than 20,000 values"),
    "aliases": ("a: &a 1\nb: [" + "*a," * 2_000 + "]", "more than 1,000 aliases"),
    "twice": ("name: a\nname: b\n", "duplicate key"),
    "nul": (b"name: a\n\0", "NUL byte"),
    "latin": (b"name: \xe4\n", "is not UTF-8: byte 0xe4"),
    "digits": ("name: " + "9" * 10_000, "a value cannot be read"),
    "day": ("name: 2026-02-31\n", "a value cannot be read"),
    "unknown-alias": ("name: *nobody\n", "undefined alias"),
    "two-documents": ("name: a\n---\nname: b\n", "not YAML"),
    "long-line": ("name: " + "x" * 900_000 + ": y: [", "not YAML"),
}


def written(tmp_path: Path, name: str) -> Path:
    path, content = tmp_path / "file.yaml", FILES[name][0]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(FILES))
def test_each_is_refused_in_time_with_its_reason(tmp_path: Path, name: str) -> None:
    began_s = time.process_time()
    with pytest.raises(UserFileError, match=FILES[name][1]) as caught:
        load_yaml(read_text(written(tmp_path, name)), YAML(typ="rt", pure=True))
    assert time.process_time() - began_s < BOUND_S
    assert len(caught.value.at("f")) < 400


def commands(path: Path) -> list[list[str]]:
    return [
        ["run", str(path), "--dry-run"],
        ["validate", str(path)],
        ["chaos", str(path), "--dry-run"],
        ["run", "smoke", "--dry-run", "--allow", str(path)],
    ]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("name", ["bomb", "itself", "nul", "latin", "twice", "digits"])
@pytest.mark.thorough
def test_every_command_ends_with_the_code_of_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, number: int
) -> None:
    assert execute(commands(written(tmp_path, name))[number]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert FILES[name][1].split(":")[0] in said.err + said.out


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(
    ("make", "reason"),
    [(fifo, "FIFO"), (device, "device"), (Path.mkdir, "directory"), (large, "larger than 1,048,576")],
)
def test_what_is_no_file_and_what_is_too_large_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], reason: str, number: int
) -> None:
    path = tmp_path / "file.yaml"
    make(path)
    assert execute(commands(path)[number]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert reason in said.err + said.out


@pytest.mark.parametrize("make", [fifo, device, Path.mkdir, large])
def test_a_client_configuration_is_read_with_the_same_care(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None]
) -> None:
    path = tmp_path / "client.properties"
    make(path)
    words = ["run", "smoke", "--dry-run", "--cluster", "external", "--bootstrap-server", "127.0.0.1:1"]
    assert execute([*words, "--client-config", str(path)]) == ExitCode.USAGE
    assert "--client-config" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize("value", ["[" * 300, "&a [*a]", "9" * 10_000, "2026-02-31", "{a: 1, a: 2}"])
def test_the_value_of_set_is_read_with_the_same_care(capsys: pytest.CaptureFixture[str], value: str) -> None:
    assert execute(["run", "smoke", "--dry-run", "--set", f"workload.rate_per_s={value}"]) == ExitCode.USAGE
    assert "--set workload.rate_per_s" in capsys.readouterr().err


def test_anchors_that_people_use_are_read() -> None:
    text = "base: &base {acks: all}\nother: {<<: *base, linger.ms: 5}\nlist: [*base, *base]\n"
    assert load_yaml(text, YAML(typ="safe", pure=True))["other"] == {"acks": "all", "linger.ms": 5}


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UserFileError):
        load_yaml(text, YAML(typ="rt", pure=True))
