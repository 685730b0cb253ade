"""Parameters that a seed changes: workers of racks, ports between the switches, values and their order."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

KEYS = 8
ROUNDS = 2


class Update(NamedTuple):
    switch: int
    port: int
    key: int
    value: int


class Parameters(NamedTuple):
    switches: list[dict[str, object]]
    """The switch above and the one below, as `entries.py` gets them."""
    updates: list[Update]


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    racks = [list(range(1, random.randint(2, 5) + 1)) for _ in range(2)]
    link = [len(racks[0]) + random.randint(1, 3), len(racks[1]) + random.randint(1, 3)]
    above = {"worker_ports": racks[0], "up_port": 0, "down_port": link[0]}
    below = {"worker_ports": racks[1], "up_port": link[1], "down_port": 0}
    workers = [(number, port) for number, ports in enumerate(racks) for port in ports]
    updates = []
    for _ in range(ROUNDS):
        one = [Update(*worker, key, random.getrandbits(32)) for worker in workers for key in range(KEYS)]
        random.shuffle(one)
        updates += one
    return Parameters([above, below], updates)
