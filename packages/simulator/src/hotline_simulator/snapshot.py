"""Snapshots of a world's arrays, with which many schedules of faults are played on one network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hotline_simulator.state import WORLD_HEADER, World

_NOT_IN_SNAPSHOTS = {
    "frames", "octets", "heap", "inbox", "burst", "deferred", "queues", "queued", "ready", "ports", "header",
    "costs", "heads", "workers", "servers",
}  # fmt: skip
"""Fields of a world that are written before they are read, do not change, or have their own code here."""
_NOT_IN_SNAPSHOTS_OF_STATES = {"sent", "log", "connection_records", "journal", "requests"}
"""Likewise, of the states of workers and servers."""


class WorldSnapshot:
    def __init__(self, world: World) -> None:
        self._header = cast(np.void, world.header)
        self._initial_header = self._header.copy()
        self._servers = [(array, array.copy()) for array in _arrays_of_state(world.servers)]
        self._octets = [(_octets_of(array), _octets_of(array.copy())) for array in _arrays_of(world)]

    def restore(self) -> None:
        for octets, initial in self._octets:
            octets[:] = initial
        for name in WORLD_HEADER.names or ():
            self._header[name] = self._initial_header[name]

    def restore_server(self, p: int) -> None:
        for array, initial in self._servers:
            array[p] = initial[p]


def _arrays_of(world: World) -> Iterator[NDArray[np.generic]]:
    yield from _arrays_of_state(world.workers)
    yield from _arrays_of_state(world.servers)
    for name, array in world._asdict().items():
        if name not in _NOT_IN_SNAPSHOTS:
            yield array


def _arrays_of_state(state: Any) -> Iterator[NDArray[np.generic]]:  # a `NamedTuple` of arrays
    for name, field in state._asdict().items():
        if hasattr(field, "_asdict"):
            yield from _arrays_of_state(field)
        elif name not in _NOT_IN_SNAPSHOTS_OF_STATES and field.flags.writeable:
            yield field


def _octets_of(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
