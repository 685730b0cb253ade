"""Run other people's programs on softswitch beside BMv2, with random entries and frames.

`python -m switch_harness.beside_bmv2 [--frames N] [--seed N] FILE_OR_FOLDER...`, from the folder tests:
each .p4 that `p4c-bm2-ss` compiles, and each .json with its .p4info.txtpb, gets a BMv2 of its own
(`HOTLINE_BMV2`, or from the PATH). It prints a line for each program, and exits with 1 if one differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.pipeline import LogRecord, Output, Pipeline
from switch_harness.bmv2 import twins
from switch_harness.p4rt_drawer import P4RuntimeDrawer
from switch_harness.twins import Twins

WRITES = 150
"""Updates of tables, profiles and replication before the frames."""
COMPILE_S = 60


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
    random = Random(seed)
    with twins(program) as both:
        if both.pipeline.program.has(ir.Random):
            return "not compared: it draws random numbers"
        drawer = P4RuntimeDrawer(both.pipeline, random)
        for _ in range(WRITES if drawer.kinds else 0):
            drawer.draw()(cast(Pipeline, both.write))
        drawn, sent, different = FrameDrawer(both.pipeline.program, drawer, random), 0, 0
        first = ""
        for _ in range(frames):
            port, frame = drawn.draw()
            ours, reference = _exchange(both, port, frame)
            sent += bool(ours)
            if ours != reference:
                different += 1
                first = first or f"into port {port}: {frame.hex()}: softswitch {ours}, BMv2 {reference}"
        if different:
            return f"{different} of {frames} frames differ, the first {first}"
        return f"alike: {frames} frames, {sent} sent"


def _exchange(both: Twins, port: int, frame: bytes) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """Return what leaves each port of both; nothing is sent to BMv2 if an assertion would end it."""
    ours, notices = both.expect(port, frame)
    if any(isinstance(notice, LogRecord) and notice.failed for notice in notices):
        return {}, {}
    return _by_port(ours), _by_port(both.observe(port, frame))


def _by_port(outputs: Sequence[Output]) -> dict[int, list[str]]:
    ports: dict[int, list[str]] = defaultdict(list)
    for port, data in outputs:
        ports[port].append(data.hex())
    return dict(ports)


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
    options = parser.parse_args()
    differs = False
    with TemporaryDirectory() as folder:
        for source in _sources(options.paths):
            program = compiled_program(source, Path(folder))
            if program is None:
                continue
            try:
                found = compare(program, options.frames, options.seed)
            except (SwitchError, AssertionError) as error:
                found = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            differs |= "differ" in found
            print(f"{source.stem}: {found}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
