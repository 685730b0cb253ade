from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiment.config import Config
from foundation.protocol import addressing
from topologies.mininet_api import Mininet, lg, setLogLevel
from topologies.nodes import TARGETS, TargetSwitch, TestbedHost
from topologies.placement import Placement
from topologies.signals import STOP


@dataclass(frozen=True, slots=True)
class RunningNetwork:
    """The running network. `workers` and `servers` are in order of their numbers."""

    mininet: Mininet
    switch: TargetSwitch
    workers: list[TestbedHost]
    servers: list[TestbedHost]

    @property
    def address(self) -> str:
        return self.switch.address


@contextmanager
def network(
    config: Config, placement: Placement, log_dir: Path, worker_class: type[TestbedHost] = TestbedHost
) -> Iterator[RunningNetwork]:
    # Show the command line's output, and not Mininet's own log.
    setLogLevel("output")
    lg.propagate = False
    mininet = Mininet(controller=None, build=False, ipBase=f"10.0.0.0/{addressing.PREFIX_LENGTH}")
    try:
        built_network = _add_nodes(mininet, config, placement, log_dir, worker_class)
        mininet.build()
        mininet.start()
        yield built_network
    finally:
        mininet.stop()


def _add_nodes(
    mininet: Mininet, config: Config, placement: Placement, log_dir: Path, worker_class: type[TestbedHost]
) -> RunningNetwork:
    workers = [addressing.worker(number) for number in range(1, config.workers + 1)]
    servers = [addressing.server(number) for number in range(1, config.servers + 1)]
    services = [addressing.service(number) for number in range(1, config.servers + 1)]
    endpoints = [*workers, *servers, *services, addressing.controller()]
    switch = mininet.addSwitch(
        addressing.SWITCH_NAME,
        cls=TARGETS[config.target],
        port=config.p4runtime_port,
        log_dir=log_dir,
        cpu=placement.switch,
        datapath=config.datapath,
        impairment=config.faults.impairment(config.seed),
    )
    hosts = []
    for port, endpoint in enumerate((*workers, *servers), start=1):
        STOP.raise_if_requested()
        host = mininet.addHost(
            endpoint.name,
            cls=worker_class if port <= config.workers else TestbedHost,
            ip=f"{endpoint.address}/{addressing.PREFIX_LENGTH}",
            mac=endpoint.mac,
            neighbours=endpoints,
        )
        mininet.addLink(host, switch, port2=port)
        hosts.append(host)
    return RunningNetwork(mininet, switch, hosts[: config.workers], hosts[config.workers :])
