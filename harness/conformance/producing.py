"""The trials of producers: outcomes against the log, under refusals, a freeze of the broker and a hasty close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from harness.conformance.bench import CLOSE_S, Bench
from harness.conformance.judge import Rule, Sent, judge_order, judge_outcomes
from harness.conformance.world import PARTITIONS
from workloads.clients.process.messages import Ability, ErrorEvent, NotAcknowledged, Role

ALL: Final = {"acks": "all"}
_FLUSH_S: Final = 20.0
_TOO_LARGE_BYTES: Final = 20_000
_IMPATIENT: Final = {"delivery.timeout.ms": "3000", "request.timeout.ms": "2000", "linger.ms": "0"}
_CALLERS: Final = 4
_AT_ONCE, _AFTERWARDS = 800, 200  # each fits into a command
_FROZEN_S: Final = 6.0  # twice the time of a delivery


def manners(bench: Bench) -> None:
    """An unknown command and an unknown property are refused by name; the end of its input ends the program, also
    while it is connected."""
    answer = bench.try_to("no-such-command")
    if not isinstance(answer, ErrorEvent):
        bench.wrong(Rule.REFUSED, f"an unknown command is answered by {answer.event}, not by error", answer)
    is_producer = bench.can(Ability.PRODUCE)
    role: Role = "producer" if is_producer else "sharer" if bench.can(Ability.SHARE) else "consumer"
    if not bench.ready.takes("producer" if is_producer else "consumer", "no.such.property"):
        servers = bench.world.bootstrap_servers
        properties = {"bootstrap.servers": servers, "no.such.property": "1"}
        answer = bench.try_to("connect", timeout_s=20, role=role, properties=properties, failed_codes=[])
        if not isinstance(answer, ErrorEvent):
            bench.wrong(Rule.REFUSED, "a property that it does not know is taken without an error", answer)
        elif answer.property != "no.such.property":
            bench.wrong(Rule.REFUSED, f"the error names property {answer.property!r}, not 'no.such.property'", answer)
    bench.connect(role, properties={} if is_producer else {"group.id": bench.world.name("manners")})


def outcomes(bench: Bench) -> None:
    """500 records with and without keys, small, empty and of 5 kB: where the log has them, once each, in order."""
    topic = bench.world.topic("outcomes")
    bench.connect("producer", wished=ALL)
    records = [
        Sent(key=b"key-%d" % (seq % 7) if seq % 2 else None, value=b"outcome-%d-" % seq + b"x" * _size(seq))
        for seq in range(499)
    ]
    bench.send(topic, [*records, Sent(key=b"gone", value=None)])
    bench.do("flush", timeout_s=_FLUSH_S)
    bench.close()
    _judge(bench, topic, in_order=True)
    if not any(each.event.event == "acknowledged" for each in bench.heard):
        bench.wrong(Rule.REFUSED, "no record was acknowledged, and nothing was wrong with the broker")


def partitions(bench: Bench) -> None:
    """A record that names its partition goes there."""
    topic = bench.world.topic("partitions")
    bench.connect("producer", wished=ALL)
    bench.send(topic, [Sent(key=b"k", value=b"to-%d" % seq, partition=seq % PARTITIONS) for seq in range(60)])
    bench.do("flush", timeout_s=_FLUSH_S)
    bench.close()
    _judge(bench, topic, in_order=True)


def callers(bench: Bench) -> None:
    """800 records that four callers give at once, and 200 that one gives after them: one outcome each. Those of one
    caller are in the order in which it gave them, and the last 200 behind all others."""
    topic = bench.world.topic("callers")
    bench.connect("producer", wished=ALL)
    counts = (_AT_ONCE, _AFTERWARDS)
    first, last = ([Sent(key=b"%d" % (seq % 5), value=b"%d-%d" % (n, seq)) for seq in range(n)] for n in counts)
    bench.send(topic, first, callers=_CALLERS)
    bench.send(topic, last)
    bench.do("flush", timeout_s=_FLUSH_S)
    bench.close()
    _judge(bench, topic)
    log = bench.world.log(topic)
    for caller in range(_CALLERS):
        own = {seq: one for seq, one in bench.sent.items() if seq >= _AT_ONCE or seq % _CALLERS == caller}
        bench.note(*judge_order(own, log))


def headers(bench: Bench) -> None:
    """Headers arrive, those of one name in their order, also bytes that are no text."""
    topic = bench.world.topic("headers")
    bench.connect("producer", wished=ALL)
    own = (("copy", b"1/2/3"), ("bytes", b"\x00\xff"), ("copy", b"again"))
    bench.send(topic, [Sent(key=None, value=b"with-headers", headers=own), Sent(key=None, value=b"without")])
    bench.do("flush", timeout_s=_FLUSH_S)
    bench.close()
    _judge(bench, topic)


def refusals(bench: Bench) -> None:
    """The broker refuses a record as too large. It is failed if nobody tries again, else failed or unknown; the others
    are acknowledged."""
    topic = bench.world.topic("refusals", config={"max.message.bytes": "5000"})
    times = {"delivery.timeout.ms": "5000", "request.timeout.ms": "3000"}
    bench.connect("producer", wished={**ALL, "retries": "0", **times})
    for name in (b"before", b"large-" + b"x" * _TOO_LARGE_BYTES, b"after"):
        bench.send(topic, [Sent(key=None, value=name)])
        bench.try_to("flush", timeout_s=_FLUSH_S)
    bench.close()
    for each in bench.heard:
        event = each.event
        if isinstance(event, NotAcknowledged) and event.event == "unknown" and event.code in bench.failed_codes:
            message = f"code {event.code} is one of failed_codes, and the record is unknown"
            bench.note(each.mistake(Rule.REFUSED, message))
    _judge(bench, topic)


def freeze(bench: Bench) -> None:
    """The broker freezes while records are under way, and appends them later. So none of them may be failed, however
    long the client has waited, and whatever it does when it is closed."""
    topic = bench.world.topic("freeze")
    bench.connect("producer", wished={**ALL, **_IMPATIENT})
    _freeze(bench, topic, bench.send)


def frames_late(bench: Bench) -> None:
    """The same with records in frames."""
    topic = bench.world.topic("frames-late")
    bench.connect("producer", wished={**ALL, **_IMPATIENT}, topics=[topic])
    _freeze(bench, topic, bench.send_framed)


def _freeze(bench: Bench, topic: str, send: Callable[[str, Sequence[Sent]], object]) -> None:
    send(topic, [Sent(key=None, value=b"warm-%d" % seq) for seq in range(5)])
    bench.do("flush", timeout_s=_FLUSH_S)
    with bench.world.frozen():
        send(topic, [Sent(key=None, value=b"frozen-%d" % seq) for seq in range(20)])
        bench.wait(lambda: bench.are_all_told, _FROZEN_S)
    bench.try_to("flush", timeout_s=_FLUSH_S)
    with bench.world.frozen():
        send(topic, [Sent(key=None, value=b"closed-%d" % seq) for seq in range(20)])
        bench.wait(lambda: bench.are_all_told, 0.5)  # so that they are under way
        bench.try_to("close", timeout_s=2)
    _judge(bench, topic)


def frames(bench: Bench) -> None:
    """Records in frames, with lines between them: where the log has them, once each, in order. Then a close right
    after 20,000, each of which has its outcome before the close is answered."""
    topic = bench.world.topic("frames")
    bench.connect("producer", wished=ALL, topics=["of-no-record", topic])
    records = [
        Sent(key=b"key-%d" % (seq % 7) if seq % 2 else None, value=b"framed-%d-" % seq + b"x" * _size(seq))
        for seq in range(498)
    ]
    bench.send_framed(topic, [*records[:300], Sent(key=b"gone", value=None), Sent(key=b"", value=b"framed-without")])
    bench.send(topic, records[300:310])
    bench.send_framed(topic, records[310:])
    if bench.can(Ability.PARTITION):
        bench.send_framed(topic, [Sent(key=b"k", value=b"to-%d" % n, partition=n % PARTITIONS) for n in range(60)])
    bench.do("flush", timeout_s=_FLUSH_S)
    bench.send_framed(topic, [Sent(key=None, value=b"hasty-%d" % seq + b"x" * 80) for seq in range(20_000)])
    bench.close(CLOSE_S)
    _judge(bench, topic, in_order=True)


def hasty_close(bench: Bench) -> None:
    """A close right after 2,000 records: each has its outcome before the close is answered."""
    topic = bench.world.topic("hasty")
    bench.connect("producer", wished={**ALL, "linger.ms": "50"})
    bench.send(topic, [Sent(key=None, value=b"hasty-%d" % seq + b"x" * 200) for seq in range(2_000)])
    bench.close(CLOSE_S)
    _judge(bench, topic)


def transactions(bench: Bench) -> None:
    """Three transactions: committed, aborted, committed. The log's markers say the same."""
    topic = bench.world.topic("transactions")
    name = bench.world.name("transactional")
    bench.connect("producer", properties={"transactional.id": name}, wished=ALL)
    for number, end in enumerate(("commit", "abort", "commit")):
        bench.do("begin")
        bench.send(topic, [Sent(key=b"%d" % seq, value=b"%d-%s-%d" % (number, end.encode(), seq)) for seq in range(10)])
        bench.do("flush", timeout_s=_FLUSH_S)
        bench.do(f"{end}-transaction", timeout_s=_FLUSH_S)
    bench.close()
    _judge(bench, topic)
    log = bench.world.log(topic)
    for record in log.records:
        wanted = "aborted" if b"abort" in (record.value or b"") else "committed"
        if record.status != wanted:
            where = f"{topic}-{record.partition}, offset {record.offset}"
            bench.wrong(Rule.LIE, f"the record at {where} is {record.status}, and the client said {wanted}")
            return


def _size(seq: int) -> int:
    return 5_000 if seq % 50 == 0 else seq % 90


def _judge(bench: Bench, topic: str, *, in_order: bool = False) -> None:
    log = bench.world.log(topic, may_grow=any(isinstance(each.event, NotAcknowledged) for each in bench.heard))
    codes = bench.failed_codes
    bench.note(*judge_outcomes(bench.heard, bench.sent, log, failed_codes=codes, in_order=in_order))
