"""The bandwidth of the links of a run's network: a token bucket at each end of a link.

A bucket lets bursts of some frames pass at once, and counts the bytes of a frame without preamble and gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # Mininet has no types

from experiment.defaults import CABLE_QUEUE_KB
from experiment.errors import RunFailed
from experiment.run_config import Config
from topologies.mininet_api import Mininet, Switch

_BURST_BYTES = 8 * 1024


def limit_links(mininet: Mininet, config: Config) -> None:
    """Limit links to their rates, if they have any; raise `RunFailed` for an interface without its bucket.

    It is done before switches start, since they look at what limits their ports then.
    """
    for interface, mbit in _rates(mininet, config):
        command = f"tc qdisc replace dev {interface} root tbf rate {round(mbit * 1e6)}bit"
        refusal = interface.node.cmd(f"{command} burst {_BURST_BYTES} limit {round(CABLE_QUEUE_KB * 1024)}")
        if refusal:
            raise RunFailed(f"{interface} has no bandwidth of {mbit:g} Mbit/s: {refusal.strip()}")


def _rates(mininet: Mininet, config: Config) -> Iterator[tuple[Any, float]]:
    """Yield the interfaces at both ends of each link with a bandwidth, and this, in Mbit/s."""
    if not config.cables_mbit:
        return
    for link in mininet.links:
        interfaces, mbit = (link.intf1, link.intf2), config.cables_mbit
        if config.leaf_spine is not None and all(isinstance(each.node, Switch) for each in interfaces):
            mbit = config.leaf_spine.uplink_mbit(config.cables_mbit)
        yield from ((interface, mbit) for interface in interfaces)
