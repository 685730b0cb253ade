"""Run the interpreter beside compiled code on BMv2 JSON as it is committed somewhere, of any age.

`python -m switch_harness.corpus [--frames N] FILE_OR_FOLDER...`, from the folder tests: each .json gets
random entries, and frames that follow its parser. It prints a line for each program, and exits with 1 if one
differs. It needs neither a compiler nor BMv2, so that the JSON is what an older p4c printed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.errors import SwitchError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.pipeline import ControlPlane
from switch_harness.likely import Palette, PathFrames
from switch_harness.state import StateDrawer, Write, cells

MAX_WRITES = 4
"""Writes before a frame."""
CUT_SHARE = 0.2
"""Share of frames that are cut somewhere, so that the parser ends with an error."""
GAPS_US = (0, 1, 10, 1_000, 100_000)


def compare(program: ir.Program, frames: int, random: Random) -> str:
    """Return `alike` or what differs first; raises SwitchError if the program cannot be compiled."""
    oracle, fast = InterpretedPipeline(program), CompiledPipeline(program)
    for pipeline in (oracle, fast):
        pipeline.seed_random(7)
    drawer = StateDrawer(oracle, random)
    paths = PathFrames(program, random, Palette(oracle, random))
    now = 1
    for _ in range(frames):
        for _ in range(random.randrange(MAX_WRITES) if drawer.kinds else 0):
            write = drawer.draw()
            if _result(write, oracle) != _result(write, fast):
                return "differs in the result of a write"
        port, frame = paths.draw()
        if random.random() < CUT_SHARE:
            frame = frame[: random.randrange(len(frame))]
        now += random.choice(GAPS_US)
        results = [
            (pipeline.process(port, frame, now, now + 3), pipeline.take_notices())
            for pipeline in (oracle, fast)
        ]
        if results[0] != results[1]:
            return f"differs: {frame.hex()} into port {port}: interpreted {results[0]}, compiled {results[1]}"
    return "alike" if cells(oracle, drawer.entries) == cells(fast, drawer.entries) else "differs in its state"


def _result(write: Write, pipeline: ControlPlane) -> object:
    try:
        return write(pipeline)
    except SwitchError as error:
        return str(error)


def verdict(path: Path, frames: int) -> str:
    try:
        program = load_program(path.read_bytes())
        no_error = program.errors["NoError"]
        return f"{compare(program, frames, Random(path.stem))} (NoError is {no_error})"
    except SwitchError as error:
        return f"refused: {error}"


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.json")) if path.is_dir() else [path]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--frames", type=int, default=120, help="frames for each program (120)")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    for path in _files(options.paths):
        text = verdict(path, options.frames)
        totals[text.split()[0].rstrip(":")] += 1
        print(f"{path}: {text}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(totals.items())))
    return int(totals["differs"] > 0)


if __name__ == "__main__":
    sys.exit(main())
