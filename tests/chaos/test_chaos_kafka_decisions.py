"""Which toxics act on a connection: their toxicity is drawn once for each."""

from __future__ import annotations

import random

from chaos.toxiproxy.kafka.decisions import Decisions
from chaos.toxiproxy.kafka.produce import TopicNames
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.toxic import Toxic
from chaos.toxiproxy.toxics.kafka_corrupt_batch import SPEC


def toxic(toxicity: float) -> Toxic:
    return Toxic(name="t", spec=SPEC, stream="downstream", toxicity=toxicity, attributes={})


def test_a_toxic_in_the_place_of_a_removed_one_has_a_draw_of_its_own() -> None:
    """Python may give the id of an object that is gone to the next one."""
    decisions = Decisions(KafkaSettings(proxy="p", wire_log=WireLog(None), names=TopicNames()), random.Random(1))
    for toxicity in (0.0, 1.0) * 50:
        assert decisions._acts_here(toxic(toxicity)) is (toxicity == 1.0)
