"""Placement of processes on CPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiment.run_config import Config, PlacementConfig
from topologies.cpu_placement import Placement, cpu_of, place
from topologies.switches import switch_of


@pytest.mark.parametrize(
    ("cpus", "servers", "workers", "expected"),
    [
        ([3], 2, 4, Placement()),
        ([0, 1], 2, 4, Placement(servers=(0,), workers=(1,))),
        ([2, 3, 5], 2, 4, Placement(switch=5, servers=(2,), workers=(3,))),
        ([2, 3, 5, 7], 2, 4, Placement(rest=2, switch=3, servers=(5,), workers=(7,))),
        (list(range(6)), 2, 4, Placement(rest=0, switch=1, servers=(2,), workers=(3, 4, 5))),
        (list(range(8)), 2, 4, Placement(rest=0, switch=1, servers=(2, 3), workers=(4, 5, 6, 7))),
        (list(range(16)), 2, 4, Placement(rest=0, switch=1, servers=(2, 3), workers=(12, 13, 14, 15))),
        (list(range(8)), 20, 1, Placement(rest=0, switch=1, servers=(2, 3, 4, 5, 6), workers=(7,))),
        (list(range(8)), 1, 80, Placement(rest=0, switch=1, servers=(2,), workers=(3, 4, 5, 6, 7))),
    ],
)
def test_servers_and_workers_are_kept_apart(
    cpus: list[int], servers: int, workers: int, expected: Placement
) -> None:
    assert place(PlacementConfig(), servers, workers, cpus) == expected


def test_configured_cpus_override_the_default_placement() -> None:
    found = place(PlacementConfig(switch=1), 2, 4, [0, 1])
    assert found == Placement(switch=1, servers=(0,), workers=(1,))
    assert found.as_record() == {"switch": 1, "servers": 0, "workers": 1, "rest": "any"}
    found = place(PlacementConfig(servers=7, workers=7), 2, 4, list(range(8)))
    assert found.as_record() == {"switch": 1, "servers": 7, "workers": 7, "rest": 0}
    assert place(PlacementConfig(), 2, 4, list(range(8))).as_record()["workers"] == [4, 5, 6, 7]


def test_a_switch_may_share_a_cpu_even_if_a_cpu_is_free() -> None:
    found = place(PlacementConfig(switch="any"), 2, 4, [2, 3, 5])
    assert found == Placement(switch=None, servers=(2,), workers=(3,))
    assert found.as_record()["switch"] == "any"


def test_agents_take_turns_with_their_cpus() -> None:
    assert [cpu_of(number, (4, 6)) for number in (1, 2, 3, 4)] == [4, 6, 4, 6]
    assert cpu_of(1, ()) is None


@pytest.mark.parametrize(
    ("cpu", "datapath", "steered"),
    [(0, "kernel", ["0"]), (3, "auto", ["3"]), (0, "sockets", []), (None, "kernel", [])],
)
def test_the_switch_s_program_is_steered_to_its_cpu(
    tmp_path: Path, cpu: int | None, datapath: str, steered: list[str]
) -> None:
    """The process has its affinity; by sockets it does all of the work."""
    words = switch_of(Config.model_validate({"datapath": datapath}), tmp_path, cpu).command()
    assert [words[at + 1] for at, word in enumerate(words) if word == "--rps-cpu"] == steered
    assert words[words.index("--datapath") + 1] == datapath
