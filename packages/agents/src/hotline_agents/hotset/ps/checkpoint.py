"""Take a checkpoint of a durable PS, as bytes by name, and restore a PS from one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hotline_agents.hotset.ps.moves import BaseMover, ReplyTo
from hotline_agents.ps.rpcs import CALLER, find_caller
from nativekit.plain import plain

MoverKey: TypeAlias = tuple[int, int]  # job, and index of the home
_PART_SIZE = 1 << 20  # number of elements of a part of an array
_find_caller = plain(find_caller)
_SNAPSHOTS_PART = "standings"  # name of the part with the movers' snapshots


def take_checkpoint(
    server: Any, movers: Mapping[MoverKey, BaseMover[Any, ReplyTo]], arrays: Sequence[str]
) -> Iterator[tuple[str, bytes]]:  # `server` is the state of any design with movers
    """Yield the names and contents of parts; every mover must be idle. Parts with only zeros are left out."""
    yield "jobs", server.jobs.tobytes()
    yield "callers", server.callers[server.callers.in_use == 1].tobytes()
    snapshots = [[*key, mover.snapshot()] for key, mover in movers.items()]
    yield _SNAPSHOTS_PART, json.dumps(snapshots).encode()
    for name in arrays:
        for j, array in enumerate(np.atleast_2d(getattr(server, name))):
            for start in range(0, len(array), _PART_SIZE):
                part = array[start : start + _PART_SIZE]
                if np.frombuffer(part, np.uint8).any():
                    yield f"{name} {j} {start}", part.tobytes()  # `restore_checkpoint` splits the name


def restore_checkpoint(
    server: Any,
    movers: Mapping[MoverKey, BaseMover[Any, ReplyTo]],
    parts: Mapping[str, bytes],
    arrays: Sequence[str],
) -> None:
    """Restore a new PS from the parts of a checkpoint; there must be room for its callers."""
    server.jobs[:] = np.frombuffer(parts["jobs"], server.jobs.dtype)
    for caller in np.frombuffer(parts["callers"], CALLER):
        identity = (int(caller["job"]), int(caller["caller"]), int(caller["epoch"]))
        server.callers[_find_caller(server, *identity)] = caller
    for job, home, snapshot in json.loads(parts[_SNAPSHOTS_PART]):
        movers[job, home].restore(snapshot)
    for name, content in parts.items():
        array_name, _, indices = name.partition(" ")
        if array_name in arrays:
            array = np.atleast_2d(getattr(server, array_name))
            j, start = map(int, indices.split())
            part = np.frombuffer(content, array.dtype)
            array[j, start : start + len(part)] = part
