"""The timeline with a fake cluster and a fake clock; targets and conditions; the scenario files themselves."""

from __future__ import annotations

from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from chaos import conditions, timeline
from chaos.faults import FAULTS
from chaos.faults.base import FaultSpec, Proof
from chaos.model import Scenario, builtin_scenarios, load_builtin, parse_scenario
from chaos.scenario_page import render
from chaos.targets import (
    PartitionOfInterest,
    TargetError,
    bridge,
    check_client_target,
    resolve_brokers,
    resolve_clients,
    resolve_links,
    ring,
)
from runlog.records.fault import PLANNED_US

OF = PartitionOfInterest(topic="t", group="t-app", transactional_id="t-app-0")
CLIENTS = ("app-0", "app-1", "my-app-0")
LINKS = tuple(f"client-{j}" for j in (1, 2, 3)) + tuple(
    f"{kind}-{i}-{j}" for kind in ("internal", "controller") for i in (1, 2, 3) for j in (1, 2, 3) if i != j
)


class FakeClock:
    def __init__(self) -> None:
        self.us = 5_000_000
        self.is_stop_asked = False
        self.stop_at_us: int | None = None
        self.on_tick = lambda: None

    def now_us(self) -> int:
        return self.us

    def wait_ms(self, duration_ms: float) -> bool:
        self.us += max(1, int(duration_ms * 1000))
        self.on_tick()
        return self.is_stopped()

    def is_stopped(self) -> bool:
        return self.is_stop_asked or (self.stop_at_us is not None and self.us >= self.stop_at_us)


class FakePort:
    """A cluster that is its own ports."""

    def __init__(self) -> None:
        self.brokers = self.files = self.load = self
        self.broker_ids = (1, 2, 3)
        self.current_leader: int | None = 2
        self.current_isr = [1, 2, 3]
        self.acked = 0
        self.lag: int | None = None
        self.running = [1, 2, 3]
        self.current_controller = 3
        self.current_coordinator = 1

    def leader(self, topic, partition):
        return self.current_leader

    def isr(self, topic, partition):
        return self.current_isr

    def replicas(self, topic, partition):
        return (3, 2, 1)

    def controller(self):
        return self.current_controller

    def group_coordinator(self, group):
        return {"t-app": self.current_coordinator, "billing:eu": 1}.get(group)

    def transaction_coordinator(self, transactional_id):
        return {"t-app-0": 3, "tx -> 1, a": 2}.get(transactional_id)

    def is_running(self, broker):
        return broker in self.running

    def high_watermark_lag(self, topic, partition):
        return self.lag


class RecordingFault:
    """Stands in the table of faults; writes down what is done to it."""

    def __init__(self, done, *, proof=True, fails=()):
        self.done, self.proof, self.fails, self.run_type = done, proof, fails, _Run

    def spec(self, name):
        def make(context, parameters):
            return self.run_type(self, name, context, parameters)

        return FaultSpec(name=name, label=name, colour="#000000", target_kind="broker", default_target="leader",
                         make=make, parameters={"size": 1}, is_proved_at_heal=name == "late")  # fmt: skip


class _Run:
    def __init__(self, owner, name, context, parameters):
        self.owner, self.name, self.context, self.parameters = owner, name, context, parameters

    def _do(self, what):
        self.owner.done.append((what, self.name, self.context.brokers))
        if what in self.owner.fails:
            raise RuntimeError(f"{what} broke")

    def inject(self):
        self._do("inject")

    def heal(self):
        self._do("heal")

    def prove(self):
        self.owner.done.append(("prove", self.name, self.context.brokers))
        return Proof(is_effective=self.owner.proof, detail={"evidence": 1})


@pytest.fixture
def faults(monkeypatch):
    fault = RecordingFault([])
    for name in ("one", "two", "late"):
        monkeypatch.setitem(FAULTS, name, fault.spec(name))
    return fault


def scenario(*steps) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "s",
            "title": "s",
            "damage": "none",
            "source": "test",
            "timeline": steps,
            "cases": {"c": {"title": "c"}},
        }
    )


def play(steps, *, port=None, clock=None):
    port, clock, lines = port or FakePort(), clock or FakeClock(), []
    result = timeline.run(
        scenario(*steps), "c", port, lines.append, clock=clock, topic="t", measure_start_us=clock.now_us()
    )
    return result, lines


