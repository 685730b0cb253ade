"""Interfaces of ports that go, and that come back under their names: Mininet's links, network namespaces."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from softswitch.errors import KernelError
from softswitch.ports.netlink import LinkChanges, find_index, has_index

_LOG = logging.getLogger(__name__)


class AttachedPorts(Protocol):
    def interface_index(self, port: int) -> int:
        """Return the index of the interface to which a port was attached last."""

    def attach_again(self, port: int) -> None:
        """Attach a port to the interface that has its name now, while frames flow.

        Raises OSError or KernelError.
        """


class InterfaceWatch:
    """Attaches ports again whose interfaces were made anew; `follow` it when it can be read."""

    def __init__(self) -> None:
        self._changes = LinkChanges()
        self._gone_ports: set[int] = set()

    def fileno(self) -> int:
        return self._changes.fileno()

    def follow(self, names: Mapping[int, str], ports: AttachedPorts) -> dict[int, str]:
        """Log ports whose interfaces have gone; attach and return those whose interfaces are there again."""
        deleted = self._changes.read_deleted()
        self._gone_ports &= names.keys()
        attached: dict[int, str] = {}
        for port, name in names.items():
            old_index, index = ports.interface_index(port), find_index(name)
            is_attached = port not in self._gone_ports and old_index not in deleted
            if is_attached and (index == old_index or has_index(old_index)):
                continue  # an interface that has got another name is still the port's
            if index is not None and self._attach_again(ports, port, name):
                attached[port] = name
            elif port not in self._gone_ports:
                self._gone_ports.add(port)
                _LOG.warning("port %d: interface %s is gone; frames to it are dropped", port, name)
        return attached

    def _attach_again(self, ports: AttachedPorts, port: int, name: str) -> bool:
        try:
            ports.attach_again(port)
        except (KernelError, OSError) as error:
            _LOG.error("port %d: interface %s was made anew, and cannot be attached: %s", port, name, error)
            return False
        self._gone_ports.discard(port)
        _LOG.warning("port %d: interface %s was made anew, and is attached", port, name)
        return True

    def close(self) -> None:
        self._changes.close()
