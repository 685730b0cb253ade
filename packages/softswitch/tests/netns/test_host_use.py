"""Interfaces that the machine itself uses: only the sockets, which share them, are the datapath."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from softswitch import datapath as datapaths
from softswitch import ir, processes
from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.errors import KernelError, PortError
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.ports.host_use import find_host_use
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS
from switch_harness.constructs import compiled
from switch_harness.net import Net, ip
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions, says_in_one_line

ASK = """
import sys
import grpc
from finsy.proto import p4r, p4r_grpc

address, timeout_s = sys.argv[1], float(sys.argv[2])
with grpc.insecure_channel(address) as channel:
    stub = p4r_grpc.P4RuntimeStub(channel)
    print(stub.Capabilities(p4r.CapabilitiesRequest(), timeout=timeout_s).p4runtime_api_version)
"""

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("kernel_datapath")]

# What makes the machine use s1, and how that is said; None if it does not.
USES: dict[str, tuple[tuple[str, ...], str | None]] = {
    "nothing": ((), None),
    "IPv4 address": (("addr add 10.5.0.1/24 dev s1",), "has the address 10.5.0.1"),
    "IPv4 address of a link": (("addr add 169.254.0.1/16 dev s1 scope link",), "has the address 169.254.0.1"),
    "IPv6 address": (("-6 addr add fd00::1/64 dev s1 nodad",), "has the address fd00::1"),
    "IPv6 address of the link": (("-6 addr add fe80::1/64 dev s1 nodad",), None),
    "default route": (("route add default dev s1",), "has the default route"),
    "IPv6 default route": (("-6 route add default dev s1",), "has the default route"),
    "one of several default routes": (
        ("route add default nexthop dev h2 nexthop dev s1",),
        "has the default route",
    ),
    "another route": (("route add 10.7.0.0/24 dev s1",), None),
    "other interface's default route": (("route add default dev h2",), None),
    "port of a bridge": (("link add br0 type bridge", "link set s1 master br0"), "is a part of br0"),
    "below a macvlan": (("link add link s1 name mac0 type macvlan",), "carries mac0"),
}


def allow_ipv6() -> None:
    for scope in ("all", "default", "s1"):
        Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("0")


def make_use(use: tuple[str, ...]) -> None:
    allow_ipv6()
    for words in use:
        ip(*words.split())


@pytest.mark.parametrize("name", USES)
def test_a_use_of_an_interface_by_the_machine_is_found(stack: ExitStack, name: str) -> None:
    net = Net(stack, range(1, 3))
    commands, use = USES[name]
    make_use(commands)
    assert find_host_use(net.names.values()) == (None if use is None else f"s1 {use}")
    assert find_host_use(["s2", "none"]) is None


@pytest.mark.parametrize("name", ["nothing", "IPv4 address"])
def test_an_interface_in_use_gets_the_sockets_datapath(stack: ExitStack, name: str) -> None:
    """Where the kernel is requested, it is refused; the hook does not matter."""
    net = Net(stack, range(1, 3))
    commands, use = USES[name]
    make_use(commands)
    reason = f"s1 {use}, and the kernel's datapath would take its frames from this machine"
    with SwitchPorts(Settings(ports=net.names)) as ports:
        assert ports.sockets_reason == (None if use is None else reason)
    for hook in (Hook.TCX, Hook.XDP_GENERIC):
        if use is None:
            SwitchPorts(Settings(ports=net.names, datapath=Datapath.KERNEL, hook=hook.value)).close()
        else:
            with pytest.raises(KernelError) as refused:
                SwitchPorts(Settings(ports=net.names, datapath=Datapath.KERNEL, hook=hook.value))
            assert says_in_one_line(str(refused.value), "datapath", reason)


def test_the_loopback_gets_the_sockets_datapath(stack: ExitStack) -> None:
    """By the command line that students pass to simple_switch_grpc; the switch's own gRPC goes on."""
    ip("link", "set", "lo", "up")
    options = [str(PROGRAMS / "wire.json")]
    with processes.softswitch({0: "lo"}, options=options) as switch:
        assert (
            "softswitch: datapath sockets: lo is the loopback, "
            "and the kernel's datapath would take its frames from this machine\n"
        ) in switch.log()
        # In a new process: threads of gRPC that an earlier test started connect from another namespace.
        arguments = [switch.address, str(PATIENCE_S)]
        asked = subprocess.run([sys.executable, "-c", ASK, *arguments], capture_output=True, text=True)
        assert asked.stdout.strip(), asked.stderr
    with pytest.raises(KernelError, match="lo is the loopback"):
        SwitchPorts(Settings(ports={0: "lo"}, datapath=Datapath.KERNEL))


def refuse_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel refuse the next program."""

    def refuse(*_: object, **__: object) -> None:
        monkeypatch.setattr(datapaths, "AttachedPipeline", AttachedPipeline)
        raise KernelError("not this program")

    monkeypatch.setattr(datapaths, "AttachedPipeline", refuse)


@pytest.mark.parametrize("how", ["added", "used later", "not added", "removed"])
def test_the_next_program_gets_the_sockets_if_a_port_has_come_into_use(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The sockets run a program that the kernel refuses; then ports change, or an address is added."""
    net, program = Net(stack, range(1, 3)), compiled("wire")
    with SwitchPorts(Settings(ports=net.names)) as ports:
        refuse_one(monkeypatch)
        first = ports.make(program)
        assert isinstance(first, CompiledPipeline)
        ports.start(first)
        assert ports.sockets_reason == "not this program"
        if how == "added":
            ports.add(3, "lo")
        elif how == "used later":
            ip("addr", "add", "10.5.0.1/24", "dev", "s2")
        elif how == "removed":
            ip("link", "add", "br0", "type", "bridge")  # whose frames may be unfinished
            ports.add(3, "br0")
            ports.remove(3)
        else:
            with pytest.raises(PortError, match=mentions("none", "interface")):
                ports.add(3, "none")
        next_program = make(stack, ports, program)
        ports.stop()
        assert isinstance(next_program, AttachedPipeline) == (how in ("not added", "removed"))
        expected = {"added": "lo is the loopback", "used later": "s2 has the address 10.5.0.1"}
        assert (ports.sockets_reason or "").startswith(expected.get(how, ""))


def make(stack: ExitStack, ports: SwitchPorts, program: ir.Program) -> object:
    pipeline = ports.make(program)
    if isinstance(pipeline, AttachedPipeline):
        stack.callback(pipeline.close)
    return pipeline