def phases(lines):
    return [(line.id, line.phase) for line in lines]


def test_what_a_proof_is_compared_with_is_measured_before_the_fault_and_is_not_its_time(faults, monkeypatch):
    clock = FakeClock()

    class Comparing(_Run):
        def observe(self):
            self._do("observe")
            clock.wait_ms(40)

    monkeypatch.setattr(faults, "run_type", Comparing)
    _, lines = play([{"id": "a", "at": "2s", "fault": "one"}], clock=clock)
    assert [what for what, *_ in faults.done][:3] == ["observe", "inject", "prove"]
    applied = next(line for line in lines if line.phase == "applied")
    assert applied.detail["took_us"] < 40_000


def test_a_step_with_a_time_tells_when_it_was_to_begin(faults):
    """What comes after another step, or after a wait, has no such time."""
    clock = FakeClock()
    start_us = clock.now_us()
    steps = [
        {"id": "a", "at": "2s", "delay": "500ms", "fault": "one"},
        {"id": "b", "after": "a", "delay": "500ms", "fault": "two"},
    ]
    _, lines = play(steps, clock=clock)
    planned = {line.id: line.detail.get(PLANNED_US) for line in lines if line.phase == "applied"}
    assert planned == {"a": start_us + 2_500_000, "b": None}


def test_steps_run_at_their_time_and_everything_is_healed_in_reverse_order(faults):
    steps = [{"id": "a", "at": "2s", "fault": "one"}, {"id": "b", "after": "a", "delay": "500ms", "fault": "two"}]
    result, lines = play(steps)
    assert result == timeline.TimelineResult(problem="", unproved=())
    assert phases(lines) == [
        ("a", "applied"), ("a", "proved"), ("b", "applied"), ("b", "proved"), ("b", "healed"), ("a", "healed"),
    ]  # fmt: skip
    assert 0 <= lines[0].t_us - 7_000_000 < 25_000
    assert 0 <= lines[2].t_us - lines[1].t_us - 500_000 < 25_000
    assert (lines[0].kind, lines[0].target, lines[0].resolved) == ("one", "leader", ("2",))


def test_for_heals_by_itself_while_later_steps_run(faults):
    steps = [{"id": "a", "at": "1s", "fault": "one", "for": "1s"}, {"id": "b", "at": "5s", "fault": "two"}]
    _, lines = play(steps)
    assert phases(lines)[2] == ("a", "healed")
    assert 0 <= lines[2].t_us - 7_000_000 < 45_000


def test_last_timed_heal_is_awaited(faults):
    _, lines = play([{"id": "a", "at": "1s", "fault": "one", "for": "3s"}])
    assert 0 <= lines[-1].t_us - 9_000_000 < 45_000


def test_heal_step_ends_one_fault_and_healing_twice_is_no_error(faults):
    steps = [
        {"id": "a", "fault": "one", "for": "100ms"},
        {"id": "b", "fault": "two"},
        {"id": "heal-b", "heal": "b"},
        {"id": "heal-a", "at": "2s", "heal": "a"},
    ]
    result, lines = play(steps)
    assert result.problem == ""
    assert [item for item in phases(lines) if item[1] == "healed"] == [("b", "healed"), ("a", "healed")]


def test_fault_without_effect_is_recorded_and_reported(faults):
    faults.proof = False
    result, lines = play([{"id": "a", "fault": "one"}])
    assert result.unproved == ("a",)
    assert phases(lines) == [("a", "applied"), ("a", "not_effective"), ("a", "healed")]


def test_fault_that_needs_traffic_is_proved_before_it_is_healed(faults):
    _, lines = play([{"id": "a", "fault": "late", "for": "1s"}])
    assert phases(lines) == [("a", "applied"), ("a", "proved"), ("a", "healed")]
    assert lines[1].t_us - lines[0].t_us >= 1_000_000
    assert [what for what, _, _ in faults.done] == ["inject", "prove", "heal"]


def test_failed_injection_is_healed_too_and_the_failure_is_told(faults):
    faults.fails = ("inject",)
    result, _ = play([{"id": "a", "fault": "one"}, {"id": "b", "fault": "two"}])
    assert "inject broke" in result.problem
    assert [(what, name) for what, name, _ in faults.done] == [("inject", "one"), ("heal", "one")]


