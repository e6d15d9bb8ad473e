"""Apache Kafka as somebody else would run it: TLS and SASL listeners, its own certificates, started by no harness.

One listener for each security protocol; users alice (PLAIN and SCRAM-SHA-256); certificates by the JDK's keytool.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from harness.clusters.base import Address
from harness.clusters.cluster_id import new_cluster_id
from harness.clusters.kafka.jars import ensure_jars, java_command
from harness.clusters.kafka.layout import DEFAULT_SETTINGS
from harness.clusters.ports import PortAllocator
from harness.clusters.requests.probe import BrokerProbe
from tests.patience import Patience, run_command

USER: Final = "alice"
PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
_LISTENERS: Final = (*PROTOCOLS, "CONTROLLER")


class SecuredKafka:
    """`directory` takes everything; `start` returns when all brokers see one another, `stop` when all are gone.
    `session_ms`: how long an authentication counts (connections.max.reauth.ms), 0 for ever."""

    def __init__(self, directory: Path, *, brokers: int, session_ms: int = 0) -> None:
        self._session_ms = session_ms
        self.directory, self.ids = directory, tuple(range(1, brokers + 1))
        self.password = secrets.token_urlsafe(12)
        self._store_password = secrets.token_urlsafe(12)
        self._allocator = PortAllocator()
        self._ports = {(broker, name): self._allocator.take() for broker in self.ids for name in _LISTENERS}
        self._processes: list[subprocess.Popen[bytes]] = []

    def bootstrap(self, protocol: str) -> str:
        return ",".join(f"127.0.0.1:{self._ports[broker, protocol]}" for broker in self.ids)

    @property
    def ports(self) -> set[int]:
        return set(self._ports.values())

    def client_config(self, protocol: str, mechanism: str = "PLAIN", *, password: str | None = None) -> Path:
        """A client's properties, with the authority's certificate as PEM, as every client can read it."""
        lines = [f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.directory / 'ca.pem'}"]
        if protocol.startswith("SASL"):
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            options = f'username="{USER}" password="{password or self.password}"'
            if mechanism == "OAUTHBEARER":
                module, options = "oauthbearer.OAuthBearerLoginModule", f'unsecuredLoginStringClaim_sub="{USER}"'
            lines += [
                f"sasl.mechanism={mechanism}",
                f"sasl.jaas.config=org.apache.kafka.common.security.{module} required {options};",
            ]
        path = self.directory / f"client-{protocol}-{mechanism}-{'other' if password else 'own'}.properties"
        path.write_text("\n".join(lines) + "\n")
        return path

    def start(self) -> None:
        self._make_certificates()
        jars, java, cluster_id = ensure_jars(), java_command(), new_cluster_id()
        base = [java, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars}/*"]
        for broker in self.ids:
            path = self._write_properties(broker)
            scram = [f"{each}=[name={USER},password={self.password}]" for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
            tool = [*base, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(path)]
            users = [part for each in scram for part in ("--add-scram", each)]
            run_command([*tool, *users], check=True)
        for broker in self.ids:
            with (self.directory / f"broker-{broker}.log").open("wb") as log:
                command = [base[0], "-Xmx512m", *base[1:], "kafka.Kafka", str(self._properties(broker))]
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        self._wait()

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def _wait(self) -> None:
        patience = Patience(f"Apache Kafka: see {self.directory}")
        logs = [self.directory / f"broker-{broker}.log" for broker in self.ids]
        waiting = set(self.ids)
        while waiting:
            patience.check((len(waiting), [log.stat().st_size for log in logs]))
            for process in self._processes:
                assert process.poll() is None, f"a broker ended: see {self.directory}"
            for broker in sorted(waiting):
                probe = BrokerProbe(Address(host="127.0.0.1", port=self._ports[broker, "PLAINTEXT"]))
                state = probe.metadata(None)
                probe.close()
                if state is not None and len(state.brokers) == len(self.ids):
                    waiting.discard(broker)
            time.sleep(0.2)

    def _properties(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}.properties"

    def _write_properties(self, broker: int) -> Path:
        own = {name: self._ports[broker, name] for name in _LISTENERS}
        replicas = str(min(3, len(self.ids)))
        plain = f'username="x" password="x" user_{USER}="{self.password}"'
        settings = {
            **DEFAULT_SETTINGS,
            **{name: replicas for name in DEFAULT_SETTINGS if name.endswith("replication.factor")},
            "transaction.state.log.min.isr": "1",
            "node.id": str(broker),
            "process.roles": "broker,controller",
            "controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{self._ports[i, 'CONTROLLER']}" for i in self.ids),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in own.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{own[name]}" for name in PROTOCOLS),
            "listener.security.protocol.map": ",".join(f"{n}:{n}" for n in PROTOCOLS) + ",CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / f"data-{broker}"),
            "ssl.keystore.location": str(self.directory / "broker.p12"),
            "ssl.keystore.password": self._store_password,
            "ssl.key.password": self._store_password,
            "ssl.keystore.type": "PKCS12",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "connections.max.reauth.ms": str(self._session_ms),
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{listener}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {plain};"
            )
            for hashed in ("256", "512"):
                settings[f"{prefix}.scram-sha-{hashed}.sasl.jaas.config"] = (
                    "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                )
            settings[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredLoginStringClaim_sub="broker";'
            )
        path = self._properties(broker)
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _make_certificates(self) -> None:
        keytool = shutil.which("keytool")
        assert keytool, "keytool comes with the JDK"
        store = ["-keystore", str(self.directory / "broker.p12"), "-storetype", "PKCS12"]
        secret = ["-storepass", self._store_password]
        run = [keytool, *store, *secret, "-alias", "broker"]
        made = ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=127.0.0.1", "-validity", "7"]
        # Its own authority: a self-signed certificate is what a test needs, and what is checked is the same.
        extensions = ["-ext", "san=ip:127.0.0.1,dns:localhost", "-ext", "bc=ca:true"]
        run_command([*run, *made, *extensions], check=True)
        pem = ["-exportcert", "-rfc", "-file", str(self.directory / "ca.pem")]
        run_command([*run, *pem], check=True)
        trust = [keytool, "-keystore", str(self.directory / "trust.jks"), "-storetype", "JKS", "-storepass", "trusted"]
        imported = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(self.directory / "ca.pem")]
        run_command([*trust, *imported], check=True)
