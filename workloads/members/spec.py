"""What one member process is told, as it is handed over: JSON for Python, Java properties for a JVM. No I/O."""

from __future__ import annotations

import json

from runlog.records.codec import from_line, to_json
from runlog.records.member import MemberSpec


def parse_spec(text: str) -> MemberSpec:
    """ValueError says what is wrong with it."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("is no JSON object")
    return from_line(MemberSpec, found)


def spec_text(spec: MemberSpec) -> str:
    return json.dumps(to_json(spec))


def to_properties(spec: MemberSpec) -> str:
    """java.util.Properties; the clients' own begin with `consumer.` and `producer.`."""
    values = {
        "member": spec.member,
        "consumer_number": str(spec.consumer),
        "incarnation": str(spec.incarnation),
        "topic": spec.topic,
        "journal": spec.journal,
        "commit": spec.commit,
        "processing_us": str(spec.processing_us),
        "copy_to": spec.copy_to,
        "rejects_every": str(spec.rejects_every),
        "releases_every": str(spec.releases_every),
        **{f"consumer.{name}": value for name, value in spec.properties.items()},
        "consumer.bootstrap.servers": spec.bootstrap_servers,
        "consumer.group.id": spec.group_id,
    }
    if spec.is_share:
        values["consumer.share.acknowledgement.mode"] = "implicit" if spec.commit == "auto" else "explicit"
    else:
        values["consumer.auto.offset.reset"] = spec.start
        values["consumer.enable.auto.commit"] = "true" if spec.commit == "auto" and not spec.is_copier else "false"
    if spec.is_copier:
        values |= {f"producer.{name}": value for name, value in spec.producer_properties.items()}
        values |= {
            "producer.bootstrap.servers": spec.bootstrap_servers,
            "producer.transactional.id": spec.transactional_id,
        }
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in values.items())


def _escaped(text: str) -> str:
    for character in ("\\", ":", "=", "#", "!", " "):
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", "\\n")
