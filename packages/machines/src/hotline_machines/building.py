"""Build a run's network on its machines, and move a host whose machine is lost to another one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from pathlib import Path

from experiment.run_config import Config
from foundation.concurrency import gather_or_cancel
from hotline_machines.assignment import OfferedMachine, cpus_of_hosts
from hotline_machines.cluster import Plan
from hotline_machines.errors import MachineLost, MachinesError
from hotline_machines.network import MachinesNetwork, RemoteHost
from hotline_machines.remote import RemoteMachine
from hotline_machines.switch import RemoteSwitch
from hotline_machines.wiring import WiredHost, wire

log = logging.getLogger(__name__)


async def build_network(
    config: Config,
    run: Path,
    plan: Plan,
    machines: dict[str, RemoteMachine],
    workers_have_namespaces: bool = True,
) -> MachinesNetwork:
    """Build the network; without namespaces, workers' interfaces are those of their machines."""
    assignment, switch = plan.assignment, machines[plan.assignment.switch]
    wired = {
        host: _wire(config, host, machines[name], switch, workers_have_namespaces or not host.startswith("w"))
        for host, name in assignment.hosts.items()
    }

    async def build(machine: RemoteMachine) -> None:
        hosts = [wired[host].host for host in assignment.hosts_of(machine.name)]
        await _name_machine(machine, machine.call("build_hosts", hosts=hosts))

    await gather_or_cancel(build(machine) for machine in machines.values())
    ports = [each.port for each in wired.values() if each.port is not None]
    await _name_machine(switch, switch.call("build_ports", ports=ports))
    interfaces = {
        each.host.port: each.port.interface if each.port else each.host.port_interface
        for each in sorted(wired.values(), key=lambda each: each.host.port)
    }
    cpus: dict[str, int | None] = {}
    for name in assignment.machines:
        cpus |= cpus_of_hosts(assignment.hosts_of(name), plan.machines[name].survey.cpus)

    async def relocate(host: RemoteHost) -> None:
        await _relocate(network, host)

    hosts = {
        host: RemoteHost(host, machines[name], cpus[host], relocate)
        for host, name in assignment.hosts.items()
    }
    network = MachinesNetwork(
        config, run, address="", switch=RemoteSwitch(switch, interfaces, cpu=None), machines=machines,
        workers=[hosts[f"w{number}"] for number in range(1, config.workers + 1)],
        servers=[hosts[f"p{number}"] for number in range(1, config.servers + 1)],
    )  # fmt: skip
    return network


async def _relocate(network: MachinesNetwork, host: RemoteHost) -> None:
    """Give a host and its port of the switch to a machine that has room and sees the host's files."""
    lost, switch = host.machine, network.switch.machine
    if not lost.is_shared:
        raise MachineLost(
            f"{lost.lost_error()}, with the files of {host.name}: on another machine it could go on if the "
            f"run's folder ({network.run}) were on storage that the machines share"
        )
    if network.config.wiring.underlay != "vxlan":
        raise MachineLost(f"{lost.lost_error()}: hosts on cables cannot be moved")
    room = {
        machine.name: OfferedMachine(machine.name, machine.machine.resources).room
        - sum(each.machine is machine for each in (*network.workers, *network.servers))
        for machine in network.reachable
        if machine.is_shared and machine is not switch
    }
    name = max(sorted(room), key=room.__getitem__, default=None)
    if name is None or room[name] < 1:
        raise MachineLost(f"{lost.lost_error()}: no other machine than the switch's has room for {host.name}")
    machine = network.machines[name]
    wired = _wire(network.config, host.name, machine, switch)
    await _name_machine(machine, machine.call("build_hosts", hosts=[wired.host]))
    await _name_machine(switch, switch.call("move_port", port=wired.port))
    host.machine, host.cpu = machine, None
    log.warning("%s goes on on machine %s", host.name, name)


def _wire(
    config: Config, host: str, machine: RemoteMachine, switch: RemoteMachine, has_namespace: bool = True
) -> WiredHost:
    return wire(config, host, machine.address, switch.address, machine is switch, has_namespace=has_namespace)


async def _name_machine(machine: RemoteMachine, call: Awaitable[object]) -> None:
    """Await a call; prefix its error with the machine's name."""
    try:
        await call
    except MachinesError as error:
        raise MachinesError(f"{machine.name}: {error}") from None
