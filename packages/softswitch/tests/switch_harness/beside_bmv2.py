"""Run other people's programs on softswitch beside BMv2, with random entries and frames.

`python -m switch_harness.beside_bmv2 [--frames N] [--seed N] FILE_OR_FOLDER...`, from the folder tests:
each .p4 that `p4c-bm2-ss` compiles, and each .json with its .p4info.txtpb, gets a BMv2 of its own
(`HOTLINE_BMV2`, or from the PATH). It prints a line for each program, and exits with 1 if one differs.
Fields of headers are set to 0 in the parser (see `zeroed`); where a frame reads one of an invalid header all
the same, it may differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Protocol, cast

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import Pipeline
from switch_harness.likely import LikelyDrawer, Palette, PathFrames
from switch_harness.p4rt_drawer import P4RuntimeDrawer
from switch_harness.p4rt_writer import P4RuntimeWriter
from switch_harness.traced import Traced
from switch_harness.twins import Exchange, twins
from switch_harness.zeroed import zeroed

WRITES = 80
"""Updates of profiles, replication, cells and defaults before the frames."""
STEPS = 6
"""Lookups that miss, and get an entry, before a frame is sent."""
COMPILE_S = 60


class ComparedSwitches(Protocol):
    """Switches that get the same messages and the same frames, as `Twins` are."""

    @property
    def pipeline(self) -> Pipeline: ...

    def update(self, update: p4r.Update) -> bool: ...

    def exchange(self, port: int, frame: bytes) -> Exchange: ...


class FrameDrawer:
    """Draws frames that often look like what the program compares: constants of its selects and entries."""

    def __init__(self, program: ir.Program, drawer: P4RuntimeDrawer, random: Random) -> None:
        self._random = random
        self._words = [
            value.to_bytes((width + 7) // 8, "big") for value, width in _constants(program, drawer)
        ]

    def draw(self) -> tuple[int, bytes]:
        """Draw a port and a frame of Ethernet's minimum size or more, so that headers are rarely cut."""
        random = self._random
        size, parts = random.choice([64, 100, 200]), [b""]
        if random.random() < 0.5:
            parts.append(random.randbytes(12) + random.choice([b"\x08\0\x45", b"\x86\xdd\x60", b"\x81\0"]))
        while sum(map(len, parts)) < size:
            parts.append(random.choice([bytes([random.randrange(4)]), random.randbytes(1), self._word()]))
        return random.choice([1, 2, 3, 7]), b"".join(parts)[:size]

    def _word(self) -> bytes:
        return self._random.choice(self._words) if self._words else bytes(2)


def _constants(program: ir.Program, drawer: P4RuntimeDrawer) -> Iterator[tuple[int, int]]:
    """Yield numbers and widths that a header's fields may be compared with."""
    for state in program.parser:
        for case in state.cases:
            yield case.value, max(8, case.value.bit_length())
    for entry in drawer.entries:
        table = program.tables[entry.table]
        for part, match in zip(table.key, entry.key, strict=True):
            number = match if isinstance(match, int) else match[0]
            yield number, part.width


def compare(program: Path, frames: int, seed: int) -> str:
    """Return `alike N frames, M sent` or what differs; raises SwitchError if a switch refuses the program."""
    with twins(program) as both:
        return compare_switches(both, Traced(program), frames, Random(seed))


def compare_switches(both: ComparedSwitches, traced: Traced, frames: int, random: Random) -> str:
    """Return what `compare` does, for switches that have the program already."""
    if both.pipeline.program.has(ir.Random):
        return "not compared: it draws random numbers"
    palette = Palette(both.pipeline, random)
    names = {table.preamble.name for table in traced.p4info.tables}
    drawer = LikelyDrawer(both.pipeline, random, palette, names)

    def update(change: p4r.Update) -> bool:
        traced.write(change)
        return both.update(change)

    writer = cast(Pipeline, P4RuntimeWriter(traced.p4info, update))
    others = [kind for kind in drawer.kinds if kind not in (drawer.entry, drawer.removal)]
    for _ in range(WRITES if others else 0):
        random.choice(others)()(writer)
    program = both.pipeline.program
    drawn = [PathFrames(program, random, palette)] * 3 + [FrameDrawer(program, drawer, random)]
    sent, different, leftover, first = 0, 0, 0, ""
    for _ in range(frames):
        port, frame = random.choice(drawn).draw()
        for _ in range(STEPS):
            traced.process(port, frame)
            entry, known = drawer.entry_for_one_of(traced.missed), len(drawer.entries)
            if entry is None or traced.fails_assertion:
                break
            entry(writer)
            traced.process(port, frame)
            if traced.fails_assertion and len(drawer.entries) > known:
                drawer.take_back(writer)
        traced.process(port, frame)
        results = both.exchange(port, frame)
        sent += any(results.values())
        if len({str(sorted(found.items())) for found in results.values()}) == 1:
            continue
        if traced.reads_invalid:
            leftover += 1
        else:
            different += 1
            shown = ", ".join(f"{switch} {found}" for switch, found in results.items())
            first = first or f"into port {port}: {frame.hex()}: {shown}"
    if different:
        return f"{different} of {frames} frames differ, the first {first}"
    named = f", {leftover} differ by fields of invalid headers" if leftover else ""
    return f"alike: {frames} frames, {sent} sent, {traced.hits()}{named}"


def compiled_program(source: Path, folder: Path) -> Path | None:
    """Return the path of a program without its suffix, compiled if it is P4; None if p4c refuses it."""
    if source.suffix == ".json":
        return source.with_suffix("")
    into = folder / source.stem
    command = ["p4c-bm2-ss", "--p4runtime-files", f"{into}.p4info.txtpb", "-o", f"{into}.json", source.name]
    try:
        done = subprocess.run(command, cwd=source.parent, capture_output=True, timeout=COMPILE_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return into if done.returncode == 0 and into.with_suffix(".json").exists() else None


def _sources(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(found for found in path.rglob("*") if found.suffix in (".p4", ".json"))
        else:
            yield path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--frames", type=int, default=100, help="frames for each program (100)")
    parser.add_argument("--seed", type=int, default=1, help="of entries and frames (1)")
    parser.add_argument(
        "--remains", action="store_true", help="leave what earlier packets left in invalid headers"
    )
    options = parser.parse_args()
    differs = False
    with TemporaryDirectory() as folder:
        for source in _sources(options.paths):
            program = compiled_program(source, Path(folder))
            if program is None:
                continue
            try:
                if not options.remains:
                    program = zeroed(program, Path(folder))
                found = compare(program, options.frames, options.seed)
            except (SwitchError, AssertionError) as error:
                found = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            differs |= "differ" in found
            print(f"{source.stem}: {found}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
