from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foundation.protocol.header import LANES
from softswitch.p4.cached import compile_cached
from switch_bench.calls import install_program, ns_per_packet
from switch_bench.results import Result
from switch_bench.sections import compiler as plain_compiler
from switch_bench.sections import forwarding as plain_forwarding
from switch_bench.sections import parts as plain_parts
from switch_bench.sections.compiler import Source, measure_compiler
from switch_bench.sections.control import Insertions, measure_writes
from switch_bench.sections.forwarding import Case, compare
from switch_bench.sections.function import packet_function, packets, programs, tables
from switch_bench.sections.load import measure_load
from switch_bench.sections.parts import Step, measure_steps, steps_without_program
from switch_bench.stage import Stage
from switch_bench.switches import SOFTSWITCH
from switch_bench.workload import CompiledProgram
from tools.bench import hotline
from tools.bench.results import PACKET_FUNCTION_NS, PACKETS_COLD, PACKETS_HIT

_P4SRC = Path(__file__).parents[3] / "p4src"


def forwarding(stage: Stage) -> list[Result]:
    hit, cold = Case(hotline.hot_pushes(), PACKETS_HIT), Case(hotline.cold_pushes(), PACKETS_COLD)
    results = compare(stage, "our program", hotline.setup(), [hit, cold])
    return results + plain_forwarding.forwarding(stage)


def function(stage: Stage) -> list[Result]:
    setup = hotline.setup()
    results = [
        packets(
            stage, "our program, 32 lanes hit, same keys", setup, hotline.hot_pushes(), PACKET_FUNCTION_NS
        ),
        packets(stage, "our program, 32 lanes cold", setup, hotline.cold_pushes()),
        *programs(stage),
    ]
    for live in (8, 16):
        workload = hotline.hot_pushes(live=live)
        results.append(packets(stage, f"our program, {live} of {LANES} lanes filled, hit", setup, workload))
    results += [_lanes(stage, lanes) for lanes in (8, 16, 32, 64)]
    return results + tables(stage)


def parts(stage: Stage) -> list[Result]:
    hit, cold, setup = hotline.hot_pushes(), hotline.cold_pushes(), hotline.setup()
    steps = [  # each does all that the previous one does, and more
        *steps_without_program(cold),
        Step("and our program, 32 lanes cold", SOFTSWITCH, setup, cold),
        Step("our program, 32 lanes hit: 98 B go back", SOFTSWITCH, setup, hit),  # answers without values
    ]
    return [*plain_parts.parts(stage), *measure_steps(stage, steps)]


def writes(stage: Stage) -> list[Result]:
    hot = hotline.hot_updates(hotline.setup())
    return measure_writes(stage, [Insertions("hot set", hotline.setup_without_hot_entries(), hot)])


def load(stage: Stage) -> list[Result]:
    return measure_load(stage, hotline.setup_without_hot_entries(), hotline.cold_pushes())


def compiler(stage: Stage) -> list[Result]:
    tutorial = _P4SRC.parent / "examples" / "tutorial"
    sources = [
        Source(_P4SRC / "hotset" / "hotset.p4", (_P4SRC,), max_cpu_s=1.5),
        Source(tutorial / "once.p4", (_P4SRC,)),
    ]
    return [*measure_compiler(stage, sources), *plain_compiler.compiler(stage)]


def _lanes(stage: Stage, lanes: int) -> Result:
    stage.announce(f"compiled for {lanes} lanes")
    with _compiled_for(lanes) as program:
        setup = hotline.setup(program, lanes)
        values = ns_per_packet(install_program(setup), hotline.hot_pushes(lanes), stage.scale.calls)
    return packet_function(f"our program, compiled for {lanes} lanes, all hit", values)


@contextmanager
def _compiled_for(lanes: int) -> Iterator[CompiledProgram]:
    with tempfile.TemporaryDirectory() as folder:
        program = CompiledProgram(Path(folder) / "hotline")
        made = compile_cached(_P4SRC / "hotset" / "hotset.p4", [_P4SRC], [("LANES", str(lanes))])
        program.json.write_bytes(made.json)
        program.p4info.write_text(made.p4info)
        yield program