def test_failed_healing_does_not_keep_others_from_being_healed(faults):
    faults.fails = ("heal",)
    result, _ = play([{"id": "a", "fault": "one"}, {"id": "b", "fault": "two"}])
    assert "healing b failed" in result.problem
    assert "healing a failed" in result.problem


def test_stop_ends_a_wait_and_heals(faults):
    clock = FakeClock()
    clock.stop_at_us = clock.us + 3_000_000
    result, lines = play([{"id": "a", "fault": "one"}, {"id": "b", "at": "60s", "fault": "two"}], clock=clock)
    assert result.problem == "stopped"
    assert phases(lines)[-1] == ("a", "healed")
    assert clock.us < clock.stop_at_us + 100_000


def test_condition_that_never_comes_fails_within_its_limit(faults):
    clock = FakeClock()
    steps = [{"id": "a", "fault": "one"}, {"id": "w", "when": "isr == 1", "within": "2s"}]
    result, lines = play(steps, clock=clock)
    assert "'isr == 1' did not come within 2000 ms" in result.problem
    assert ("w", "not_effective") in phases(lines)
    assert phases(lines)[-1] == ("a", "healed")


def test_leader_changed_waits_for_another_leader_and_roles_follow(faults):
    port, clock = FakePort(), FakeClock()
    port.current_leader = 1

    def tick():
        if clock.us > 6_000_000:
            port.current_leader = None
        if clock.us > 8_000_000:
            port.current_leader = 3

    clock.on_tick = tick
    steps = [{"id": "a", "fault": "one"}, {"id": "w", "when": "leader changed"}, {"id": "b", "fault": "two"}]
    result, _ = play(steps, port=port, clock=clock)
    assert result.problem == ""
    assert [brokers for what, _, brokers in faults.done if what == "inject"] == [(1,), (3,)]


def test_vacant_role_is_awaited_then_a_failure(faults):
    port = FakePort()
    port.current_leader = None
    result, _ = play([{"id": "a", "fault": "one"}], port=port)
    assert "nobody is 'leader'" in result.problem


@pytest.mark.parametrize(
    ("text", "change", "holds"),
    [
        ("isr == 3", {}, True),
        ("isr < 3", {}, False),
        ("isr <  3", {"current_isr": [1]}, True),
        ("isr == 0", {"current_isr": []}, False),  # nobody answered: nothing is known
        ("acked >= 10", {"acked": 9}, False),
        ("acked >= 10", {"acked": 10}, True),
        ("acked grew by 5", {"acked": 6}, False),
        ("acked grew by 5", {"acked": 7}, True),
        ("high watermark lags by 5", {}, False),
        ("high watermark lags by 5", {"lag": 5}, True),
        ("leader changed", {}, False),
        ("leader changed", {"current_leader": None}, False),
        ("leader changed", {"current_leader": 1}, True),
        ("no leader", {}, False),
        ("no leader", {"current_leader": None}, True),
        ("leader gone", {}, False),
        ("leader gone", {"current_leader": None}, True),
        ("leader gone", {"current_leader": 1}, True),
        ("controller changed", {"current_controller": 2}, False),
        ("controller changed", {}, True),
        ("controller changed", {"running": [1, 2]}, False),  # the dead one is still believed to be it
        ("broker stopped", {}, False),
        ("broker stopped", {"running": [1, 3]}, True),
    ],
)
def test_conditions(text, change, holds):
    port = FakePort()
    for name, value in change.items():
        setattr(port, name, value)
    observed = conditions.Observed(leader=2, controller=2, running=frozenset({1, 2, 3}), acked_at_start_of_wait=2)
    assert conditions.parse(text).holds(port, OF, observed)[0] is holds


class DirectoriesPort(FakePort):
    """Broker 2 has partitions 0 and 1 in directory a, and 2 in b. The other brokers have no log here."""

    def __init__(self, failed, in_sync):
        super().__init__()
        self.topics = self.log_directories = self
        self.paths, self.in_sync = failed, in_sync

    def failed(self, broker):
        return frozenset(map(Path, self.paths)) if broker == 2 else frozenset()

    def partition_count(self, topic):
        return 3

    def partition_directory(self, broker, topic, partition):
        return Path("/b" if partition == 2 else "/a") / f"{topic}-{partition}" if broker == 2 else None

    def isr(self, topic, partition):
        return [1, 2, 3] if partition in self.in_sync else [1, 3]


