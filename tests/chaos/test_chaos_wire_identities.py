"""The wire log names the records of a batch by their identities, whatever codec the client used."""

from __future__ import annotations

import pytest

from broker.wire.compression import CodecId
from broker.wire.records import encode_batch
from chaos.toxiproxy.kafka.produce import Batch
from chaos.toxiproxy.kafka.wire_log import identity_runs
from runlog.streams import payload


def batch_of(values: list[bytes], codec: CodecId = CodecId.NONE) -> tuple[Batch, bytes]:
    encoded = bytes(encode_batch(values, timestamps_ms=5, codec=codec))
    frame = b"before" + encoded + b"after"
    end = 6 + len(encoded)
    return Batch(topic="t", topic_id=b"", partition=0, crc=0, records=len(values), start=6, end=end), frame


def value(seq: int, producer: int = 1) -> bytes:
    return payload.make(producer=producer, incarnation=2, seq=seq, intended_ns=5, body=b"x" * 40)


@pytest.mark.parametrize("codec", list(CodecId))
def test_consecutive_records_are_one_run(codec: CodecId) -> None:
    values = [value(seq) for seq in (7, 8, 9, 20, 21)] + [value(22, producer=3)]
    assert identity_runs(*batch_of(values, codec)) == ((1, 2, 7, 9), (1, 2, 20, 21), (3, 2, 22, 22))


def test_records_of_somebody_else_and_damaged_ones_have_no_identity() -> None:
    assert identity_runs(*batch_of([value(1), b"somebody else's record, longer than any header"])) is None
    assert identity_runs(*batch_of([b""])) is None
    whole, frame = batch_of([value(1), value(2)])
    for cut in (1, 30, 62, whole.end - whole.start - 1):
        torn = Batch(topic="t", topic_id=b"", partition=0, crc=0, records=2, start=6, end=whole.end - cut)
        assert identity_runs(torn, frame) is None
