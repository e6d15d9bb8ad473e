"""What is denied is written to the log in Apache Kafka's words, and no client can fill the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.node.cluster.denials import LINES_PER_SECOND_MAX, NAME_CHARACTERS_MAX, DenialLog
from broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from broker.security.authorizer import Access, Authorizer
from broker.wire.apis import ApiKey

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALICE, HOST = "User:alice", "10.0.0.1"


class Lines:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **facts: object) -> None:
        assert not facts
        self.lines.append(event)


class World:
    def __init__(self, *bindings: AclBinding) -> None:
        self.now_ms, self.logger, authorizer = 0, Lines(), Authorizer()
        for each in bindings:
            authorizer.add(each)
        authorizer.is_loaded = True
        self.timers: list[tuple[int, Callable[[], None]]] = []
        log = DenialLog(
            logger=self.logger,  # type: ignore[arg-type]
            authorizer=authorizer,
            now_ms=lambda: self.now_ms,
            call_later=lambda delay_ms, call: self.timers.append((self.now_ms + delay_ms, call)),
        )
        self.access = Access(authorizer, ALICE, HOST, denied=lambda *what: log.note(ApiKey.PRODUCE, *what))

    def pass_ms(self, duration_ms: int) -> None:
        """The timers that are due then ring."""
        self.now_ms += duration_ms
        due = [each for each in self.timers if each[0] <= self.now_ms]
        self.timers = [each for each in self.timers if each[0] > self.now_ms]
        for _, call in due:
            call()


def deny(name: str, pattern: PatternType, principal: str = ALICE) -> AclBinding:
    return AclBinding(TOPIC, name, pattern, principal, "*", Operation.ALL, Permission.DENY)


def test_a_denial_is_told_as_by_apache_kafka() -> None:
    world = World()
    assert not world.access.may(Operation.WRITE, TOPIC, "orders")
    assert world.logger.lines == [
        "kafka.authorizer.logger: Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 "
        "on resource = Topic:LITERAL:orders for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
    ]


@pytest.mark.parametrize(
    ("binding", "told"),
    [
        (deny("orders", PatternType.LITERAL), "resourceName=orders, patternType=LITERAL, principal=User:alice"),
        (deny("*", PatternType.LITERAL, "User:*"), "resourceName=*, patternType=LITERAL, principal=User:*"),
        (deny("ord", PatternType.PREFIXED), "resourceName=ord, patternType=PREFIXED, principal=User:alice"),
    ],
)
def test_the_rule_that_forbids_it_is_told(binding: AclBinding, told: str) -> None:
    world = World(binding)
    assert not world.access.may(Operation.READ, TOPIC, "orders")
    (line,) = world.logger.lines
    expected = f"MatchingAcl(acl=StandardAcl[resourceType=TOPIC, {told}, host=*, operation=ALL, permissionType=DENY])"
    assert line.endswith(f"based on rule {expected}")


def test_what_is_allowed_or_only_hidden_is_not_told() -> None:
    allowed = AclBinding(TOPIC, "orders", PatternType.LITERAL, ALICE, "*", Operation.READ, Permission.ALLOW)
    world = World(allowed)
    assert world.access.may(Operation.READ, TOPIC, "orders")
    assert not world.access.could(Operation.READ, TOPIC, "others")
    assert not world.access.could_on_cluster(Operation.CREATE)
    assert world.logger.lines == []


def test_a_client_that_asks_in_a_loop_writes_so_many_lines_and_is_counted() -> None:
    world = World()
    for _ in range(10):
        for _ in range(100):
            world.access.may(Operation.READ, GROUP, "g")
        world.pass_ms(99)
    assert len(world.logger.lines) == LINES_PER_SECOND_MAX
    world.pass_ms(10)
    left_out = 1_000 - LINES_PER_SECOND_MAX
    assert world.logger.lines[-1] == f"kafka.authorizer.logger: {left_out} more denials were not written"
    world.pass_ms(5_000)
    assert len(world.logger.lines) == LINES_PER_SECOND_MAX + 1, "the client has stopped"
    assert world.timers == []


def test_a_denial_that_comes_before_the_timer_is_written_after_the_count() -> None:
    world = World()
    for _ in range(LINES_PER_SECOND_MAX + 1):
        world.access.may(Operation.READ, GROUP, "g")
    world.now_ms = 1_000  # the timer is late
    world.access.may(Operation.READ, GROUP, "g")
    assert world.logger.lines[-2] == "kafka.authorizer.logger: 1 more denials were not written"
    world.pass_ms(0)
    assert len(world.logger.lines) == LINES_PER_SECOND_MAX + 2, "it is written once"


def test_a_name_cannot_write_lines_of_its_own_nor_long_ones() -> None:
    world = World()
    world.access.may(Operation.READ, GROUP, "g\n12:00:00 INFO node=1 forged\x1b[2J")
    world.access.may(Operation.READ, GROUP, "g" * 30_000)
    forged, long = world.logger.lines
    assert "\n" not in forged
    assert "\x1b" not in forged
    assert "Group:LITERAL:g\\n12:00:00" in forged
    assert len(long) < NAME_CHARACTERS_MAX + 300
