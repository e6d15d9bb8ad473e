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
    "users": "workload.producers",
    "vus": "workload.producers",
    "numconsumers": "workload.consumers",
    "subscriptionspertopic": "workload.readers (an entry for each subscription, with mode: group)",
    "consumerpersubscription": "workload.readers[].consumers",
    "numtopics": "workload.topics",
    "partitionspertopic": "topic.partitions",
    "numpartitions": "topic.partitions",
    "replicationfactor": "topic.replication_factor",
    "replicas": "topic.replication_factor",
    "topicconfig": "topic.config",
    "producerconfig": "properties",
    "producerprops": "properties",
    "producerproperties": "properties",
    "consumerconfig": "workload.readers[].properties",
    "commonconfig": "properties",
    "keydistributor": "workload.keys (none, uniform, zipf or hot)",
    "thresholds": "limits",
    "stages": "workload.schedule with kind: steps",
}


def ours_for(key: str) -> str:
    """Our key for a foreign one, with its unit; empty if it is of no tool that we know."""
    return _OURS.get(re.sub(r"[._-]", "", key).lower(), "")
