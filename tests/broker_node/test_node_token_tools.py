"""Apache Kafka's tool for delegation tokens prints the same for both brokers, and its client logs in by one at both."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka_node import kafka_node
from same_words import KNOWN_WITHIN_S, READING
from security_helper import PLAIN_ENTRY, USERS, SecuredCluster

from broker.client import Admin, KafkaError
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import wait_until

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.kafka]
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
TIMEOUT_S = 120
KEY = "a key of both"
TOKENS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": KEY,
}
OF_KAFKA = {
    **TOKENS,
    "listener.security.protocol.map": "DIRECT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.direct.plain.sasl.jaas.config": f"{PLAIN_ENTRY};",
    "listener.name.direct.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.direct.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(Apache Kafka's, ours), SASL_PLAINTEXT."""
    directory = tmp_path_factory.mktemp("tools")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with (
        kafka_node(directory / "kafka", OF_KAFKA) as theirs,
        SecuredCluster(directory / "ours", settings=TOKENS) as cluster,
    ):
        cluster.wait_until_all_are_known()
        yield theirs, cluster.ports[1]["SASL_PLAINTEXT"]


def settings_of(user: str) -> dict[str, object]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{user}" password="{USERS[user]}";',
    }


def admin_of(port: int, settings: Mapping[str, object]) -> Admin:
    return Admin({"bootstrap.servers": f"127.0.0.1:{port}", "default.api.timeout.ms": 60_000, **settings})


def written(directory: Path, name: str, settings: Mapping[str, object]) -> Path:
    path = directory / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def run(port: int, tool: str, *arguments: str, as_user: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    java = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    return subprocess.run(
        [*java, tool, "--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(as_user), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=directory,
        check=False,
    )


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d|\d{13}|\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}")


def shown(done: subprocess.CompletedProcess[str], token: tuple[str, str] | None) -> list[str]:
    """Its words, without what is another one in each cluster."""
    text = done.stdout + "\n".join(line for line in done.stderr.splitlines() if "Exception" in line)
    for value, name in zip(token or (), ("ID", "HMAC"), strict=False):
        text = text.replace(value, name)
    return [" ".join(line.split()) for line in _TIME.sub("TIME", text).splitlines() if line.strip()]


def made(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """(id, HMAC in base64) of a token that was just created."""
    row = next(line for line in done.stdout.splitlines() if "==" in line)
    first, second = row.split()[:2]
    return first, second


def test_the_tool_prints_the_same_for_both(ports: tuple[int, int], tmp_path: Path) -> None:
    alice, bob = (written(tmp_path, name, settings_of(name)) for name in ("alice", "bob"))
    tokens: dict[int, tuple[str, str]] = {}

    def step(port: int, who: Path, *arguments: str) -> list[str]:
        filled = [each.replace("HMAC", tokens[port][1]) if port in tokens else each for each in arguments]
        done = run(port, TOOL, *filled, as_user=who, directory=tmp_path)
        if "--create" in arguments and done.returncode == 0:
            tokens[port] = made(done)
        return [str(done.returncode), *shown(done, tokens.get(port))]

    steps = (
        (bob, "--create", "--max-life-time-period", "-1", "--owner-principal", "User:carol"),
        (alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
        (alice, "--describe"),
        (bob, "--describe", "--owner-principal", "User:alice"),
        (bob, "--describe", "--owner-principal", "User:nobody"),
        (bob, "--renew", "--renew-time-period", "-1", "--hmac", "HMAC"),
        (alice, "--renew", "--renew-time-period", "100000", "--hmac", "eA=="),
        (alice, "--expire", "--expiry-time-period", "3000000", "--hmac", "HMAC"),
        (bob, "--expire", "--expiry-time-period", "-1", "--hmac", "HMAC"),
        (alice, "--describe"),
    )
    with ThreadPoolExecutor(2) as pool:
        for who, *arguments in steps:
            deadline_s = time.monotonic() + KNOWN_WITHIN_S
            while True:
                theirs, ours = pool.map(lambda port, who=who, given=arguments: step(port, who, *given), ports)
                if ours == theirs or not READING.intersection(arguments) or time.monotonic() > deadline_s:
                    break
            assert ours == theirs, arguments
            assert len(ours) > 1, f"{arguments} prints something"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_java_client_logs_in_by_a_token(ports: tuple[int, int], tmp_path: Path, mechanism: str) -> None:
    def printed(port: int) -> tuple[list[str], int]:
        with admin_of(port, settings_of("admin")) as admin:
            token = admin.tokens.create(owner="User:admin")
        given = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": token.jaas_config
        }  # fmt: skip
        as_holder = written(tmp_path, f"{port}-{mechanism}", given)
        wait_until(lambda: _is_in(port, given), "the broker knows the token")
        topics = run(port, "org.apache.kafka.tools.TopicCommand", "--create", "--topic", f"by-{mechanism}",
                     as_user=as_holder, directory=tmp_path)  # fmt: skip
        refused = run(port, TOOL, "--create", "--max-life-time-period", "-1", as_user=as_holder, directory=tmp_path)
        return [*shown(topics, None), *shown(refused, None)], topics.returncode

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(printed, ports)
    assert ours == theirs
    assert ours[1] == 0
    assert any("DelegationTokenDisabled" in line or "not allowed" in line for line in ours[0]), ours


def _is_in(port: int, settings: Mapping[str, object]) -> bool:
    try:
        with admin_of(port, settings) as admin:
            return bool(admin.describe_cluster().brokers)
    except KafkaError:
        return False


def test_the_reference_client_gets_the_same_of_both(ports: tuple[int, int]) -> None:
    """Errors, and what an answer with an error says of times."""

    def told(port: int) -> list[object]:
        with admin_of(port, settings_of("alice")) as alice, admin_of(port, settings_of("bob")) as bob:
            token = alice.tokens.create(renewers=["User:bob", "User:bob"])
            wait_until(lambda: token.token_id in {each.token_id for each in alice.tokens.describe()}, "it is known")
            found: list[object] = [token.owner, token.requester, token.expires_ms - token.issued_ms]
            found += [token.ends_ms - token.issued_ms, len(token.token_id), len(token.hmac)]
            found += [_error(lambda: bob.tokens.create(owner="User:alice")), _error(lambda: bob.tokens.renew(b"x"))]
            found += [_error(lambda: alice.tokens.create(renewers=["Group:g"])), _error(lambda: bob.tokens.expire(b""))]
            found += [each.renewers for each in bob.tokens.describe(["User:alice"]) if each.token_id == token.token_id]
            found += [len(bob.tokens.describe([])), alice.tokens.expire(token.hmac, period_ms=-5) < token.expires_ms]
            return found

    theirs, ours = map(told, ports)
    assert ours == theirs


def _error(call: object) -> ErrorCode | None:
    assert callable(call)
    try:
        call()
    except KafkaError as error:
        return ErrorCode(error.code)
    return None
