"""Hosts and links of a network on Mininet."""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from softswitch.emulation.ending_signals import ignore_ending_signals
from softswitch.emulation.mininet_names import Mininet, Node, SwitchNode, set_up_mininet
from softswitch.emulation.plan import NetworkPlan, interface_name
from softswitch.emulation.shaping import (
    has_netem,
    host_rate_command,
    missing_without_netem,
    netem_command,
)
from softswitch.errors import SwitchError
from softswitch.network.host import Host
from softswitch.network.link import LinkHandle

_LOG = logging.getLogger(__name__)
HOST_INTERFACE = "eth0"
"""Interface of a host, as in p4lang/tutorials."""
_DISABLE_IPV6 = "echo 1 > /proc/sys/net/ipv6/conf/{}/disable_ipv6"


@contextmanager
def running_hosts(plan: NetworkPlan, add_namespace: Callable[[int], None]) -> Iterator[Mininet]:
    """Make hosts and links, and kill the hosts' shells after the block; the rest is the `guard`'s to remove.

    `add_namespace` is called with the id of each host's shell, once it is in its network namespace.
    """
    set_up_mininet()
    net = Mininet(controller=None, build=False)
    try:
        for host in plan.hosts:
            add_namespace(net.addHost(host.name, ip=str(host.interface), mac=host.mac).pid)
        for switch in plan.switches:
            net.addSwitch(switch.name, cls=SwitchNode, dpid=f"{switch.number + 1:x}")
        for link in plan.links:
            first, second = link.ends
            net.addLink(first.node, second.node, port1=first.port or 0, port2=second.port or 0)
        net.build()
        for host in plan.hosts:
            _set_up_host(net[host.name], host)
        for interfaces in plan.switch_interfaces().values():
            for name in interfaces.values():
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        _shape(net, plan)
        yield net
    finally:
        ignore_ending_signals()
        _kill_shells(net)


def _set_up_host(node: Node, host: Host) -> None:
    if node.defaultIntf() is None:
        return
    for scope in ("all", "default"):  # no frames but those of the network's programs
        node.cmd(_DISABLE_IPV6.format(scope))
    node.defaultIntf().rename(HOST_INTERFACE)
    if host.gateway is not None:
        _execute(node, f"ip route replace default via {host.gateway} dev {HOST_INTERFACE}")
    for address, mac in host.neighbours.items():
        _execute(node, f"ip neigh replace {address} lladdr {mac} dev {HOST_INTERFACE}")


def run_commands(net: Mininet, plan: NetworkPlan) -> None:
    """Execute the commands that the file has for its hosts, and warn of those that fail."""
    for name, commands in plan.host_commands.items():
        for command in commands:
            _execute(net[name], command)


def _execute(node: Node, command: str) -> None:
    output = node.cmd(command).strip()
    status = node.cmd("echo $?").strip()
    if status != "0":
        _LOG.warning("host %s: %r ended with status %s: %s", node.name, command, status, output)


def _shape(net: Mininet, plan: NetworkPlan) -> None:
    """Set rates of hosts, and delays and losses; warn of what this kernel lacks. Raises `SwitchError`."""
    wanting = [link for link in plan.links if missing_without_netem(link.options)]
    is_possible = not wanting or has_netem()
    if not is_possible:
        _LOG.warning(
            "this kernel has no netem, so links have no delay and no loss: %s", _describe_missing(wanting)
        )
    for link in plan.links:
        for end in link.ends:
            node = net[end.node]
            interface = HOST_INTERFACE if end.port is None else interface_name(end)
            rate = host_rate_command(interface, link.options) if end.port is None else []
            netem = netem_command(interface, link.options, bool(rate)) if is_possible else []
            for command in filter(None, (rate, netem)):
                _run_tc(node, command, link)


def _describe_missing(links: Iterable[LinkHandle]) -> str:
    return ", ".join(
        f"{link.ends[0]} - {link.ends[1]} ({missing_without_netem(link.options)})" for link in links
    )


def _run_tc(node: Node, command: Sequence[str], link: LinkHandle) -> None:
    output = node.cmd(shlex.join(command)).strip()
    if output:  # tc prints only errors
        raise SwitchError(f"link {link.ends[0]} - {link.ends[1]}: {shlex.join(command)}: {output}")


def _kill_shells(net: Mininet) -> None:
    for node in net.values():
        shell: subprocess.Popen[str] | None = node.shell
        if shell is not None:
            shell.kill()
            shell.wait()
