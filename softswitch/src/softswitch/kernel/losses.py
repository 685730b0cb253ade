"""Frames that interfaces do not take where they are to leave: a program is not told, so it is asked for."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

from softswitch.ports.qdiscs import qdiscs


def sent_in_vain() -> Counter[str]:
    """By interface of this thread's network namespace: what it or its queueing discipline has dropped."""
    found: Counter[str] = Counter()
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        found[name.strip()] = int(numbers.split()[11])
    names = dict(socket.if_nameindex())
    for each in qdiscs():
        if each.is_root:  # what its children drop is its own
            found[names.get(each.interface, "")] += each.dropped
    return found
