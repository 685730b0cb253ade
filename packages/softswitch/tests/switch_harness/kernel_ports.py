"""Ports of the kernel's datapath on the veths of a test, and what the kernel shows of them."""

from __future__ import annotations

import ctypes
import socket
import struct
from contextlib import ExitStack

from softswitch.ir import Program
from softswitch.kernel import bpf
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.ports import KernelPorts
from switch_harness.net import CPU, Net
from switch_harness.waiting import PATIENCE_S


def running(
    stack: ExitStack, net: Net, program: Program, hook: Hook = Hook.TCX
) -> tuple[KernelPorts, AttachedPipeline]:
    pipeline = AttachedPipeline(program, hook=hook)
    stack.callback(pipeline.close)
    ports = stack.enter_context(KernelPorts(net.names, CPU, hook=hook))
    ports.cpu_socket.settimeout(PATIENCE_S)
    ports.start(pipeline)
    return ports, pipeline


def send(net: Net, ports: KernelPorts, port: int, frame: bytes) -> None:
    (ports.cpu_socket if port == CPU else net.hosts[port]).send(frame)


def received(net: Net, ports: KernelPorts, port: int) -> bytes:
    data: bytes = (ports.cpu_socket if port == CPU else net.hosts[port]).recv(10_000)
    return data


def programs_at(interface: str) -> int:
    """Return the BPF programs at an interface's tcx ingress."""
    query = struct.pack("IIIIQI", socket.if_nametoindex(interface), 46, 0, 0, 0, 0)
    answer = ctypes.create_string_buffer(query, 160)
    bpf.call(16, answer, "ask for the programs of an interface")  # BPF_PROG_QUERY, of BPF_TCX_INGRESS
    count: int = struct.unpack_from("I", answer, 24)[0]
    return count


def cpu_interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex() if name.startswith("cpu")]
