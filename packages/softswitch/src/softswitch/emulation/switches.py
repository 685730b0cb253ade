"""The processes of a network's switches, and what its files have for them."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby

from softswitch.commands.shell import FileError, Shell
from softswitch.conformance.client import P4RuntimeClient
from softswitch.emulation.ending_signals import ignore_ending_signals
from softswitch.emulation.plan import CommandFile, NetworkPlan, PlannedSwitch
from softswitch.emulation.shaping import port_options
from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.service import check_address
from softswitch.processes import SOFTSWITCH, SwitchProcess, start_switch
from softswitch.runtime.client import connect

FIRST_GRPC_PORT = 50051
"""P4Runtime port of the first switch, whose device ID is 0, as in p4lang/tutorials; the next has the next."""
_HOST = "127.0.0.1"
_END_S = 0.7
"""Time in s that all switches together have to end before they are killed."""


def switch_command(switch: PlannedSwitch, plan: NetworkPlan, grpc_port: int) -> list[str]:
    """Return the command line of a switch's process; the kernel kills it when this process dies."""
    words = ["setpriv", "--pdeathsig", "KILL", "--", *SOFTSWITCH, str(switch.program)]
    for port, interface in sorted(plan.switch_interfaces()[switch.name].items()):
        words += ["-i", f"{port}@{interface}"]
    for port, link in plan.links_of(switch.name):
        words += port_options(port, link.options)
    words += ["--device-id", str(switch.number), "--grpc-server-addr", f"{_HOST}:{grpc_port}"]
    words += ["--priority-queues", str(switch.priorities)]
    return words if switch.cpu_port is None else [*words, "--cpu-port", str(switch.cpu_port)]


def check_ports_are_free(plan: NetworkPlan, first_grpc_port: int) -> None:
    """Raise `SwitchError` if a switch of the network cannot listen on its P4Runtime port."""
    for switch in plan.planned_switches:
        try:
            check_address(f"{_HOST}:{first_grpc_port + switch.number}")
        except SwitchError as error:
            raise SwitchError(
                f"switch {switch.name}: {error}: expected free ports from {first_grpc_port} on, one for each "
                "switch; --grpc-port chooses others"
            ) from None


@contextmanager
def running_switches(plan: NetworkPlan, first_grpc_port: int) -> Iterator[list[SwitchProcess]]:
    """Run all switches during the block, with the entries and commands of their files."""
    processes: list[SwitchProcess] = []
    with ExitStack() as outputs:
        try:
            for switch in plan.planned_switches:
                grpc_port = first_grpc_port + switch.number
                output = outputs.enter_context(tempfile.TemporaryFile())
                command = switch_command(switch, plan, grpc_port)
                processes.append(start_switch(command, output, f"{_HOST}:{grpc_port}"))
            for switch, process in zip(plan.planned_switches, processes, strict=True):
                try:
                    process.wait_for_address()
                    _configure(switch, process.address)
                except SwitchError as error:
                    raise SwitchError(f"switch {switch.name}: {error}") from None
            yield processes
        finally:
            ignore_ending_signals()
            _end(processes)


def _end(processes: Sequence[SwitchProcess]) -> None:
    """End all switches at once, and kill those that are there after `_END_S`."""
    for each in processes:
        each.process.terminate()
    deadline = time.monotonic() + _END_S
    for each in processes:
        try:
            each.process.wait(timeout=max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()
            each.process.wait()


def _configure(switch: PlannedSwitch, address: str) -> None:
    """Write to a running switch what the plan's switch got from the files; raises `SwitchError`."""
    for kind, group in groupby(switch.writes, type):
        writes = list(group)
        if kind is CommandFile:
            with connect(address) as runtime:
                shell = Shell(runtime, say=lambda text: None, runs_shell=False)
                for write in writes:
                    assert isinstance(write, CommandFile)
                    shell.run_all(write.lines, write.name, _raise)
        else:
            with P4RuntimeClient(address, switch.number) as client:
                client.write(*(update for write in writes for update in _updates(write)))


def _updates(write: p4r.WriteRequest | CommandFile) -> Iterable[p4r.Update]:
    assert isinstance(write, p4r.WriteRequest)
    return write.updates


def _raise(error: FileError) -> None:
    raise error
