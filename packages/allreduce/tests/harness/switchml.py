"""SwitchML's program in process: packets of its workers in, outputs by port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foundation.designs.interface import Arm, SwitchHosts
from foundation.protocol import addressing
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.frames import parse as parse_frame
from hotline_allreduce.switchml import design as switchml
from hotline_allreduce.switchml.control import CONTROL
from hotline_allreduce.switchml.design import DESIGN
from hotline_allreduce.switchml.packet import SwitchMLPacket, parse
from softswitch.state.pipeline import StatePipeline
from tests.harness.programs import pipeline_of


def arm_with(check: bool = False, slot_timeout_us: int = 0) -> Arm:
    return Arm("tested", 9, switchml.NAME, switchml.SwitchML(check, slot_timeout_us), "#000000", about="")


class SwitchUnderTest:
    """The program with one job: compiled, interpreted from `description`, or in an empty `pipeline`."""

    def __init__(
        self, workers: int, arm: Arm | None = None, description: Mapping[str, Any] | None = None,
        pipeline: StatePipeline | None = None,
    ) -> None:  # fmt: skip
        self.workers, self.arm = workers, arm or arm_with()
        rows = CONTROL.rows(SwitchHosts(workers, 1), [self.arm], 0)
        self.pipeline = pipeline_of(DESIGN, rows, description, pipeline)

    def frame(self, worker: int, datagram: bytes) -> bytes:
        return build(UdpFrame(self.endpoint(worker), self.switch, datagram))

    def endpoint(self, worker: int) -> UdpEndpoint:
        host = addressing.worker(worker + 1)
        return UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(self.arm.job))

    @property
    def switch(self) -> UdpEndpoint:
        service = addressing.service(1)
        return UdpEndpoint(service.mac, service.address, DESIGN.udp_port)

    def send(self, worker: int, frame: bytes, now_us: int = 0) -> list[tuple[int, bytes]]:
        """Process a frame; return workers and frames, ordered by worker."""
        outputs = self.pipeline.process(worker + 1, frame, now_us, now_us)
        return sorted((int(output.port) - 1, bytes(output.frame)) for output in outputs)

    def take(self, worker: int, packet: SwitchMLPacket, now_us: int = 0) -> list[tuple[int, SwitchMLPacket]]:
        """Process a packet; check that frames are whole and well addressed, and return them parsed."""
        answers = []
        for port, frame in self.send(worker, self.frame(worker, packet.build()), now_us):
            found = parse_frame(frame)
            assert (found.source, found.destination) == (self.switch, self.endpoint(port))
            assert frame == build(found)
            answers.append((port, parse(found.payload)))
        return answers

    def cells(self, name: str, count: int) -> list[int]:
        return list(self.pipeline.cells.read_register(f"HotlineIngress.{name}", 0, count))
