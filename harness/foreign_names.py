"""Keys that people know from other tools, and our key for each.

They are only for error messages: these keys are not accepted, but the message names the right one.
docs/start/coming-from.md is the same list for readers. Shown by tests/harness/test_harness_setting_places.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_RATE: Final = "workload.rate_per_s (records a second, of all producers together)"
_LENGTH: Final = "workload.measure_ms (milliseconds, whole)"
_SIZE: Final = "workload.record_size_bytes"
_LOCUSTFILE: Final = "--set workload.locust.file=FILE of `harness run` and `chaos`: its users run beside the load"
# Without case, dots, dashes and underscores; OpenMessaging Benchmark, Kafka's perf tools, Trogdor, k6, Locust.
_OURS: Final[Mapping[str, str]] = {
    "rate": _RATE,
    "producerrate": _RATE,
    "throughput": _RATE,
    "targetthroughput": _RATE,
    "targetmessagespersec": _RATE,
    "messagespersec": _RATE,
    "rps": _RATE,
    "qps": _RATE,
    "duration": _LENGTH,
    "durationms": _LENGTH,
    "runtime": _LENGTH,
    "testdurationminutes": f"{_LENGTH}: minutes x 60,000",
    "numrecords": f"{_LENGTH}: a load lasts a time, records / rate_per_s x 1000",
    "messages": f"{_LENGTH}: a load lasts a time, records / rate_per_s x 1000",
    "maxmessages": f"{_LENGTH}: a load lasts a time, records / rate_per_s x 1000",
    "warmup": "workload.warmup_ms",
    "warmupdurationminutes": "workload.warmup_ms: minutes x 60,000",
    "messagesize": _SIZE,
    "recordsize": _SIZE,
    "size": _SIZE,
    "valuesize": _SIZE,
    "payloadsize": _SIZE,
    "payloadfile": "workload.corpus (a file with one record a line)",
    "numproducers": "workload.producers",
    "producerspertopic": "workload.producers (of all topics together)",
    "users": "workload.producers (users of a locustfile of yours: workload.locust.users)",
    "locustfile": "workload.locust.file",
    "vus": "workload.producers",
    "numconsumers": "workload.consumers",
    "subscriptionspertopic": "workload.readers (an entry for each subscription, with mode: group)",
    "consumerpersubscription": "workload.readers[].consumers",
    "numtopics": "workload.topics",
    "topics": "workload.topics",
    "partitionspertopic": "topic.partitions",
    "numpartitions": "topic.partitions",
    "replicationfactor": "topic.replication_factor",
    "replicas": "topic.replication_factor",
    "topicconfig": "topic.config",
    "producerconfig": "properties",
    "producerprops": "properties",
    "producerproperties": "properties",
    "consumerconfig": "workload.readers[].properties",
    "commonconfig": "--bootstrap-server and --client-config FILE (addresses and security)",
    "bootstrapservers": "--bootstrap-server of `harness run`, with --cluster external",
    "consumerbacklogsizegb": "workload.readers[].start_after_ms: a reader that starts late has a backlog",
    "keydistributor": "workload.keys (none, uniform, zipf or hot)",
    "thresholds": "limits",
    "stages": "workload.schedule with kind: steps",
    "toxicity": "with: {every: N} of a fault that understands Kafka's frames: each n-th exchange",
    "toxics": "timeline (steps with a fault)",
    "stream": "with: {stream: ...} of a fault",
    "spring": "properties, in Kafka's names: spring.kafka.producer.batch-size is batch.size",
}
_OF_SPRING: Final = re.compile(r"spring\.kafka\.(?:(?:producer|consumer|admin)\.)?(?:properties\.)?(.+)")

# Options of kafka-*-perf-test, the console tools and Locust, as `harness bench`, `run` and `chaos` have them.
_OPTIONS: Final[Mapping[str, str]] = {
    "--throughput": "--rate of `harness bench`; --rate max instead of -1",
    "--record-size": "--size of `harness bench`",
    "--num-records": "--seconds of `harness bench`: a load lasts a time",
    "--messages": "--seconds of `harness bench`: a load lasts a time",
    "--payload-file": "workload.corpus of a suite",
    "--producer-props": "NAME=VALUE of `harness bench`, or properties of a suite",
    "--producer-property": "NAME=VALUE of `harness bench`, or properties of a suite",
    "--producer.config": "--client-config FILE",
    "--consumer.config": "--client-config FILE",
    "--command-config": "--client-config FILE",
    "--broker-list": "--bootstrap-server HOST:PORT, with --cluster external",
    "--topic": "no option: a run makes topics of its own (topic: of a suite says how)",
    "--users": "workload.producers of a suite",
    "--spawn-rate": "no option: all users start before the measured window",
    "--run-time": "workload.measure_ms of a suite, or --seconds of `harness bench`",
    "--locustfile": _LOCUSTFILE,
    "-f": _LOCUSTFILE,
    "--headless": "no option: the page of Locust is shown only with --web",
}
# Without case, dots, dashes and underscores.
_CLIENTS: Final[Mapping[str, str]] = {
    "rdkafka": "confluent",
    "confluentkafka": "confluent",
    "confluentkafkapython": "confluent",
    "kafkapython": "kafka_python",
    "kafkapythonng": "kafka_python",
    "python": "confluent, aiokafka or kafka_python",
    "kafkaclients": "java",
    "javaclient": "java",
}


def ours_for_client(name: str) -> str:
    """`; here it is confluent`, for a library that one of our clients uses. Empty if we know none of that name."""
    ours = _CLIENTS.get(_bare(name), "")
    return f"; here it is {ours}" if ours else ""


def ours_for_option(option: str) -> str:
    """Our way to say an option of another tool; empty if it is of no tool that we know."""
    return _OPTIONS.get(option, "")


def kafkas_for_setting(name: str) -> str:
    """Kafka's name for a setting in Spring's notation; empty if it is none."""
    found = _OF_SPRING.fullmatch(name)
    return "" if found is None else found[1].replace("-", ".")


def ours_for(key: str) -> str:
    """Our key for a foreign one, with its unit; empty if it is of no tool that we know."""
    return _OURS.get(_bare(key), "")


def _bare(word: str) -> str:
    return re.sub(r"[._-]", "", word).lower()
