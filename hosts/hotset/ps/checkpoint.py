"""Take a checkpoint of a durable PS, as bytes by name, and restore a PS from one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from hosts.hotset.ps.moves import Mover, ReplyTo
from hosts.hotset.ps.state import Server
from hosts.ps.rpcs import CALLER, find_caller
from hosts.ps.values import CELL
from nativekit.plain import plain

_CHUNK = 1 << 20
_find_caller = plain(find_caller)
_SNAPSHOTS = "standings"


def take_checkpoint(server: Server, movers: Mapping[int, Mover[ReplyTo]]) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents; every mover must be idle. Parts of arrays that are 0 are left out."""
    yield "jobs", server.jobs.tobytes()
    yield "callers", server.callers[server.callers.known == 1].tobytes()
    yield _SNAPSHOTS, json.dumps({str(job): mover.snapshot() for job, mover in movers.items()}).encode()
    for j in range(len(server.jobs)):
        arrays: dict[str, NDArray[np.generic]] = {"cells": server.cells[j], "lent": server.at_switch[j]}
        for name, array in arrays.items():
            for start in range(0, len(array), _CHUNK):
                part = array[start : start + _CHUNK]
                if np.frombuffer(part, np.uint8).any():
                    yield f"{name} {j} {start}", part.tobytes()


def restore_checkpoint(
    server: Server, movers: Mapping[int, Mover[ReplyTo]], parts: Mapping[str, bytes]
) -> None:
    """Restore a new PS from the parts of a checkpoint; there must be room for its callers."""
    server.jobs[:] = np.frombuffer(parts["jobs"], server.jobs.dtype)
    for caller in np.frombuffer(parts["callers"], CALLER):
        identity = (int(caller["job"]), int(caller["worker"]), int(caller["epoch"]))
        server.callers[_find_caller(server, *identity)] = caller
    for job, snapshot in json.loads(parts[_SNAPSHOTS]).items():
        movers[int(job)].restore(snapshot)
    arrays = {"cells": (server.cells, CELL), "lent": (server.at_switch, np.dtype(np.uint32))}
    for name, content in parts.items():
        kind, _, place = name.partition(" ")
        if kind in arrays:
            array, dtype = arrays[kind]
            j, start = map(int, place.split())
            part = np.frombuffer(content, dtype)
            array[j, start : start + len(part)] = part
