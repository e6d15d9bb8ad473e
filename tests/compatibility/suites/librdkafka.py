"""librdkafka's own tests (C and C++), built from the source that its JavaScript package carries.

Only tests that need a broker run: not those marked as local or manual, nor those with a mock cluster of their own. If
all parts of a test skip themselves, the test counts as skipped. The tests name two scenarios: brokers that create
topics by themselves, and brokers that do not. Each has a cluster, one after the other. If a test calls Kafka's
command-line tools or programs of its own in Java, it gets them from the Maven jars.

The brokers have an authorizer that allows what no list forbids, and a listener with SASL/PLAIN. Clients come there in
tests that skip themselves otherwise. librdkafka is built with zstd and its tests with RapidJSON where the headers are
(libzstd-dev, rapidjson-dev). Without them 0171 fails, and four tests skip themselves.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.broker_node.cluster_helper import CLIENT_LISTENERS, LISTENERS
from tests.compatibility.clients import CannotPrepare, built, execute
from tests.compatibility.suites.suite import Attempt, Kind, Known, Outcome, Suite, run_test
from tests.compatibility.world import SETTINGS, World

PACKAGE, PACKAGE_VERSION = "@confluentinc/kafka-javascript", "1.10.1"
PACKAGE_SHA512 = "KVePUBn21EqCVP9mfxzEuM3SYJHHEF7X+iiC2e43QQgDSyEaksInmCGooT3w5q+cNAdkSCrK71j0ICfqoSqZLw=="
SOURCE_IN_PACKAGE = "package/deps/librdkafka/"
KAFKA_VERSION = "4.3.1"
NUMBER_TIMEOUT_S = 1_200  # the tests of one number run together; 0113 takes eleven minutes
ADMINISTRATION = "0081_admin"  # ends at the first call that the broker does not know: run part by part
SCENARIOS = {"default": "true", "noautocreate": "false"}  # -> auto.create.topics.enable
SASL = "SASL_PLAINTEXT"
AUTHENTICATED = ("0135", "0142")  # the numbers that skip themselves unless they log in
USER, PASSWORD = "testuser", "testpass"
_LOGIN = f"security.protocol={SASL}\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password={PASSWORD}\n"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_USERS = f'{_PLAIN} username="admin" password="admin" user_admin="admin" user_{USER}="{PASSWORD}";'
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_SCRAMS = ("scram-sha-256", "scram-sha-512")
_WITH_LOGIN = (SASL, "INTERNAL", "CONTROLLER")  # listeners
# As the program that starts brokers for these tests (trivup) has them.
BROKER_SETTINGS = {
    "num.partitions": 4,
    "group.initial.rebalance.delay.ms": 3_000,  # Kafka's default: test 0102 wants both members in one generation
    "group.share.min.record.lock.duration.ms": 1_000,
    "share.coordinator.state.topic.num.partitions": 3,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:admin",  # the brokers
    "listener.security.protocol.map": ",".join(
        [*(f"{name}:PLAINTEXT" for name in CLIENT_LISTENERS), *(f"{name}:{SASL}" for name in _WITH_LOGIN)]
    ),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": _USERS for name in _WITH_LOGIN},
    **{f"listener.name.{name.lower()}.{each}.sasl.jaas.config": _SCRAM for name in _WITH_LOGIN for each in _SCRAMS},
    "connections.max.reauth.ms": 6_000,  # 0142 wants one; each of its parts takes that long
}
_CONFIGURE = (
    "bash",
    "./configure",
    "--disable-lz4-ext",
    "--disable-sasl",
    "--disable-optimization",
)
_DECLARED = re.compile(r"_TEST\((\w+),\s*([A-Z0-9_| ]+?)\s*[,)](.*?)(?=_TEST\(|/\* Manual|\{NULL\})", re.DOTALL)
_RESULT = re.compile(r"^\|(?:\x1b\[\d+m)? (\w+) +\| +(PASSED|FAILED|SKIPPED|RUNNING) \| +([\d.]+)s (.*)$", re.MULTILINE)
# A test that fails and leaves threads behind ends the program before the summary.
_FAILURE = re.compile(r'### Test "(\w+)[^\n]*? failed at ([\w.-]+:\d+)[^\n]*###[^\n]*\n([^\n]*)')
_PASSED = re.compile(r"=+ Test (\w+) PASSED =+")
_FUNCTION = re.compile(r"^(?:static )?(?:void|int)\s+(do_test_\w+)\(", re.MULTILINE)
_STATES = {"PASSED": "passed", "SKIPPED": "skipped"}
_COLOUR = re.compile(r"\x1b\[\d+m")
_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    name: str
    scenario: str
    part: str = ""  # of a test that is run part by part: what its sub-test's name begins with

    @property
    def number(self) -> str:
        return self.name.split("_")[0]


class Librdkafka(Suite):
    name = "librdkafka's own tests"
    language = "C, C++"
    known: ClassVar[Mapping[str, Known]] = {
        "0174_share_consumer_concurrency": Known(
            state="client",
            reason="its producer waits for each record and wants 170 a second for two minutes; a busy host does not "
            "let it have as many, and what it had sent in time was consumed",
        )
    }
    source = f"the npm package {PACKAGE} {PACKAGE_VERSION}, which carries librdkafka's source"
    variables: ClassVar[Mapping[str, str]] = {}

    def prepare(self) -> str:
        source = _source()
        self._tests = source / "tests"
        if not (self._tests / "test-runner").is_file():
            execute(list(_CONFIGURE), source)
            for target in (["-C", "src"], ["-C", "src-cpp"], ["-C", "tests", "test-runner"]):
                execute(["make", "-j2", *target], source)
        declared = declared_in((self._tests / "test.c").read_text())
        parts = parts_of(ADMINISTRATION, (self._tests / "0081-admin.c").read_text())
        self._declared = {each.name: each for each in (*declared, *parts) if each.name != ADMINISTRATION}
        self._jars = ensure_jars()
        found = re.search(r"#define RD_KAFKA_VERSION 0x(\w\w)(\w\w)(\w\w)", (source / "src" / "rdkafka.h").read_text())
        return ".".join(str(int(part, 16)) for part in found.groups()) if found else "?"

    def tests(self) -> Sequence[str]:
        """By scenario, so that each has its cluster once."""
        order = list(SCENARIOS)
        return sorted(self._declared, key=lambda name: order.index(self._declared[name].scenario))

    @contextmanager
    def opened(self, directory: Path, kind: Kind) -> Iterator[Attempt]:
        programs = self._tool_scripts(directory)
        # Of a number's tests, which run together, or of a part.
        outcomes: dict[tuple[str, str], dict[str, Outcome]] = {}
        current: list[tuple[str, World]] = []
        with ExitStack() as stack:

            def attempt(test: str) -> Outcome:
                declared = self._declared[test]
                if not current or current[-1][0] != declared.scenario:
                    stack.pop_all().close()
                    world = stack.enter_context(_world(directory, declared.scenario, kind))
                    current.append((declared.scenario, world))
                key = (declared.scenario, declared.part or declared.number)
                if key not in outcomes:
                    outcomes[key] = self._run(declared, current[-1][1], directory, programs)
                return outcomes[key].get(test, Outcome(state="failed", reason="no result of it was printed"))

            yield attempt

    def _run(self, declared: _Declared, world: World, directory: Path, programs: Path) -> dict[str, Outcome]:
        configuration = directory / "test.conf"
        listener, login = (SASL, _LOGIN) if declared.number in AUTHENTICATED else ("DIRECT", "")
        bootstrap = world.cluster.bootstrap(listener)
        configuration.write_text(f"bootstrap.servers={bootstrap}\ntest.topic.random=true\n{login}")
        environment = {
            "RDKAFKA_TEST_CONF": str(configuration), "TESTS": declared.number, "BROKERS": bootstrap,
            **self.variables, "KAFKA_PATH": str(programs), "TEST_KAFKA_VERSION": KAFKA_VERSION, "CI": "true",
            "LD_LIBRARY_PATH": f"{self._tests.parent / 'src'}:{self._tests.parent / 'src-cpp'}",
        }  # fmt: skip
        if declared.part:
            environment["SUBTESTS"] = f"{declared.part}:"
        command = [str(self._tests / "test-runner"), "-p1", "-L", "-s", declared.scenario]
        log = directory / f"{declared.scenario}-{declared.part or declared.number}.log"
        code, printed = run_test(command, environment, self._tests, log, NUMBER_TIMEOUT_S)
        found = outcomes_of(printed)
        if declared.part and ADMINISTRATION in found:
            found = {declared.name: found[ADMINISTRATION]}
        if code is None and not found:
            return dict.fromkeys(self._declared, Outcome(state="failed", reason=f"no end within {NUMBER_TIMEOUT_S} s"))
        return found

    def _tool_scripts(self, directory: Path) -> Path:
        scripts = directory / "kafka" / "bin"
        scripts.mkdir(parents=True)
        for name, main_class in _TOOLS.items():
            script = scripts / name
            java = f'exec "{java_command()}" -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "{self._jars}/*"'
            script.write_text(f'#!/bin/sh\n{java} {main_class} "$@"\n')
            script.chmod(0o755)
        # For the programs in Java that some tests bring: they compile them against libs.
        runner = scripts / "kafka-run-class.sh"
        runner.write_text(f'#!/bin/sh\nexec "{java_command()}" -cp "$CLASSPATH:{self._jars}/*" "$@"\n')
        runner.chmod(0o755)
        (scripts.parent / "libs").symlink_to(self._jars)
        return scripts.parent


class LibrdkafkaConsumerProtocol(Librdkafka):
    """The tests whose consumers join a group, once more, with the new protocol of groups."""

    name = "librdkafka's own tests, KIP-848"
    known: ClassVar[Mapping[str, Known]] = {}
    source = "the same, with group.protocol=consumer: the tests whose consumers subscribe"
    variables: ClassVar[Mapping[str, str]] = {"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"}

    def tests(self) -> Sequence[str]:
        return [name for name in super().tests() if self._joins_a_group(self._declared[name])]

    def _joins_a_group(self, declared: _Declared) -> bool:
        if declared.part:
            return "Group" in declared.name
        text = "".join(path.read_text() for path in sorted(self._tests.glob(f"{declared.number}-*.c*")))
        return "subscribe(" in text and "share_consumer" not in declared.name


def _judged(result: str, seconds: str, said: str) -> tuple[str, str]:
    if result == "PASSED" and float(seconds) == 0:
        return "SKIPPED", "none of its parts ran"
    return result, _COLOUR.sub("", said).strip(" |")


def outcomes_of(printed: str) -> dict[str, Outcome]:
    """By test: from the summary, and from what failed or passed before it."""
    found = {name: _judged(*rest) for name, *rest in _RESULT.findall(printed)}
    for name, where, said in _FAILURE.findall(printed):
        found.setdefault(name, ("FAILED", f"{where}: {_COLOUR.sub('', said)}"))
    for name in _PASSED.findall(printed):
        found.setdefault(name, ("PASSED", ""))
    return {name: Outcome(state=_STATES.get(result, "failed"), reason=said) for name, (result, said) in found.items()}


def _source() -> Path:
    """librdkafka's source in the cache, from the package whose content is known."""
    place = built("librdkafka") / PACKAGE_VERSION
    source = place / SOURCE_IN_PACKAGE
    if not source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        execute(["npm", "pack", "--silent", f"{PACKAGE}@{PACKAGE_VERSION}"], place)
        (archive,) = place.glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != PACKAGE_SHA512:
            raise CannotPrepare(f"{archive.name}: expected SHA-512 {PACKAGE_SHA512}, got {found}")
        with tarfile.open(archive) as packed:
            packed.extractall(
                place, [each for each in packed if each.name.startswith(SOURCE_IN_PACKAGE)], filter="data"
            )
        for program in ("configure", "lds-gen.py"):  # a package's files lose this bit
            (source / program).chmod(0o755)
    return source


