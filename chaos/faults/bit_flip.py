"""bit_flip: SIGKILL, then one bit of the last batch of the partition's log is flipped. Healing starts the broker.

Proved by the byte before and after. The broker must find the damage by the batch's CRC when it reads its log again, and
must fetch the batch from the leader.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.processes import identities, prove_gone, start_again
from chaos.lease import ProcessIdentity


class BitFlip:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._from_end = int(parameters["bytes_from_end"])
        self._before: dict[int, ProcessIdentity] = {}
        self._flipped: dict[str, object] = {}

    def inject(self) -> None:
        port = self._context.port
        self._before = identities(port.brokers, self._context.brokers)
        for broker in self._context.brokers:
            port.processes.kill(broker)
        for broker in self._context.brokers:
            directory = port.files.partition_directory(broker, self._context.of.topic, self._context.of.partition)
            segments = sorted(directory.glob("*.log")) if directory else []
            filled = [path for path in segments if path.stat().st_size >= self._from_end]
            if not filled:
                raise ValueError(f"broker {broker} has no segment of {self._from_end} bytes of {self._context.of}")
            position = filled[-1].stat().st_size - self._from_end
            with filled[-1].open("r+b") as file:
                file.seek(position)
                byte = file.read(1)[0]
                file.seek(position)
                file.write(bytes([byte ^ 0x10]))
            self._flipped[f"broker {broker}"] = {
                "file": filled[-1].name, "position": position, "byte": byte, "now": byte ^ 0x10
            }  # fmt: skip

    def heal(self) -> None:
        for broker in self._context.brokers:
            start_again(self._context.port, broker)

    def prove(self) -> Proof:
        gone = prove_gone(self._context.port.brokers, self._before)
        is_effective = gone.is_effective and len(self._flipped) == len(self._context.brokers)
        return Proof(is_effective=is_effective, detail=gone.detail | {"flipped": self._flipped})


SPEC = FaultSpec(
    name="bit_flip",
    label="bit flipped on disk",
    colour="#512e5f",
    target_kind="broker",
    default_target="follower:0",
    make=BitFlip,
    parameters={"bytes_from_end": 40},
)
