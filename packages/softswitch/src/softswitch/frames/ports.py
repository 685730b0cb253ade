"""A datapath that receives and sends frames over a transport; it needs neither root nor interfaces."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.hashing import Crc
from softswitch.pipeline import ControlPlane
from softswitch.ports.report import PortCounters, SwitchCounters
from softswitch.ports.sockets import ControlSockets

MAX_FRAME_BYTES = 65536


class Transport(Protocol):
    """A connection to another process, which delivers frames (`FramePorts.receive`) and sends others."""

    name: str
    address: str

    def open(self, ports: FramePorts) -> None:
        """Receive frames from now on; raises SwitchError."""

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        """Send an output frame, with the tag of the input frame; return whether it was sent."""

    def close(self) -> None: ...


class FramePorts(AbstractContextManager["FramePorts"]):
    """The switch's ports (`softswitch.p4runtime.pipelines.Ports`) on a transport, open until `close`.

    Every port number can receive and send. A frame is processed, with all its copies, in the thread that
    delivers it, so queues before egress are always empty. `names` are interface names by port.
    """

    def __init__(
        self,
        transport: Transport,
        cpu_port: int | None = None,
        priority_queues: int = 1,
        names: Mapping[int, str] = {},
    ) -> None:
        self._transport, self._cpu_port, self._priority_queues = transport, cpu_port, priority_queues
        self._names = dict(names)
        self._start_ns = time.monotonic_ns()
        self._lock = threading.RLock()
        self._pipeline: CompiledPipeline | None = None
        self._received_frames, self._sent_frames = Counter[int](), Counter[int]()
        self._discarded_frames, self._unsent_frames, self._oversize_frames = (
            Counter[int](),
            Counter[int](),
            Counter[int](),
        )
        self._lost_notices = 0  # digests and log records that did not fit into the control plane's socket
        self._down_ports = set[int]()
        self.on_status: Callable[[int, bool], None] = lambda _port, _is_up: None
        """Called with the status of a port when it is set, in any thread."""
        self.started = threading.Event()
        self._control = ControlSockets()
        self.cpu_socket, self.notice_socket = self._control.cpu_socket, self._control.notice_socket
        self._closing = False
        self._cpu_thread = threading.Thread(target=self._serve_cpu_port, name="cpu-port", daemon=True)
        try:
            transport.open(self)
        except BaseException:
            self._control.close()
            raise
        self._cpu_thread.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- packets

    def receive(self, port: int, frame: bytes, tag: int = 0) -> None:
        """Process a frame and send the output frames with `tag`; without a program the frame is dropped."""
        with self._lock:
            self._received_frames[port] += 1
            if self._pipeline is None:
                self._discarded_frames[port] += 1
                return
            if len(frame) > MAX_FRAME_BYTES:
                self._oversize_frames[port] += 1
                return
            now = self.now()
            for output_port, output_frame in self._pipeline.process(port, frame, t_in=now, now=now):
                is_sent = (
                    self._send_to_controller(output_frame)
                    if output_port == self._cpu_port
                    else self._transport.send(output_port, output_frame, tag)
                )
                (self._sent_frames if is_sent else self._unsent_frames)[output_port] += 1
            for record in self._pipeline.take_notice_records():
                self._send_notice(record)

    def _send_to_controller(self, frame: bytes) -> bool:
        return _send_datagram(self._control.switch_end, frame)

    def _send_notice(self, record: bytes) -> None:
        if not _send_datagram(self._control.notice_end, record):
            self._lost_notices += 1

    def _serve_cpu_port(self) -> None:
        while True:
            # One byte more, so that a larger frame, which is cut off, is still too large.
            frame = self._control.switch_end.recv(MAX_FRAME_BYTES + 1)
            if self._closing:
                return
            if self._cpu_port is not None:
                self.receive(self._cpu_port, frame)

    # -- programs

    def make(self, program: ir.Program) -> CompiledPipeline:
        return CompiledPipeline(program, priority_queues=self._priority_queues)

    @staticmethod
    def folder_of(_pipeline: ControlPlane) -> Path | None:
        """Return None: control planes are not persisted."""
        return None

    def start(self, pipeline: ControlPlane) -> None:
        assert isinstance(pipeline, CompiledPipeline)
        with self._lock:
            self._pipeline = pipeline
        self.started.set()

    def stop(self) -> None:
        """Drop frames from now on; none is being processed when this returns."""
        with self._lock:
            self._pipeline = None

    def close(self) -> None:
        self.stop()
        if self._closing:
            return
        self._closing = True
        self._transport.close()
        self.started.set()  # a transport may wait for it
        self._control.end_cpu_reads()
        self._cpu_thread.join()
        self._control.close()

    def now(self) -> int:
        return (time.monotonic_ns() - self._start_ns) // 1000  # µs

    def set_link_state(self, port: int, is_up: bool) -> None:
        (self._down_ports.discard if is_up else self._down_ports.add)(port)
        self.on_status(port, is_up)

    # -- counters and control commands

    def counters(self) -> SwitchCounters:
        with self._lock:
            port_numbers = sorted(
                {*self._names, *self._received_frames, *self._sent_frames, *self._unsent_frames}
            )
            ports = {number: self._port_counters(number) for number in port_numbers}
            return SwitchCounters(
                ports, no_such_port=0, lost_notices=self._lost_notices, datapath=self._transport.name
            )

    def _port_counters(self, port: int) -> PortCounters:
        return PortCounters(
            name="CPU" if port == self._cpu_port else self._names.get(port, self._transport.name),
            rx=self._received_frames[port],
            tx=self._sent_frames[port],
            rx_dropped=self._discarded_frames[port],
            tx_dropped=self._unsent_frames[port],
            rx_oversize=self._oversize_frames[port],
            tx_oversize=0,
            lost=0,
            duplicated=0,
            reordered=0,
        )

    def describe_datapath(self) -> str:
        return f"datapath: frames over {self._transport.name}, {self._transport.address}"

    def names(self) -> dict[int, str]:
        return dict(self._names)

    def is_up(self, port: int) -> bool:
        return port not in self._down_ports

    def add(self, port: int, interface: str) -> None:
        raise self._unsupported("interfaces")

    def remove(self, port: int) -> None:
        raise self._unsupported("interfaces")

    def set_queues(self, port: int | None, priority: int | None, rate: int | None, depth: int | None) -> None:
        raise self._unsupported("rates and depths of queues")

    def set_crc(self, calculation: str, crc: Crc) -> None:
        with self._lock:
            assert self._pipeline is not None
            self._pipeline.use_code(*self._pipeline.code_with_crc(calculation, crc))

    def _unsupported(self, feature: str) -> SwitchError:
        return SwitchError(f"Error: a switch with frames over {self._transport.name} has no {feature}")


def _send_datagram(sender: socket.socket, data: bytes) -> bool:
    """Send a datagram; return whether it was sent, which fails if the receiver's buffer is full."""
    try:
        sender.send(data, socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True
