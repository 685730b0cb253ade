from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from foundation.checkout import ROOT
from foundation.errors import HotlineError
from softswitch.errors import SwitchError
from switch_bench.command import Section, bench_command, run_bench
from switch_bench.processes import Cores
from switch_bench.report import describe_placement
from switch_bench.sections.control import memory
from switch_bench.sections.many import many
from switch_bench.sections.networks import networks
from switch_bench.sections.ports import idle, ports
from switch_bench.sections.soak import soak
from tools.bench.sections.agents import agents
from tools.bench.sections.hits import hits
from tools.bench.sections.kv import kv
from tools.bench.sections.optimisers import optimisers
from tools.bench.sections.switch import compiler, forwarding, function, load, parts, writes


def packages() -> Iterator[Section]:
    """Yield the section of each package that has a `bench.py`, a function of the package's name."""
    for file in sorted(ROOT.glob("packages/*/bench.py")):
        name = file.parent.name
        yield getattr(import_module(f"packages.{name}.bench"), name)


_ALL = (
    forwarding, function, hits, parts, ports, idle, writes, memory, load, compiler, networks, many, soak,
    agents, optimisers, kv, *packages(),
)  # fmt: skip
SECTIONS: dict[str, Section] = {section.__name__: section for section in _ALL}
_HELP = """\
Measure the softswitch (paired with BMv2 where it is installed, and with a C loop that does no P4 work), the
agents (paired with an echo), servers with an optimiser (paired with a server that only adds), the worker of a
script (paired with the built-in worker), the policies that select hot keys, and the analyses of dense
training.

SECTIONS are measured, by default all. Needs root and two cores.
"""


def _placement(cores: Cores) -> str:
    return describe_placement(
        cores,
        generators="generator and sink, worker and script,",
        targets="softswitch and C loop, PS and echo",
    )


if __name__ == "__main__":
    run_bench(bench_command(SECTIONS, _HELP, _placement), (HotlineError, SwitchError))
