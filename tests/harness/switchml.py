"""SwitchML's program in process: packets of its workers in, outputs by port."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controller.switchml import CONTROL
from foundation.designs import switchml
from foundation.designs.interface import Arm, Hosts
from foundation.designs.switchml import DESIGN
from foundation.protocol import addressing
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.frames import parse as parse_frame
from hosts.switchml.packet import SwitchMLPacket, parse
from simulator.row_writer import RowWriter
from simulator.simulated_switch import compiled_config
from softswitch.interpreter import InterpretedPipeline
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig, read_p4info
from softswitch.p4runtime.messages import p4r
from softswitch.state.pipeline import StatePipeline


def arm_with(check: bool = False, patience_us: int = 0) -> Arm:
    return Arm("tested", 9, switchml.NAME, switchml.SwitchML(check, patience_us), "#000000", about="")


def _config_of(description: Mapping[str, Any]) -> LoadedConfig:
    device_config = json.dumps(description).encode()
    p4info = read_p4info(DESIGN.p4info)
    return LoadedConfig(p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config))


def _control(
    description: Mapping[str, Any] | None, pipeline: StatePipeline | None
) -> ControlledPipeline[Any]:
    compiled = compiled_config(DESIGN)
    if pipeline is not None:
        return ControlledPipeline(compiled.config, lambda _: pipeline, clock=lambda: 0)
    if description is not None:
        return ControlledPipeline(_config_of(description), InterpretedPipeline, clock=lambda: 0)
    return ControlledPipeline(compiled.config, compiled.pipeline, clock=lambda: 0)


def described() -> dict[str, Any]:
    return dict(json.loads(DESIGN.program.read_text()))


class SwitchUnderTest:
    """The program with one job: compiled, interpreted from `description`, or in an empty `pipeline`."""

    def __init__(
        self, workers: int, arm: Arm | None = None, description: Mapping[str, Any] | None = None,
        pipeline: StatePipeline | None = None,
    ) -> None:  # fmt: skip
        self.workers, self.arm = workers, arm or arm_with()
        control = _control(description, pipeline)
        RowWriter(control).insert(CONTROL.rows(Hosts(workers, 1), [self.arm], 0))
        self.pipeline = control.pipeline

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
        return list(self.pipeline.read_register(f"HotlineIngress.{name}", 0, count))
