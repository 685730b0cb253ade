"""SwitchML's program in process: packets of its workers in, outputs by port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from numpy.typing import NDArray

from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.protocol import addressing
from foundation.protocol.codec import Caller
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.frames import parse as parse_frame
from hosts.keys import KeySpace
from hotline_agents.interface import Agents
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps
from hotline_allreduce.switchml import design as switchml
from hotline_allreduce.switchml.agents import AGENTS, WindowClient
from hotline_allreduce.switchml.control import CONTROL
from hotline_allreduce.switchml.design import DESIGN
from hotline_allreduce.switchml.model.rules import SwitchMLSwitchModel
from hotline_allreduce.switchml.packet import SwitchMLPacket, parse
from packages.allreduce.tests.harness.loop import VectorLoop
from softswitch.state.pipeline import StatePipeline
from tests.harness.programs import pipeline_of

JOB = 0


def arm_with(check: bool = False, slot_timeout_us: int = 0) -> Arm:
    return Arm("tested", 9, switchml.NAME, switchml.SwitchML(check, slot_timeout_us), "#000000", about="")


Frame = tuple[int, SwitchMLPacket, bool]
"""A worker, a packet, and whether it goes to the worker, and not to the switch."""


class SwitchMLTestbed(VectorLoop[Frame]):
    """Workers at a switch with the published rules, and a network that loses frames but keeps their order."""

    size: ClassVar[int] = 300  # maximum number of values
    agents: ClassVar[Agents[Any, Any, Any, Any]] = AGENTS
    check: ClassVar[bool] = False
    disorder: ClassVar[float] = 0.0
    """Probability that a frame comes twice, and that it overtakes others."""

    def __init__(
        self, workers: int, seed: int = 1, window: int = 4, ops: AnyWorkerOps = COMPILED, loss: float = 0.0
    ) -> None:
        super().__init__(Random(seed), loss=loss, doubling=self.disorder, reordering=self.disorder)
        self.switch = SwitchMLSwitchModel(workers, 64, check=self.check)
        self.clients: list[WindowClient] = [
            self.agents.client(caller, 1, KeySpace(self.size), lambda: self.now, window, ops=ops)
            for caller in [Caller(JOB, w + 1, 1) for w in range(workers)]
        ]
        self.sent: list[tuple[int, SwitchMLPacket]] = []

    def cores(self) -> Sequence[WindowClient]:
        return self.clients

    def emit(self, sender: int, datagram: bytes, peer: int) -> None:
        assert peer == 0
        self.sent.append((sender, parse(datagram)))
        self.put((*self.sent[-1], False))

    def arrive(self, message: Frame) -> None:
        w, packet, is_answer = message
        if is_answer:
            self.clients[w].receive(packet.build(), self.now, self.now)
        elif (answer := self.switch.take(w, packet)) is not None:
            for v in range(len(self.clients)) if answer.is_multicast else [w]:
                self.put((v, answer.packet, True))

    def all_reduce(self, vectors: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        self.add_up(
            (client, vector, len(vectors)) for client, vector in zip(self.clients, vectors, strict=True)
        )
        return [client.result.copy() for client in self.clients]


class SwitchUnderTest:
    """The program with one job: compiled, interpreted from `description`, or in an empty `pipeline`."""

    def __init__(
        self, workers: int, arm: Arm | None = None, description: Mapping[str, Any] | None = None,
        pipeline: StatePipeline | None = None, design: Design = DESIGN,
    ) -> None:  # fmt: skip
        self.workers, self.arm, self.design = workers, arm or arm_with(), design
        rows = CONTROL.rows(SwitchHosts(workers, 1), [self.arm], 0)
        self.pipeline = pipeline_of(design, rows, description, pipeline)

    def frame(self, worker: int, datagram: bytes) -> bytes:
        return build(UdpFrame(self.endpoint(worker), self.switch, datagram))

    def endpoint(self, worker: int) -> UdpEndpoint:
        host = addressing.worker(worker + 1)
        return UdpEndpoint(host.mac, host.address, addressing.worker_udp_port(self.arm.job))

    @property
    def switch(self) -> UdpEndpoint:
        service = addressing.service(1)
        return UdpEndpoint(service.mac, service.address, self.design.udp_port)

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
