"""The network of a run on Mininet, and its nodes.

Hosts have static neighbours; each target has a class of switches, all with the same options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiment.run_config import Config
from foundation.protocol import addressing
from foundation.protocol.addressing import Endpoint
from topologies import routes
from topologies.agent_launcher import AgentLauncher, ForkedProcess
from topologies.agent_process import Message
from topologies.agents import Agent, namespace_command
from topologies.cpu_placement import Placement
from topologies.link_rates import limit_links
from topologies.mininet_api import Host, Mininet, Switch, set_up_mininet
from topologies.neighbours import list_endpoints, neighbour_commands, without_ipv6
from topologies.script_command import LocalScript, ScriptCommand, start_script_here
from topologies.signals import STOP
from topologies.switches import TargetSwitch, switch_of
from topologies.testbed import SingleMachine


class TestbedHost(Host):  # type: ignore[misc]  # Mininet has no types
    """A host with a static neighbour entry for every endpoint, since the switch answers no ARP."""

    def __init__(
        self, name: str, launcher: AgentLauncher | None = None, **params: Any
    ) -> None:  # Mininet's parameters
        super().__init__(name, **params)
        self._launcher = launcher

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:  # Mininet's parameters
        STOP.raise_if_requested()
        super().config(**params)
        interface = self.defaultIntf().name
        entries = neighbour_commands(neighbours, self.IP(), interface)
        self.cmd(f"sysctl -qw {without_ipv6(interface, self.inNamespace)}")
        # The switch forwards frames unchanged, so their checksums must be complete.
        self.cmd(f"ethtool -K {interface} tx off")
        self.cmd("ip -batch - <<'END'\n" + "\n".join(entries) + "\nEND")

    @property
    def switch_interface(self) -> str:
        return str(self.defaultIntf().link.intf2)  # links are made from hosts to the switch

    def make_agent(self, name: str, module: str, settings: Message, log_dir: Path, **options: Any) -> Agent:
        """Make an agent in this host's namespaces; `options` are those of `Agent`."""
        launcher, options = self._launcher, {"interface": self.switch_interface, **options}
        if launcher is None:
            return Agent(name, namespace_command(self.pid, module), settings, log_dir, **options)

        async def launch(arguments: Sequence[str], log_file: Path) -> ForkedProcess:
            with log_file.open("ab") as stderr:
                namespace = Path(f"/proc/{self.pid}/ns/net")
                return await launcher.launch(module, arguments, namespace, stderr.fileno())

        return Agent(name, [], settings, log_dir, launch=launch, **options)

    async def start_script(self, command: ScriptCommand, log: Path) -> LocalScript:
        return await start_script_here(command, ["mnexec", "-a", str(self.pid)], log)


class ScriptHost(TestbedHost):
    """A worker's address in the root namespace; only packets sent from it go to the testbed."""

    def __init__(self, name: str, **params: Any) -> None:  # Mininet's parameters
        super().__init__(name, inNamespace=False, **params)
        self._address: str | None = None

    def config(self, neighbours: Iterable[Endpoint] = (), **params: Any) -> None:  # Mininet's parameters
        ip = params.pop("ip")
        super().config(neighbours, **params)
        self._address = ip.partition("/")[0]
        routes.add(self._address, ip, self.defaultIntf().name)

    def terminate(self) -> None:
        if self._address is not None:
            routes.remove(self._address)
        super().terminate()


class SwitchNode(Switch):  # type: ignore[misc]  # Mininet has no types
    """A switch of the root namespace, attached to this node's interfaces."""

    def __init__(self, name: str, *, target: TargetSwitch, **params: Any) -> None:  # Mininet's parameters
        super().__init__(name, **params)
        self.target = target

    def start(self, controllers: Sequence[object]) -> None:
        # Mininet gives port 0 to the loopback interface.
        self.target.interfaces = {
            port: str(interface) for port, interface in sorted(self.intfs.items()) if port > 0
        }
        for interface in self.target.interfaces.values():
            self.cmd(f"sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1")
        self.target.start()

    def stop(self, deleteIntfs: bool = True) -> None:
        self.target.stop()
        super().stop(deleteIntfs)


@dataclass(frozen=True)
class RunningNetwork(SingleMachine):
    """The running network. `workers` and `servers` are in order of their numbers."""

    mininet: Mininet
    switch: TargetSwitch
    workers: list[TestbedHost]
    servers: list[TestbedHost]
    other_switches: Sequence[TargetSwitch] = ()
    """Further spines, and the leaves, if `switch` is a spine."""

    @property
    def address(self) -> str:
        return self.switch.address


@contextmanager
def network(
    config: Config,
    placement: Placement,
    log_dir: Path,
    worker_class: type[TestbedHost] = TestbedHost,
    launcher: AgentLauncher | None = None,
) -> Iterator[RunningNetwork]:
    """Build a network and start its switch; without a launcher, each agent imports its modules itself."""
    set_up_mininet()
    mininet = Mininet(controller=None, build=False, ipBase=f"10.0.0.0/{addressing.PREFIX_LENGTH}")
    try:
        built_network = _add_nodes(mininet, config, placement, log_dir, worker_class, launcher)
        mininet.build()
        limit_links(mininet, config)
        mininet.start()
        yield built_network
    finally:
        mininet.stop()


def _add_nodes(
    mininet: Mininet,
    config: Config,
    placement: Placement,
    log_dir: Path,
    worker_class: type[TestbedHost],
    launcher: AgentLauncher | None,
) -> RunningNetwork:
    workers = [addressing.worker(number) for number in range(1, config.workers + 1)]
    servers = [addressing.server(number) for number in range(1, config.servers + 1)]
    targets = [
        switch_of(config, log_dir, placement.switch, number) for number in range(len(config.p4runtime_ports))
    ]
    switches = [mininet.addSwitch(target.name, cls=SwitchNode, target=target) for target in targets]
    leaf_spine, hosts = config.leaf_spine, []
    for number, endpoint in enumerate((*workers, *servers), start=1):
        STOP.raise_if_requested()
        host = mininet.addHost(
            endpoint.name,
            cls=worker_class if number <= config.workers else TestbedHost,
            ip=f"{endpoint.address}/{addressing.PREFIX_LENGTH}",
            mac=endpoint.mac,
            neighbours=list_endpoints(config.workers, config.servers),
            launcher=launcher,
        )
        leaf = 0 if leaf_spine is None else leaf_spine.leaf_of(number)
        mininet.addLink(host, switches[leaf], port2=addressing.host_port(number))
        hosts.append(host)
    if leaf_spine is not None:
        for leaf, spine in leaf_spine.links():
            port1, port2 = leaf_spine.uplink(spine), leaf_spine.downlink(leaf)
            mininet.addLink(switches[leaf], switches[spine], port1=port1, port2=port2)
    return RunningNetwork(mininet, targets[0], hosts[: config.workers], hosts[config.workers :], targets[1:])
