"""ATP's program in process: packets of workers and servers in, outputs by port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.tables import TableRow
from foundation.designs.interface import Arm, SwitchHosts
from foundation.protocol import addressing
from foundation.protocol.frames import UdpEndpoint, UdpFrame, build
from foundation.protocol.frames import parse as parse_frame
from hotline_allreduce.atp import design as atp
from hotline_allreduce.atp.control import CONTROL
from hotline_allreduce.atp.design import DESIGN
from hotline_allreduce.atp.packet import ACK, AtpPacket, parse
from softswitch.state.pipeline import StatePipeline
from tests.harness.programs import pipeline_of

SERVER = -1
"""The server, where workers are numbered from 0 on."""


def arm_with(check: bool = False, ecn_depth: int = atp.ECN_DEPTH, job: int = 13) -> Arm:
    return Arm(f"tested-{job}", job, atp.NAME, atp.Atp(check, ecn_depth), "#000000", about="")


class SwitchUnderTest:
    """The program with a job for each arm, workers that all jobs share, and a server."""

    def __init__(
        self, workers: int, arms: Sequence[Arm] = (arm_with(),),
        description: Mapping[str, Any] | None = None, pipeline: StatePipeline | None = None,
        levels: Sequence[TableRow] = (),
    ) -> None:  # fmt: skip
        self.workers, self.hosts = workers, SwitchHosts(workers, 1)
        rows = [*CONTROL.rows(self.hosts, arms, 0), *levels]
        self.pipeline = pipeline_of(DESIGN, rows, description, pipeline)

    def port(self, host: int) -> int:
        return self.hosts.server_port(1) if host == SERVER else self.hosts.worker_port(host + 1)

    def endpoint(self, host: int, job: int) -> UdpEndpoint:
        if host == SERVER:
            server = addressing.server(1)
            return UdpEndpoint(server.mac, server.address, DESIGN.udp_port)
        worker = addressing.worker(host + 1)
        return UdpEndpoint(worker.mac, worker.address, addressing.worker_udp_port(job))

    def send(self, host: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Process a frame of a host; return receivers and frames, ordered by receiver."""
        outputs = self.pipeline.process(self.port(host), frame, 0, 0)
        hosts = {self.port(each): each for each in (SERVER, *range(self.workers))}
        return sorted((hosts[int(output.port)], bytes(output.frame)) for output in outputs)

    def frame(self, host: int, packet: AtpPacket, is_marked: bool = False) -> bytes:
        """Return the frame of a host's packet; one with an acknowledgement answers the first worker."""
        to = 0 if packet.has(ACK) else SERVER
        source, destination = self.endpoint(host, packet.app), self.endpoint(to, packet.app)
        return mark(build(UdpFrame(source, destination, packet.build())), is_marked)

    def take(self, host: int, packet: AtpPacket, is_marked: bool = False) -> list[tuple[int, AtpPacket]]:
        """Process a packet; check that frames are whole and well addressed, and return them parsed."""
        answers = []
        source = self.endpoint(host, packet.app)
        for receiver, frame in self.send(host, self.frame(host, packet, is_marked)):
            found = parse_frame(frame)
            assert (found.source, found.destination) == (source, self.endpoint(receiver, packet.app))
            assert frame == mark(build(found), is_marked)
            answers.append((receiver, parse(found.payload)))
        return answers

    def cells(self, name: str, count: int) -> list[int]:
        return list(self.pipeline.cells.read_register(f"HotlineIngress.{name}", 0, count))


def mark(frame: bytes, is_marked: bool) -> bytes:
    """Return a frame whose IPv4 header has congestion experienced, and a checksum that fits."""
    if not is_marked:
        return frame
    total = (~int.from_bytes(frame[24:26], "big") & 0xFFFF) + 3
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return frame[:15] + b"\x03" + frame[16:24] + checksum.to_bytes(2, "big") + frame[26:]
