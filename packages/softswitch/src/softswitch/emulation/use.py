"""The network while it runs: Mininet's command line, or pings and commands with a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from softswitch.emulation.guard import guard
from softswitch.emulation.hosts import run_commands, running_hosts
from softswitch.emulation.mininet_names import Mininet, NetworkCli
from softswitch.emulation.options import NetOptions
from softswitch.emulation.plan import NetworkPlan
from softswitch.emulation.switches import running_switches
from softswitch.emulation.traffic import CommandResult, ping_all, run_on_hosts
from softswitch.messages import pluralize
from softswitch.network.host import Ping
from softswitch.network.report import describe_pings, pings_as_json


def use_network(plan: NetworkPlan, options: NetOptions) -> int:
    """Start a network, use it as the options say, and end it; return the exit status."""
    names = [name for ports in plan.switch_interfaces().values() for name in ports.values()]
    with guard(names) as add_namespace, running_hosts(plan, add_namespace) as mininet:
        print(f"starting {pluralize(len(plan.switches), 'switch', 'switches')}", file=sys.stderr, flush=True)
        with running_switches(plan, options.grpc_port) as switches:
            run_commands(mininet, plan)
            for switch, process in zip(plan.switches, switches, strict=True):
                print(
                    f"{switch.name}: P4Runtime at {process.address}, device ID {switch.number}",
                    file=sys.stderr,
                    flush=True,
                )
            return _use(mininet, plan, options)


def _use(mininet: Mininet, plan: NetworkPlan, options: NetOptions) -> int:
    if options.is_interactive:
        NetworkCli(mininet)
        return 0
    pings = ping_all(mininet, plan.hosts) if options.pings_all else {}
    if pings and not options.is_json:
        print("\n".join(describe_pings(pings)), flush=True)
    results = run_on_hosts(mininet, options.runs, options.is_json)
    if options.is_json:
        print(json.dumps(_as_json(pings, results), indent=1))
    return _status(pings, results)


def _status(pings: Mapping[tuple[str, str], Ping], results: Sequence[CommandResult]) -> int:
    if not all(ping.received for ping in pings.values()):
        return 1
    status = next((result.status for result in results if result.status), 0)
    return status if status >= 0 else 128 - status  # a signal, as in a shell


def _as_json(pings: Mapping[tuple[str, str], Ping], results: Sequence[CommandResult]) -> dict[str, object]:
    return {"pings": pings_as_json(pings), "runs": [result._asdict() for result in results]}
