"""What a compiled P4_16 program and its syntax tree do with the same frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Masked, MatchKind
from softswitch.p4 import tree
from softswitch.p4.checker import check_program
from softswitch.p4.compiler import compile_file
from softswitch.p4.diagnostics import SourceFiles
from softswitch.p4.parser import parse_program
from softswitch.p4.preprocessor import Preprocessor
from softswitch.p4.scopes import Facts
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_harness.p4_interpreter import TreeSwitch
from switch_harness.p4_programs import DrawnProgram

FILLS = range(20)
"""Fills of undefined values that are compared if the first two do as the compiled program does not."""

Observed = tuple[list[list[tuple[int, bytes]]], dict[str, list[int]], dict[str, list[int]]]
"""Frames sent because of each frame, registers, and counters."""


@dataclass(slots=True)
class Counts:
    """What was compared."""

    programs: int = 0
    frames: int = 0
    undefined: int = 0
    """Programs that do other things with other fills, which are not compared further."""
    reads: int = 0
    """Programs that read undefined values at all."""
    compiled: int = 0
    """Programs that were also run as machine code."""


def parsed(file: Path) -> tuple[tree.Program, Facts]:
    """Return the checked syntax tree of a program."""
    sources = SourceFiles()
    program = parse_program(Preprocessor(sources, (), ()).run(file), sources)
    sources.check()
    facts = check_program(program, sources)
    sources.check()
    return program, facts


def compare(drawn: DrawnProgram, folder: Path, counts: Counts, is_native: bool = False) -> str | None:
    """Return how a compiled program differs from its tree, or None."""
    plain, dense = folder / "plain.p4", folder / "dense.p4"
    plain.write_text(drawn.plain)
    dense.write_text(drawn.dense)
    program, facts = parsed(plain)
    counts.programs += 1
    counts.frames += len(drawn.frames)
    first, reads = _of_tree(program, facts, 0, drawn)
    counts.reads += reads > 0
    if reads and _of_tree(program, facts, 1, drawn)[0] != first:
        counts.undefined += 1
        return None
    lowered = compile_file(dense).program
    pipelines: list[InterpretedPipeline | CompiledPipeline] = [InterpretedPipeline(lowered)]
    if is_native:
        pipelines.append(CompiledPipeline(lowered))
        counts.compiled += 1
    for pipeline in pipelines:
        found = _of_pipeline(pipeline, drawn)
        if found == first:
            continue
        if reads and any(_of_tree(program, facts, fill, drawn)[0] != first for fill in FILLS[2:]):
            counts.undefined += 1
            return None
        return f"{type(pipeline).__name__}: {_difference(found, first, drawn)}"
    return None


def _of_tree(program: tree.Program, facts: Facts, fill: int, drawn: DrawnProgram) -> tuple[Observed, int]:
    switch = TreeSwitch(program, facts, fill, drawn.entries)
    sent = [switch.process(port, frame) for port, frame in drawn.frames]
    return (sent, switch.registers, switch.counters), switch.fill.reads


def _of_pipeline(pipeline: InterpretedPipeline | CompiledPipeline, drawn: DrawnProgram) -> Observed:
    _add_entries(pipeline, drawn)
    sent = [
        [(each.port, bytes(each.frame)) for each in pipeline.process(port, frame, 0, 0)]
        for port, frame in drawn.frames
    ]
    program, cells = pipeline.program, pipeline.cells
    registers = {_last(each.name): cells.read_register(each.name, 0, each.size) for each in program.registers}
    counters = {
        _last(each.name): [cell.packets for cell in cells.read_counter(each.name, 0, each.size)]
        for each in program.counters
    }
    return sent, registers, counters


def _add_entries(pipeline: InterpretedPipeline | CompiledPipeline, drawn: DrawnProgram) -> None:
    for table in pipeline.program.tables.values():
        names = [pipeline.program.actions[i].name for i in table.actions]
        actions = {_last(name): name for name in names}
        is_ordered = any(part.kind is MatchKind.TERNARY for part in table.key)
        for entry in drawn.entries.get(_last(table.name), ()):
            kinds = [part.kind for part in table.key]
            key = tuple(
                value if kind is MatchKind.EXACT else Masked(value, mask)
                for kind, (value, mask) in zip(kinds, entry.keys, strict=True)
            )
            action = ActionCall(actions[entry.action], entry.data)
            priority = entry.priority if is_ordered else 0
            [error] = pipeline.tables.write([EntryWrite(Change.INSERT, table.name, key, action, priority)])
            assert error is None, f"{table.name}: {error}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _difference(found: Observed, expected: Observed, drawn: DrawnProgram) -> str:
    for (port, frame), one, other in zip(drawn.frames, found[0], expected[0], strict=True):
        if one != other:
            texts = [[f"{p}@{f.hex()}" for p, f in each] for each in (one, other)]
            return f"frame {port}@{frame.hex()}: sent {texts[0]}, by the tree {texts[1]}"
    return f"state {found[1:]}, by the tree {expected[1:]}"