@pytest.mark.parametrize(
    ("failed", "in_sync", "holds"),
    [
        (["/a"], [2], True),
        ([], [2], False),  # it says of no directory that it failed
        (["/a"], [0, 2], False),  # a replica there is still in sync
        (["/a"], [], False),  # the broker does not go on with the other directory
        (["/a", "/b"], [], False),
        (["/c"], [0, 1, 2], False),  # it has nothing of the topic
    ],
)
def test_a_log_directory_has_failed_if_its_replicas_are_out_of_sync_and_the_others_in_sync(failed, in_sync, holds):
    port, condition = DirectoriesPort(failed, in_sync), conditions.parse("log directory failed")
    observed = conditions.Observed(leader=2, running=frozenset({1, 2, 3}))
    is_met, seen = condition.holds(port, OF, observed)
    assert is_met is holds
    assert seen["failed"] == failed
    if holds:
        assert (seen["broker"], seen["out_of_sync_there"], seen["in_sync_elsewhere"]) == (2, [0, 1], [2])
    assert conditions.is_of_files("log directory failed")
    assert not conditions.is_seen_by_clients("log directory failed")


STRIKES_ONE = {"id": "a", "fault": "disk_full", "with": {"directories": "partition"}}


def test_a_fault_of_one_log_directory_needs_brokers_with_several():
    for step in (STRIKES_ONE, {"id": "a", "fault": "log_directory_emptied"}):
        with pytest.raises(
            ValueError, match="'a' strikes one log directory, and brokers have no other: write `log_dir"
        ):
            scenario(step)
    with pytest.raises(ValueError, match="directories is 'two', expected all or partition"):
        scenario(STRIKES_ONE | {"with": {"directories": "two"}})


@pytest.mark.parametrize(
    ("target", "brokers"),
    [
        ("leader", (2,)),
        ("followers", (1, 3)),
        ("follower:1", (3,)),
        ("heir", (3,)),  # the first in replica order, which is 3, 2, 1
        ("controller", (3,)),
        ("broker:1", (1,)),
        ("others", (1, 3)),
        ("coordinator", (1,)),
        ("txn-coordinator", (3,)),
        ("coordinator:billing:eu", (1,)),
        ("txn-coordinator:tx -> 1, a", (2,)),
        ("minority", (2,)),
        ("majority", (1, 3)),
        ("all", (1, 2, 3)),
    ],
)
def test_broker_targets(target, brokers):
    assert resolve_brokers(target, FakePort(), OF) == brokers


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("leder", "leader"), ("txn-cordinator", "txn-coordinator"), ("cordinator:billing", "coordinator"),
     ("folower:1", "follower:N"), ("coordinator:", "coordinator")],
)  # fmt: skip
def test_a_wrong_broker_target_names_the_nearest_one(wrong, right):
    with pytest.raises(TargetError, match=f"{wrong!r} is no broker target; did you mean {right!r}"):
        resolve_brokers(wrong, FakePort(), OF)


@pytest.mark.parametrize(
    ("target", "clients"), [("app:1", ("app-1",)), ("app:all", ("app-0", "app-1")), ("my-app:0", ("my-app-0",))]
)
def test_client_targets(target, clients):
    assert resolve_clients(target, CLIENTS) == clients


@pytest.mark.parametrize("target", ["app:7", "none:all"])
def test_client_targets_that_nobody_fits_name_what_there_is(target):
    with pytest.raises(TargetError, match="there are app-0, app-1, my-app-0"):
        resolve_clients(target, CLIENTS)


@pytest.mark.parametrize("target", ["app", "leader", "app:one", ""])
def test_what_is_no_client_is_refused_when_the_scenario_is_read(target):
    with pytest.raises(TargetError, match="READER:N"):
        check_client_target(target)


@pytest.mark.parametrize(
    ("target", "links"),
    [
        ("followers->leader", ("internal-1-2", "internal-3-2")),
        ("leader->followers", ("internal-2-1", "internal-2-3")),
        ("client->leader", ("client-2",)),
        ("clients->all", ("client-1", "client-2", "client-3")),
        ("controller:leader->controller", ("controller-2-3",)),
        ("all->broker:1", ("internal-2-1", "internal-3-1")),
        ("leader<->follower:0", ("internal-2-1", "internal-1-2")),
        (
            "any:minority->majority",
            ("internal-2-1", "internal-2-3", "controller-2-1", "controller-2-3"),
        ),
        ("ring", ("internal-1-3", "internal-2-1", "internal-3-2")),
        ("controller:bridge", ("controller-2-3", "controller-3-2")),
        ("client->leader, leader->follower:0", ("client-2", "internal-2-1")),
    ],
)
def test_link_targets(target, links):
    assert resolve_links(target, FakePort(), OF, LINKS) == links


