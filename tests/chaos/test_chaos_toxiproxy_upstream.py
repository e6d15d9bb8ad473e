"""The original's own tests of its HTTP API and its own command-line client, against the embedded server.

Go fetches both as the release that we compare with. The tests start a server inside their own process. That one
function is replaced, so that they speak to ours. Nothing of them is kept here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chaos.toxiproxy.lookup import RunningServer
from tests.chaos.conftest import Upstream
from tests.patience import run_command

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.toxiproxy]

MODULE = "github.com/Shopify/toxiproxy/v2@v2.12.0"  # as the Makefile builds it
# Instead of starting a server of its own: every proxy is deleted after a test.
WITH_SERVER = """
func WithServer(t *testing.T, f func(string)) {
	defer func() {
		proxies, err := client.Proxies()
		if err != nil {
			t.Error("cannot list proxies", err)
		}
		for _, proxy := range proxies {
			if err := proxy.Delete(); err != nil {
				t.Error("cannot delete", proxy.Name, err)
			}
		}
	}()
	f("http://localhost:8475")
}
"""
DIFFERENT = {"TestVersionEndpointReturnsVersion"}  # it wants "git"; ours says what it is


def go(*arguments: str, directory: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    if shutil.which("go") is None:
        pytest.skip("no Go: the original's tests and client cannot be built")
    return run_command(["go", *arguments], cwd=directory, env={**os.environ, **(environment or {})})


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the release, whose API tests speak to a server that runs already."""
    work = tmp_path_factory.mktemp("upstream")
    done = go("mod", "download", "-json", MODULE, directory=work)
    assert done.returncode == 0, done.stderr
    copy = work / "toxiproxy"
    shutil.copytree(json.loads(done.stdout)["Dir"], copy, copy_function=shutil.copyfile)
    for directory in (copy, *(each for each in copy.rglob("*") if each.is_dir())):
        directory.chmod(0o755)
    return copy


def patched(text: str, address: str) -> str:
    """The test's file with our server's address, and without a server of its own."""
    text, replaced = re.subn(r"var testServer .*?\n(?=\nvar client)", "", text, flags=re.DOTALL)
    assert replaced == 1
    text, replaced = re.subn(r"func WithServer\(.*?\n}\n", lambda _: WITH_SERVER, text, flags=re.DOTALL)
    assert replaced == 1
    for unused in ("flag", "os", "time", "github.com/prometheus/client_golang/prometheus", "github.com/rs/zerolog"):
        text = text.replace(f'\t"{unused}"\n', "")
    text = text.replace('\t"github.com/Shopify/toxiproxy/v2"\n', "")
    return text.replace("localhost:8475", address).replace("127.0.0.1:8475", address)


def test_its_api_tests_pass(sources: Path, drop_in_server: RunningServer) -> None:
    path = sources / "api_test.go"
    path.write_text(patched(path.read_text(), urlsplit(drop_in_server.url).netloc))
    names = re.findall(r"^func (Test\w+)", path.read_text(), re.MULTILINE)
    chosen = f"^({'|'.join(names)})$"
    done = go("test", "-vet=off", "-count=1", "-v", "-json", "-run", chosen, ".", directory=sources)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ended = {each["Test"]: each["Action"] for each in events if "Test" in each and each["Action"] in ("pass", "fail")}
    said = "".join(each.get("Output", "") for each in events) + done.stderr
    assert set(names) <= set(ended), said[-3_000:]
    assert {name for name, how in ended.items() if how == "fail"} == DIFFERENT, said[-3_000:]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("cli")
    release, version = MODULE.split("@")
    done = go("install", f"{release}/cmd/cli@{version}", directory=directory, environment={"GOBIN": str(directory)})
    assert done.returncode == 0, done.stderr
    return directory / "cli"


@pytest.fixture(params=["original", "embedded"])
def server(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    name = {"original": "real_server", "embedded": "drop_in_server"}[request.param]
    running: RunningServer = request.getfixturevalue(name)
    yield running
    client = running.client()
    for proxy in client.proxies():
        client.delete(proxy)
    client.close()


STEPS = (
    ("list",),
    ("create", "-l", "127.0.0.1:0", "-u", "{upstream}", "shop"),
    ("create", "-l", "127.0.0.1:0", "-u", "{upstream}", "shop"),
    ("toxic", "add", "-t", "latency", "-a", "latency=100", "-a", "jitter=10", "shop"),
    ("toxic", "add", "-t", "latency", "-a", "latency=100", "shop"),
    ("toxic", "add", "-t", "bandwidth", "-u", "-n", "slow", "--tox", "0.5", "-a", "rate=10", "shop"),
    ("toxic", "add", "-t", "nothing", "shop"),
    ("toxic", "update", "-n", "slow", "-a", "rate=20", "shop"),
    ("toxic", "update", "-n", "none", "-a", "rate=20", "shop"),
    ("inspect", "shop"),
    ("toxic", "delete", "-n", "slow", "shop"),
    ("toggle", "shop"),
    ("toggle", "shop"),
    ("list",),
    ("delete", "shop"),
    ("delete", "shop"),
    ("inspect", "shop"),
)


def test_its_command_line_client_says_the_same(
    command: Path, real_server: RunningServer, drop_in_server: RunningServer, echo_upstream: Upstream
) -> None:
    def said(server: RunningServer) -> list[tuple[tuple[str, ...], int, str]]:
        result = []
        for step in STEPS:
            arguments = [part.format(upstream=echo_upstream.address) for part in step]
            done = subprocess.run(
                [str(command), "--host", server.url, *arguments],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            shown = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", done.stdout + done.stderr)
            result.append((step, done.returncode, re.sub(r"[ \t]+", " ", shown)))
        return result

    assert said(drop_in_server) == said(real_server)
