"""CPU time of the compiler of P4, and time until a switch runs a program: its P4 source, or its JSON."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from softswitch import processes
from softswitch.conformance.client import P4RuntimeClient
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from softswitch.p4.p4info import p4info, p4info_text
from softswitch.p4runtime.messages import p4r
from switch_bench.results import FROM_JSON, FROM_P4, READY, SOURCES, Result, at_most
from switch_bench.stage import Stage
from switch_bench.workload import CompiledProgram

_TABLES = p4r.Entity(table_entry=p4r.TableEntry())
_PROGRAMS = Path(__file__).parents[3] / "tests" / "programs"


class Source(NamedTuple):
    file: Path
    folders: tuple[Path, ...] = ()
    max_cpu_s: float = 0.2
    """Goal of the time to compile it."""


def compiler(stage: Stage) -> list[Result]:
    return measure_compiler(stage, [Source(_PROGRAMS / "l3.p4"), Source(_PROGRAMS / "control.p4")])


def measure_compiler(stage: Stage, sources: Sequence[Source]) -> list[Result]:
    return [result for source in sources for result in _measure(stage, source)]


def _measure(stage: Stage, source: Source) -> Iterator[Result]:
    name = source.file.stem
    stage.announce(f"compiling {name}")
    with _compiled(source) as program:  # has imported all
        cpu = [_cpu_seconds(source) for _ in range(stage.scale.rounds)]
        yield Result(
            "compiler", f"compile {name}", "CPU s", {FROM_P4: cpu}, (at_most(source.max_cpu_s),), SOURCES
        )
        folders = [option for folder in source.folders for option in ("-I", str(folder))]
        options = {
            FROM_P4: [str(source.file), *folders],
            FROM_JSON: [str(program.json), "--p4info", str(program.p4info)],
        }
        samples: dict[str, list[float]] = {FROM_P4: [], FROM_JSON: []}
        cached = {"XDG_CACHE_HOME": str(program.path.parent)}
        for each in options.values():  # fills the caches
            _seconds_until_ready(stage, each, cached)
        for target in stage.shuffled(list(options)):
            samples[target].append(_seconds_until_ready(stage, options[target], cached))
        yield Result("compiler", f"process start to {name} ready, seen before", "s", samples, READY, SOURCES)


@contextmanager
def _compiled(source: Source) -> Iterator[CompiledProgram]:
    with tempfile.TemporaryDirectory() as folder:
        program = CompiledProgram(Path(folder) / source.file.stem)
        lowered = compile_file(source.file, source.folders)
        program.json.write_bytes(bmv2_json_text(lowered))
        program.p4info.write_text(p4info_text(p4info(lowered)))
        yield program


def _cpu_seconds(source: Source) -> float:
    begin = time.process_time()
    lowered = compile_file(source.file, source.folders)
    bmv2_json_text(lowered)
    p4info_text(p4info(lowered))
    return time.process_time() - begin


def _seconds_until_ready(stage: Stage, options: Sequence[str], environment: dict[str, str]) -> float:
    """Return the time in s from a switch's start to its answer, which waits for the program."""
    begin = time.monotonic()
    starting = processes.softswitch(
        options=[*options, "--datapath", "sockets"], cores=[stage.cores.softswitch], environment=environment
    )
    with starting as switch, P4RuntimeClient(switch.address) as client:
        client.read(_TABLES)
        return time.monotonic() - begin
