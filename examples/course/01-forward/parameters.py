"""Parameters that a seed changes: the hosts, their ports, and the random frames."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

FRAMES = 200
MAX_PORT = 8


class Frame(NamedTuple):
    port: int
    dst: int
    data: bytes


class Parameters(NamedTuple):
    hosts: dict[int, int]
    """Port by MAC address."""
    frames: list[Frame]


def parameters(seed: int) -> Parameters:
    random = Random(seed)
    hosts = {random.randrange(1 << 40): random.randint(1, MAX_PORT) for _ in range(random.randint(4, 12))}
    # A third of the frames are for hosts that no entry has.
    addresses = [*hosts, *(random.randrange(1 << 40) for _ in range(len(hosts) // 2))]
    return Parameters(hosts, [_frame(random, random.choice(addresses)) for _ in range(FRAMES)])


def _frame(random: Random, dst: int) -> Frame:
    return Frame(random.randint(1, MAX_PORT), dst, random.randbytes(random.randint(46, 200)))
