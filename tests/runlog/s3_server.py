"""A server of the S3 protocol on loopback: versitygw over a directory. `make test-store` builds it.

One server is enough for a session of tests; each test takes a bucket of its own. Credentials are in a file of the kind
that the AWS tools read, and reach a process through AWS_SHARED_CREDENTIALS_FILE, as they would with a user.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from harness.clusters.ports import free_port

START_S = 60.0


def program() -> str | None:
    """Where it is, if it is."""
    built = Path(os.environ.get("HARNESS_CACHE_DIR", ".cache")) / "bin" / "versitygw"
    return shutil.which("versitygw") or (str(built) if built.is_file() else None)


@functools.cache
def why_not() -> str:
    """Why tests against a bucket cannot run; empty if they can."""
    if program() is None:
        return "versitygw is not installed (make test-store builds it)"
    try:
        import s3fs  # noqa: F401
    except ImportError:
        return "the package s3fs is not installed (the extra `store`)"
    return ""


class S3Server:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.access_key = f"AK{secrets.token_hex(8)}"
        self.secret_key = secrets.token_hex(20)
        self.port = free_port()
        (directory / "data").mkdir(parents=True)
        (directory / "sidecar").mkdir()  # what the server knows of each object, where files have no attributes
        self._home = directory / "home"
        self._home.mkdir()
        (self._home / "credentials").write_text(
            f"[default]\naws_access_key_id = {self.access_key}\naws_secret_access_key = {self.secret_key}\n"
        )
        (self._home / "config").write_text(
            f"[default]\nregion = us-east-1\nendpoint_url = http://127.0.0.1:{self.port}\n"
        )
        self._process = self._started()

    @property
    def environment(self) -> Mapping[str, str]:
        """For a process that uses it."""
        return {
            "AWS_SHARED_CREDENTIALS_FILE": str(self._home / "credentials"),
            "AWS_CONFIG_FILE": str(self._home / "config"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def bucket(self) -> str:
        """URL of a new one."""
        name = f"runs-{secrets.token_hex(4)}"
        (self.directory / "data" / name).mkdir()
        return f"s3://{name}/harness"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)

    def start_again(self) -> None:
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        found = program()
        assert found is not None
        with (self.directory / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    found, "--port", f"127.0.0.1:{self.port}", "--quiet", "posix",
                    "--sidecar", str(self.directory / "sidecar"), str(self.directory / "data"),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
            )  # fmt: skip
        deadline_s = time.monotonic() + START_S
        while not _answers(self.port):
            assert process.poll() is None, (self.directory / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline_s, "the server does not answer"
            time.sleep(0.05)
        return process


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
