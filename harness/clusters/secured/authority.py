"""An authority for certificates that one run makes, in its own directory. Only this run trusts it.

Keys and certificates are made by the program openssl, which a host with Python's ssl nearly always has. Files are
PEM, and only the owner can read them (a directory of mode 0700). Shown by tests/harness/test_harness_authority.py.
"""

from __future__ import annotations

import ipaddress
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault

TIMEOUT_S: Final = 60.0
VALID_S: Final = 30 * 86_400  # longer than any run
_CURVE: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
# Before this host's clock, because a broker's clock may be set back by a fault.
_BACKDATED: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """`store`: key and certificate chain in one file, as ssl.keystore.location takes it."""

    store: Path
    expires_at_s: float  # since 1970


class Authority:
    """`directory` is made here and belongs to the caller, who removes it."""

    def __init__(self, directory: Path, name: str = "kafka-harness") -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        self._directory = directory
        self._key, self.certificate = directory / f"{name}.key", directory / f"{name}.pem"
        openssl(
            "req", "-x509", *_CURVE, "-keyout", str(self._key), "-out", str(self.certificate), "-days", "60",
            "-subj", f"/CN={name} {secrets.token_hex(4)}",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def issue(
        self, name: str, hosts: Sequence[str] = (), *, valid_s: float = VALID_S, file_name: str | None = None
    ) -> Issued:
        """A certificate for these names or addresses; without any, for a client. Its files are called `file_name`, or
        `name`. Replaces an earlier one of that name, in one step, so that nobody reads half of it."""
        stem = self._directory / (file_name or name)
        request, key, certificate = (stem.with_suffix(suffix) for suffix in (".csr", ".key", ".crt"))
        openssl("req", *_CURVE, "-keyout", str(key), "-out", str(request), "-subj", f"/CN={name}")
        expires = datetime.now(UTC) + timedelta(seconds=valid_s)
        config = stem.with_suffix(".cnf")
        config.write_text(self._config(stem.name, hosts))
        stem.with_suffix(".index").write_text("")
        openssl(
            "ca", "-batch", "-notext", "-config", str(config), "-in", str(request), "-out", str(certificate),
            "-startdate", _stamp(datetime.now(UTC) - _BACKDATED), "-enddate", _stamp(expires),
        )  # fmt: skip
        store, fresh = stem.with_suffix(".store.pem"), stem.with_suffix(".fresh.pem")
        fresh.touch(mode=0o600)
        fresh.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        fresh.replace(store)
        return Issued(store=store, expires_at_s=int(expires.timestamp()))

    def _config(self, file_name: str, hosts: Sequence[str]) -> str:
        """The configuration for `openssl ca`. The other commands can only count the validity in days."""
        names = ",".join(f"{_kind(host)}:{host}" for host in hosts)
        extension = f"subjectAltName={names}\n" if hosts else ""
        return (
            "[ca]\ndefault_ca=own\n"
            f"[own]\ndatabase={self._directory}/{file_name}.index\nnew_certs_dir={self._directory}\nrand_serial=yes\n"
            f"certificate={self.certificate}\nprivate_key={self._key}\ndefault_md=sha256\npolicy=any\n"
            "unique_subject=no\nx509_extensions=leaf\n"
            "[any]\ncommonName=supplied\n"
            f"[leaf]\nbasicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            f"extendedKeyUsage=serverAuth,clientAuth\nauthorityKeyIdentifier=keyid\n{extension}"
        )


def _kind(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "DNS"
    return "IP"


def _stamp(time: datetime) -> str:
    return time.strftime("%Y%m%d%H%M%SZ")


def openssl(*arguments: str) -> str:
    """What it printed. EnvironmentFault with its words if it fails, or is not here."""
    try:
        done = subprocess.run(
            ("openssl", *arguments), capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
            umask=0o077,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise EnvironmentFault("certificates for a run are made by the program openssl, which is not here") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"openssl {arguments[0]} did not end within {TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise EnvironmentFault(f"openssl {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
