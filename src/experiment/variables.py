"""The variables of `hotline run` and `make run-topo`: NAME=value sets one setting of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Variable(NamedTuple):
    setting: str
    """Name of the setting in run.toml."""
    help: str
    """Line of `hotline run --help` about the variable."""


VARIABLES: Final[Mapping[str, Variable]] = {
    "DESIGN": Variable("design", "Design of aggregation, such as hotset, collect or none."),
    "TARGET": Variable("target", "The switch: softswitch, or bmv2 if that is installed."),
    "WORKERS": Variable("workers", "Number of workers."),
    "PS": Variable("servers", "Number of parameter servers."),
    "TOP_K": Variable("top_k", "Size of the hot set, in keys."),
    "DIM": Variable("dim", "Values in the row that a key names."),
    "TABLES": Variable("tables", "Tables of the built-in workload: one, or criteo."),
    "RULE": Variable("rule", "Rule that chooses the hot set."),
    "ROUNDS": Variable("rounds", "Number of measured rounds; 6 or more give intervals."),
    "PRECISE": Variable("precise", "1: go on until pulls and pushes are known to 3 %."),
    "DATA": Variable("data", "Your training set (libsvm) or log of accesses."),
    "COLUMNS": Variable("columns", "Columns of such a log by role: key=item_id."),
    "BATCH": Variable("samples_per_step", "Samples or rows of DATA that are a mini-batch."),
    "OPTIMISER": Variable("optimiser", "Optimiser at the servers: sgd, adagrad, ftrl or adam."),
    "SCRIPT": Variable("script", "Your training script, in place of the workers."),
    "CODEC": Variable("codec", "The agents: fast (compiled), scapy (plain Python), or mixed."),
    "TOPOLOGY": Variable("topology", "The network: switch, or leaf-spine (two leaves, a spine)."),
    "LEAVES": Variable("leaves", "Number of leaves of leaf-spine."),
    "SPINES": Variable("spines", "Number of spines of leaf-spine."),
    "HOSTS_PER_LEAF": Variable("hosts_per_leaf", "Hosts that fill each leaf in turn; 0: they take turns."),
    "ROUTING": Variable("routing", "Paths over several spines: fixed, ecmp or spray."),
    "OVERSUBSCRIPTION": Variable("oversubscription", "Bandwidth of a leaf's hosts by its uplinks'."),
    "CABLE_MBIT": Variable("cable_mbit", "Bandwidth of a host's cable, Mbit/s; 0: no limit."),
    "HOT_SETS": Variable("hot_sets", "Places of hot sets: spine, leaves, both or worker-leaves."),
    "DATAPATH": Variable("datapath", "Where softswitch forwards: auto, kernel or sockets."),
    "PCAP": Variable("pcap", "1: capture the packets at every port of the switch."),
    "CLI": Variable("cli", "1: stay in Mininet's command line after the report."),
    "SEED": Variable("seed", "Seed of the random numbers."),
    "MACHINES": Variable("machines", "Address of a dask scheduler, for a run on several machines."),
}
CONFIG: Final = "CONFIG"
CONFIG_HELP: Final = "TOML file with your settings, in place of run.toml."
VARIABLE_NAMES: Final = (*VARIABLES, CONFIG)