@pytest.mark.parametrize("count", [3, 5, 7])
def test_a_ring_leaves_each_broker_a_majority_and_no_two_the_same(count):
    brokers = list(range(1, count + 1))
    cut = set(ring(brokers))
    views = [frozenset(other for other in brokers if (broker, other) not in cut) for broker in brokers]
    assert all(len(view) == count // 2 + 1 for view in views)
    assert len(set(views)) == count


@pytest.mark.parametrize(("count", "leader"), [(3, 2), (5, 1), (5, 4), (3, None)])
def test_a_bridge_is_the_only_way_between_its_halves(count, leader):
    brokers = list(range(1, count + 1))
    cut = set(bridge(brokers, leader))
    assert all((right, left) in cut for left, right in cut)
    everywhere = [b for b in brokers if not any(b in pair for pair in cut)]
    assert len(everywhere) == 1


@pytest.mark.parametrize(
    ("target", "links"),
    [
        ("all->broker:1", ("internal-2-1", "internal-3-1")),
    ],
)
def test_link_targets_of_all(target, links):
    assert resolve_links(target, FakePort(), OF, LINKS) == links


@pytest.mark.parametrize("target", ["boss", "broker:9", "follower:2", "", "leader->", "leader"])
def test_targets_that_nobody_fits(target):
    with pytest.raises(TargetError):
        if target == "leader" or "->" in target:
            resolve_links(target, FakePort(), OF, LINKS)
        else:
            resolve_brokers(target, FakePort(), OF)


@pytest.mark.parametrize(
    ("target", "hint"),
    [("coordinator", "coordinator:GROUP_ID"), ("txn-coordinator", "txn-coordinator:TRANSACTIONAL_ID")],
)
def test_a_coordinator_of_a_load_that_has_none_needs_a_name(target, hint):
    with pytest.raises(TargetError, match=f"write {hint}, like"):
        resolve_brokers(target, FakePort(), PartitionOfInterest(topic="t"))


def test_link_target_without_proxies_says_so():
    with pytest.raises(TargetError, match="without proxies"):
        resolve_links("client->leader", FakePort(), OF, ())


@pytest.mark.parametrize("name", builtin_scenarios())
def test_built_in_scenarios_say_where_they_are_from_and_fit_on_a_screen(name):
    loaded = load_builtin(name)
    assert loaded.name == name
    assert loaded.source
    assert loaded.tags
    lines = (resources.files("chaos") / "scenarios" / f"{name}.yaml").read_text().splitlines()
    assert len(lines) <= 50
    column = {"loss": "lost", "duplication": "duplicated", "reordering": "reordered"}.get(loaded.damage)
    outcomes = [case.expect.model_dump() for case in loaded.cases.values()]
    assert all(case.because for case in loaded.cases.values())
    if column:
        assert any(outcome[column] in ("predicted", "exact") for outcome in outcomes)
    else:
        assert not any(value in ("predicted", "exact") for outcome in outcomes for value in outcome.values())


def test_an_unknown_scenario_names_those_that_exist():
    with pytest.raises(KeyError, match=r"there are .*all-killed, .*bit-flip, broker-decommissioned, byte-limit, "):
        load_builtin("none")


def test_a_swarm_is_the_same_for_the_same_seed_and_takes_one_process_down_at_a_time():
    loaded = load_builtin("swarm")
    assert loaded.steps(5) == loaded.steps(5)
    drawn = [loaded.steps(seed) for seed in range(40)]
    assert len({tuple(step.id for step in steps) for steps in drawn}) > 30
    for steps in drawn:
        assert len(steps) == loaded.swarm.count
        down = [(step.at, step.at + step.for_) for step in steps if step.spec.target_kind == "broker"]
        assert all(end < begin for (_, end), (begin, _) in pairwise(down))
    used = {step.fault for steps in drawn for step in steps}
    assert used == {item.fault for item in loaded.swarm.faults}


def test_a_swarms_step_without_a_target_is_left_out_and_the_rest_goes_on(faults):
    port = FakePort()
    port.current_leader = None
    steps = [{"id": "a", "fault": "one", "may_miss": True}, {"id": "b", "fault": "two", "target": "broker:1"}]
    result, lines = play(steps, port=port)
    assert result.problem == ""
    assert phases(lines) == [("a", "missed"), ("b", "applied"), ("b", "proved"), ("b", "healed")]


@pytest.mark.parametrize(
    ("text", "figure", "limit"),
    [
        ("elect <= 5s", "elect", 5.0),
        ("first ack <= 1500ms", "first ack", 1.5),
        ("gap <= 3s", "gap", 3.0),
        ("recover <= 1m", "recover", 60.0),
        ("area <= 2000 record-seconds", "area", 2000.0),
    ],
)
def test_criteria_are_figures_with_limits(text, figure, limit):
    document = {"name": "s", "title": "s", "damage": "none", "source": "t", "criteria": [text],
                "timeline": [STEP], "cases": {"c": {"title": "c"}}}  # fmt: skip
    found = Scenario.model_validate(document).criteria_of("c")[0]
    assert (found.figure, found.limit) == (figure, limit)


def test_a_wrong_criterion_shows_the_forms():
    document = {"name": "s", "title": "s", "damage": "none", "source": "t", "criteria": ["elect < 5s"],
                "timeline": [STEP], "cases": {"c": {"title": "c"}}}  # fmt: skip
    with pytest.raises(ValidationError, match="detect, elect, first ack, recover or gap <="):
        Scenario.model_validate(document)


def test_cases_lay_their_settings_over_the_scenario_as_kafka_spells_them():
    loaded = load_builtin("leader-loss")
    assert loaded.properties_of("acks-1")["enable.idempotence"] == "false"
    assert loaded.properties_of("acks-all")["acks"] == "all"
    assert loaded.topic_config_of("acks-1")["min.insync.replicas"] == "2"
    assert loaded.workload_of("acks-1")["rate_per_s"] == 2000


STEP = {"id": "a", "fault": "kill", "at": "1s"}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([STEP | {"fault": "kil"}], "unknown fault 'kil'; did you mean 'kill'?"),
        ([STEP | {"at": 5}], "give a unit"),
        ([STEP | {"at": "5 parsecs"}], "is no duration"),
        ([STEP | {"colour": "red"}], "Extra inputs"),
        ([STEP | {"target": "boss"}], "is no broker target"),
        ([STEP | {"fault": "link_cut", "target": "leader"}], "is no link"),
        ([STEP | {"fault": "kafka_drop_response", "target": "followers->leader"}], "links of clients"),
        ([STEP | {"fault": "latency", "with": {"latency": 5}}], "has no parameter 'latency'"),
        ([STEP | {"fault": "latency", "with": {"latency_ms": "5"}}], "is like 100"),
        ([STEP | {"fault": "kafka_edit_response"}], "without them it changes nothing"),
        ([STEP | {"fault": "kafka_cut_frame", "with": {"frame": "both"}}], "expected one of request, response"),
        ([STEP | {"fault": "link_cut", "target": "client<->leader"}], "write client->leader"),
        ([STEP | {"fault": "disconnect"}], r"write `engines: \[docker\]`"),
        ([STEP | {"when": "isr == 1"}], "one trigger"),
        ([], "a control run has a step that only waits"),
        ([{"id": "a", "when": "isr is one"}], "is no condition"),
        ([{"id": "a"}], "something to wait for"),
        ([{"id": "a", "at": "1s", "for": "1s"}], "belong to a `fault`"),
        ([STEP, STEP], "two steps have the id"),
        ([{"id": "a", "heal": "b"}], "no earlier fault"),
        ([{"id": "a", "after": "b", "fault": "kill"}], "no earlier step"),
    ],
)
def test_wrong_scenarios_say_what_is_wrong(steps, message):
    with pytest.raises(ValidationError, match=message):
        scenario(*steps)


def test_scenario_is_read_from_yaml():
    text = "{name: x, title: x, damage: none, source: s, timeline: [{id: a, fault: kill}], cases: {c: {title: c}}}"
    assert parse_scenario(text).timeline[0].spec.name == "kill"


def test_the_page_of_scenarios_is_the_one_in_docs():
    page = Path(__file__).parents[2] / "docs" / "reference" / "scenarios.md"
    assert page.read_text() == render(), "python -m chaos.scenario_page > docs/reference/scenarios.md"
