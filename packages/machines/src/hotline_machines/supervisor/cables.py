"""Interfaces of cables, which hosts have in their namespaces during a run, and which return after it.

An interface carries in its alias what it is to be again, so that it returns whatever has become of the run.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from hotline_machines.supervisor.command import run_command

_ALIAS = "hotline: "


class CableState(NamedTuple):
    """The state of an interface before the run."""

    name: str
    mac: str
    tx_checksums: bool

    def alias(self) -> str:
        return _ALIAS + json.dumps(self._asdict())


def lend_cable(cable: str, namespace: str, interface: str, mac: str) -> None:
    """Move the interface of a cable into a namespace, under another name and with another address."""
    [link] = _links("dev", cable)
    features = run_command("ethtool", "--show-features", cable)
    state = CableState(cable, link["address"], bool(re.search(r"^tx-checksumming: on", features, re.M)))
    run_command("ip", "link", "set", "dev", cable, "alias", state.alias())
    run_command("ip", "link", "set", "dev", cable, "netns", namespace, "name", interface)
    run_command("ip", "-netns", namespace, "link", "set", "dev", interface, "address", mac)


def return_cables(namespace: str) -> None:
    """Give the machine the interfaces of its cables back that a namespace has."""
    for link in _links(namespace=namespace):
        alias: str = link.get("ifalias", "")
        if not alias.startswith(_ALIAS):
            continue
        state = CableState(**json.loads(alias.removeprefix(_ALIAS)))
        device = ["dev", link["ifname"]]
        in_namespace = ["ip", "-netns", namespace, "link", "set", *device]
        run_command(*in_namespace, "down")
        run_command(*in_namespace, "address", state.mac, "alias", "")
        run_command(*in_namespace, "netns", str(os.getpid()), "name", state.name)
        if state.tx_checksums:
            run_command("ethtool", "-K", state.name, "tx", "on")
        run_command("ip", "link", "set", "dev", state.name, "up")


def _links(*selector: str, namespace: str | None = None) -> list[dict[str, Any]]:
    """Return the links of this machine or of a namespace, as `ip` describes them in JSON."""
    options = [] if namespace is None else ["-netns", namespace]
    found: list[dict[str, Any]] = json.loads(
        run_command("ip", *options, "-json", "-details", "link", "show", *selector)
    )
    return found
