"""`python -m switch_bench`: the bench of softswitch alone, with small programs."""

from __future__ import annotations

from switch_bench.command import Section, bench_command, run_bench
from switch_bench.report import describe_placement
from switch_bench.sections.compiler import compiler
from switch_bench.sections.control import memory, writes
from switch_bench.sections.forwarding import forwarding
from switch_bench.sections.function import function
from switch_bench.sections.load import load
from switch_bench.sections.many import many
from switch_bench.sections.networks import networks
from switch_bench.sections.parts import parts
from switch_bench.sections.ports import idle, ports
from switch_bench.sections.soak import soak

_ALL = (forwarding, function, parts, ports, idle, writes, memory, load, compiler, networks, many, soak)
SECTIONS: dict[str, Section] = {section.__name__: section for section in _ALL}
_HELP = """Measure softswitch, paired with BMv2 where it is installed and with a loop that does no P4 work.

SECTIONS are measured, by default all. Needs root and two cores.
"""

if __name__ == "__main__":
    run_bench(bench_command(SECTIONS, _HELP, describe_placement))
