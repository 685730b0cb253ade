"""Which machine has which host, by the resources of dask's workers and by pins."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hotline_machines.assignment import OfferedMachine, assign, cpus_of_hosts, host_names
from hotline_machines.errors import MachinesError


def offers(**rooms: int) -> list[OfferedMachine]:
    """Return machines with room for so many agents, and "head" with the switch and without room."""
    hosts = [OfferedMachine(name, {"host": float(room)}) for name, room in rooms.items()]
    return [OfferedMachine("head", {"switch": 1.0}), *hosts]


@pytest.mark.parametrize("seed", range(30))
def test_hosts_are_spread_evenly_within_the_room_of_each_machine(seed: int) -> None:
    rng = random.Random(seed)
    rooms = {f"m{number}": rng.randrange(1, 9) for number in range(rng.randrange(1, 6))}
    total = rng.randrange(2, sum(rooms.values()) + 1) if sum(rooms.values()) > 1 else 1
    servers = rng.randrange(1, total + 1)
    found = assign(offers(**rooms), total - servers, servers, {})
    assert set(found.hosts) == set(host_names(total - servers, servers))
    used = Counter(found.hosts.values())
    assert all(used[name] <= room for name, room in rooms.items())
    # A machine with room for one more is at most one host below the share of any other.
    shares = {name: used[name] / room for name, room in rooms.items()}
    for name, room in rooms.items():
        if used[name] < room:
            assert all((used[other] - 1) / rooms[other] <= shares[name] for other in rooms if used[other] > 0)


def test_servers_are_spread_first_and_pins_hold() -> None:
    found = assign(offers(a=2, b=2), 2, 2, {})
    assert found.hosts == {"p1": "a", "p2": "b", "w1": "a", "w2": "b"}
    assert found.switch == "head" and found.machines == ["a", "b", "head"]
    pinned = assign(offers(a=2, b=2), 2, 2, {"w1": "b", "p1": "b"})
    assert pinned.hosts == {"p1": "b", "p2": "a", "w1": "b", "w2": "a"}
    assert pinned.hosts_of("b") == ["p1", "w1"]


REFUSALS = {
    "no switch": (
        [OfferedMachine("a", {"host": 9.0})], {}, "resource switch: expected a worker of dask that has it",
    ),
    "half a switch": (
        [OfferedMachine("a", {"host": 9.0, "switch": 0.5})], {}, "resource switch: expected a worker of dask",
    ),
    "no room": (offers(), {}, "expected room for 3 agents (2 workers and 1 server), got 0 (head 0)"),
    "too little room": (offers(a=1, b=1), {}, "got 2 (head 0, a 1, b 1)"),
    "an unknown machine": (
        offers(a=3), {"w2": "c"}, "wiring.pins: w2: expected one of the machines a, head, got c",
    ),
    "more pins than room": (
        offers(a=1, b=9), {"w1": "a", "w2": "a"}, "expected at most 1 hosts on a, its resource host, got 2",
    ),
    "a switch where none is offered": (
        offers(a=3), {"switch": "a"}, "expected a machine with the resource switch (head), got a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_hosts_that_fit_on_no_machine_are_one_error(name: str) -> None:
    machines, pins, message = REFUSALS[name]
    with pytest.raises(MachinesError) as refused:
        assign(machines, 2, 1, pins)
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("hosts", "cpus", "expected"),
    [
        (["w1"], [3], {"w1": None}),
        (["w1", "w2", "w3"], [0, 1], {"w1": 0, "w2": 1, "w3": 0}),
        (["p1", "p2"], [0, 1, 2, 3], {"p1": 1, "p2": 2}),
        (["p1", "w1", "w2"], [0, 1], {"p1": 0, "w1": 1, "w2": 1}),
        ([], [0, 1], {}),
    ],
)
def test_agents_of_a_machine_are_placed_on_its_cpus(
    hosts: list[str], cpus: list[int], expected: dict[str, int | None]
) -> None:
    assert cpus_of_hosts(hosts, cpus) == expected
