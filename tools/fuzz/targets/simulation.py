"""A simulation's configuration, and the links, outages and costs that are derived from it."""

from __future__ import annotations

from collections.abc import Hashable

from experiment.run_config import load_config_as
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts, Network, costs_of, links_of, outages_of, shapes_of, uplinks_of
from tools.fuzz.target import Target, scratch
from tools.fuzz.targets.run_toml import WORDS


def run(data: bytes) -> Hashable:
    path = scratch() / "simulation.toml"
    path.write_bytes(data)
    config = load_config_as(SimulationConfig, [f"CONFIG={path}"])
    network, workers = config.network, config.workers
    links = links_of(network, workers + config.servers)
    assert (links.delay >= 0).all() and (links.picoseconds_per_byte >= 0).all() and (links.limit >= 0).all()
    outages = outages_of(network, workers)
    assert (outages.host < workers + config.servers).all() and (outages.host >= 0).all()
    uplinks, shapes = uplinks_of(network, 2, workers), shapes_of(network, 2 * len(links))
    costs_of(config.hosts)
    return uplinks[0].picoseconds_per_byte > 0, len(shapes) > 0, len(outages)


def seeds() -> list[bytes]:
    outages = b"""[[network.outages]]
host = "w2"
from_ms = 1
duration_ms = 2.5
every_ms = 10
extra_delay_us = 100
"""
    network = b"""workers = 6
[network]
rate_mbit = 25_000
delay_us = 2
queue_kb = 64
mark_kb = 16
loss = 0.01
extra_delay_us = 100
"""
    hosts = b"[hosts]\nworker_cores = 2\nprogram_ns = 500\nnoise_every_us = 100\nnoise_us = 5.5\n"
    racks = b"workers = 64\nservers = 4\n[network]\nrack = 16\nuplink_mbit = 0\ntraffic_manager = true\n"
    return [network + outages, hosts, racks, b'[offered]\n"0.5" = 100.0\n']


TOKENS = (
    *(name.encode() for model in (SimulationConfig, Network, HostCosts) for name in model.model_fields),
    *WORDS,
    b"[network]\n", b"[hosts]\n", b"[[network.outages]]\n", b'"w1"', b'"p2"', b"1e300", b"1e20",
)  # fmt: skip
TARGET = Target(
    "simulation",
    run,
    (
        "src/experiment/run_config.py",
        "packages/simulator/src/hotline_simulator/config.py",
        "packages/simulator/src/hotline_simulator/costs.py",
    ),
    seeds,
    TOKENS,
)