def declared_in(text: str) -> list[_Declared]:
    """The table of tests.c, without what is marked local or manual."""
    table = text[text.index("struct test tests[] = {") : text.index("{NULL}};")] + "{NULL}"
    return [
        _Declared(name=name, scenario="noautocreate" if '.scenario = "noautocreate"' in rest else "default")
        for name, flags, rest in _DECLARED.findall(table)
        if "TEST_F_LOCAL" not in flags and "TEST_F_MANUAL" not in flags and not name.endswith("_mock")
    ]


def parts_of(test: str, text: str) -> list[_Declared]:
    """The sub-tests in the source of a test, each as one of its own."""
    functions = re.split(r"^}", text, flags=re.MULTILINE)
    names = [found[1] for each in functions if "SUB_TEST" in each and (found := _FUNCTION.search(each))]
    return [_Declared(name=f"{test} {name.removeprefix('do_test_')}", scenario="default", part=name) for name in names]


def _world(directory: Path, scenario: str, kind: Kind) -> World:
    place = directory / scenario
    settings = {**SETTINGS, **BROKER_SETTINGS, "auto.create.topics.enable": SCENARIOS[scenario]}
    place.mkdir(parents=True)
    racks = {broker: f"RACK{broker}" for broker in (1, 2, 3)}
    return World(place, cluster=kind(place, settings=settings, racks=racks, listeners=(*LISTENERS, SASL)))
