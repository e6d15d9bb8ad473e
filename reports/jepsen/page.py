"""`python -m reports.jepsen.page`: docs/reference/histories.md, from the rules that --from-edn applies.

A test requires that the file in docs/ is what this prints: tests/reports/test_reports_jepsen_lawful.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from reports.jepsen.anomalies import RULES
from reports.jepsen.lawful import ALWAYS, RULINGS
from reports.jepsen.terms import SETTINGS
from reports.judge.lawful import Ruling

_HEAD = """\
# Histories for Jepsen, and from it

A history lists what each client asked for and what came of it, in the shape of [Jepsen's Kafka
workload](https://github.com/jepsen-io/jepsen/blob/main/jepsen/src/jepsen/tests/kafka.clj) (`jepsen.tests.kafka`). So
others can check our runs with their checker, and we can check theirs. Neither command needs a cluster, Java or Spark:

```sh
harness report runs/RUN --to-edn history.edn --cell chaos-leader-loss-acks-1
harness report --from-edn history.edn
harness report --from-edn store/latest/history.edn --set isolation.level=read_uncommitted --json anomalies.json
```

- `--to-edn` writes one cell of a run: one operation a line, invocations and completions, in order of time. `--cell`
  may be left out if the run has one cell.
- `--from-edn` tells all anomalies, each lawful or not and why. The exit code is 0 if all are lawful, 1 if one is not,
  and 2 if the file is no history. An error names line and column.
- `--json` writes the same for programs: `verdict`, `by_action`, `settings`, `notes`, and for each of `anomalies` its
  `anomaly`, `lawful`, `reason`, `source`, `count` and at most 32 `cases` with `words`, `identity` and `operations` as
  EDN.

This page is written by `python -m reports.jepsen.page > docs/reference/histories.md`.

## What a line says

```clojure
{:index 7, :time 15000000, :type :invoke, :process 0, :f :send, :value [[:send 0 "0-0-3"]]}
{:index 9, :time 16000000, :type :ok, :process 0, :f :send, :value [[:send 0 [17 "0-0-3"]]]}
{:index 12, :time 21000000, :type :ok, :process 4, :f :poll, :value [[:poll {0 [[17 "0-0-3"]]}]]}
```

A *key* is a partition, and a value stands in its log at an *offset*. `:ok` is done, `:fail` certainly not done, and
`:info` is unknown. `:send` and `:poll` only send or poll, `:txn` is a transaction of both. `:assign`, `:subscribe`
and `:crash` change what a process reads. Operations of a process that is no number (`:nemesis`) are left out of the
check. The file may be a sequence of maps or one vector of them, with or without `#jepsen.history.Op`. It has at most
1 GB, and takes about five times as much memory.

What a run of ours becomes:

- **Values.** A value is the identity of a record: producer, incarnation and sequence. A copy by a transactional
  copier has the transaction behind an @: copier, incarnation and number. Keys are the numbers of partitions. The
  copiers' topic follows after those of the load. The first line, of the process `:nemesis`, has the names and the
  settings; faults are lines of it too.
- **Sends.** A producer has many records in flight, and a process of Jepsen does one thing at a time. So a producer is
  as many processes as it had sends in flight. A send whose fate is unknown takes its process with it.
- **Polls.** Nobody records when a poll was asked for, so it begins where the one before ended. That claims least.
- **Transactions.** What a copier read is known from what it copied. A copy that is nowhere in the copiers' topic is
  not in the history; the report tells it as `copy_missing`.
- **The final read** is a process of its own that reads every log from its start. `:read-to-end` (ours) tells which
  keys it read to their end. Jepsen's checker passes over it, and calls a value that is lost at the end of a log
  `unseen`.
- What retention, DeleteRecords or compaction may have taken stands in the first line (`:removed`). Here it is never
  lost. The report judges it record by record.

The [verdict of a run](lawful.md) sees more than a history can say: journals, wire, groups, checksums. `misrouted`
records are lost from their key here. `duplicate` counts what anybody saw at two offsets, also if a truncation took
one of them; `duplicated` counts the final log.

## Settings

A history of ours tells its own settings. For others `--set NAME=VALUE` tells them. What nobody tells has the default,
which demands most. `--set` comes after the history.

| setting | default | what it is |
|---|---|---|
"""

_LAWFUL = """
## Why Kafka may do what databases may not

Jepsen's names come from databases: G0, G1a, G1b and G1c are Adya's. Kafka promises less. What follows from that is
*lawful* here:

- **Writes are not isolated.** Records of open transactions stand between one another in a partition. So two
  transactions may each have written before the other (G0), and a cycle of writes and reads (G1c) that needs an edge
  ww says nothing. Jepsen's checker allows both (`allowed-error-types`).
- **A poll is no snapshot.** It ends in the middle of a transaction, if that is where the limit is (G1b). The next
  poll goes on there.
- **read_uncommitted** gets everything that was appended, whatever becomes of it.
- **Before transaction.version 2** a producer keeps its epoch from one transaction to the next. A request that comes
  late then takes effect in the next transaction, which can abort what was to be committed and commit what was to be
  aborted. KIP-890 ends this in two parts: since transaction.version 1 and Apache Kafka 3.6 leaders ask whether a
  partition is in the transaction, and with version 2 each transaction has an epoch of its own. Only the second part
  closes the gap ([transactions](../internals/transactions.md)).

The report of a run does not excuse an older version: to it `aborted_read` and `torn_txn` are always unlawful.

## How it is checked

A thousand histories with planted anomalies are found to the case, and four thousand of random disorder are judged as
by plain loops that share nothing with the check (`tests/reports/test_reports_jepsen_planted.py`). Time grows with the
operations: components of the graph come from Tarjan's algorithm. Only the search for the least cycle has a bound of
its own; where it is reached, the words say so. Jepsen's own checker was not run on our histories, nor was a history
of theirs at hand beyond the examples of its sources.

## The anomalies

Each has its rule, and in which order conditions decide whether it is lawful. The first that is true counts. *As
`lost`* and its like mean the rules of that anomaly in [lawful.md](lawful.md), with the settings above.
"""


def render() -> str:
    return (_HEAD + "\n".join([*_settings(), _LAWFUL, *_anomalies()])).rstrip("\n") + "\n"


def _settings() -> Iterator[str]:
    for setting in SETTINGS:
        yield f"| `{setting.name}` | `{setting.default}` | {setting.about} |"


def _anomalies() -> Iterator[str]:
    for name, rule in RULES.items():
        yield f"### {name}\n\n{rule.title}. {rule.rule}\n"
        clauses = RULINGS[name]
        for clause in clauses:
            when = f"if {clause.condition.text}" if clause.condition is not ALWAYS else "otherwise"
            ruling = clause.ruling
            if isinstance(ruling, Ruling):
                told = f"**{ruling.lawful}**" + (f", {when}" if len(clauses) > 1 else "")
                yield f"- {told}: {ruling.reason}. Source: {ruling.source}."
            else:
                told = f", {when}" if len(clauses) > 1 else ""
                yield f"- as [`{ruling}`](lawful.md#{ruling}){told}."
        yield ""


if __name__ == "__main__":
    sys.stdout.write(render())
